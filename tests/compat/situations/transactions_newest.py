"""Transactions in the versions of requests that are newer than 3.9, judged by the newest Apache Kafka.

It has not raised transaction.version, so that a producer keeps its epoch from one transaction to the next here as there
(KIP-890 part 2 is not on).
"""

from typing import Any

from tests.compat.situations.definitions import Values
from tests.compat.situations.fetch import fetch
from tests.compat.situations.members import Group
from tests.compat.situations.producers import Producer, at, initialised, settled
from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.wire import Broker


@situation("a transaction in the newest versions that keep the producer's epoch", judge=KRAFT)
def whole(broker: Broker) -> Any:
    topic = broker.create_led("newest-whole", partitions=2)
    with Group(broker, "newest-whole") as group:
        producer = Producer(broker, "newest-whole")
        seen = [producer.init(5), producer.add({topic: [0]}), producer.add_offsets(group.id, 4)]
        seen += [producer.send(topic, 2, version=11), producer.send(topic, partition=1, version=11)["error_code"]]
        seen += [producer.commit_offsets(group.id, {topic: [at(5)]}, 4), producer.commit(4), producer.describe()]
        seen += [producer.add({topic: [1]}), producer.send(topic, partition=1, version=11), producer.abort(4)]
        return [seen, producer.describe(), settled(group, topic), producer.init(5)]


@situation("Produce v12 and v13 of transactional batches in a transaction that has the partition", judge=KRAFT)
def produced(broker: Broker) -> Any:
    topic = broker.create_led("newest-produced")
    topic_id = broker.topic_id(topic)
    producer = initialised(broker, "newest-produced")
    producer.write(topic)
    seen = []
    for sequence, version in ((1, 12), (2, 13)):
        records = producer.batch(topic, base_sequence=sequence)
        name: Values = {"topic_id": topic_id} if version >= 13 else {"name": topic}
        topics = [{**name, "partition_data": [{"index": 0, "records": records}]}]
        fields = {"transactional_id": producer.id, "acks": -1, "timeout_ms": 5_000, "topic_data": topics}
        seen.append(broker.ask("Produce", version, **fields))
    return [seen, producer.commit()]


@situation("a fenced producer, in the newest versions that keep the producer's epoch", judge=KRAFT)
def fenced(broker: Broker) -> Any:
    topic = broker.create_led("newest-fenced")
    with Group(broker, "newest-fenced") as group:
        producer = initialised(broker, "newest-fenced")
        own = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        producer.write(topic)
        Producer(broker, "newest-fenced").init_after()
        seen: dict[str, Any] = {f"EndTxn v{version}": producer.end(version) for version in range(5)}
        seen |= {f"AddPartitionsToTxn v{version}": producer.add({topic: [0]}, version) for version in range(6)}
        seen |= {f"AddOffsetsToTxn v{version}": producer.add_offsets(group.id, version) for version in range(5)}
        seen |= {
            f"TxnOffsetCommit v{version}": producer.commit_offsets(group.id, {topic: [at(5)]}, version)
            for version in range(5)
        }
        seen |= {f"Produce v{version}": producer.send(topic, version=version)["error_code"] for version in (3, 10, 11)}
        return seen | {f"InitProducerId v{version}": producer.init(version, **own) for version in (3, 4, 5)}


@situation("EndTxn twice and without a transaction, in the newest versions that keep the epoch", judge=KRAFT)
def ended(broker: Broker) -> Any:
    topic = broker.create_led("newest-ended")
    seen = {}
    for commits in (True, False):
        producer = initialised(broker, f"newest-ended-{commits}")
        empty = [producer.end(version, commits=commits) for version in (3, 4)]
        producer.write(topic)
        (producer.commit if commits else producer.abort)(4)
        again = [producer.end(version, commits=other) for version in (3, 4) for other in (True, False)]
        seen[commits] = [empty, again, producer.describe()]
    return seen


@situation("Produce v10 and v11 without a transaction, as the newest Apache Kafka answers", judge=KRAFT)
def not_added(broker: Broker) -> Any:
    topic = broker.create_led("newest-not-added", partitions=2)
    producer = initialised(broker, "newest-not-added")
    seen = {f"Empty v{version}": producer.send(topic, version=version) for version in (10, 11)}
    producer.add({topic: [0]})
    seen |= {f"Ongoing v{version}": producer.send(topic, partition=1, version=version) for version in (10, 11)}
    return seen | {"end": producer.abort()}


@situation("Fetch v18 and ListOffsets v10 and v11 with read_committed", judge=KRAFT)
def read(broker: Broker) -> Any:
    topic = broker.create_led("newest-read")
    producer = initialised(broker, "newest-read")
    producer.write(topic, 2)
    producer.abort()
    producer.write(topic, 3)

    def ask() -> Any:
        seen = {"fetched": [fetch(broker, topic, offset, version=18, isolation_level=1) for offset in (0, 2, 3)]}
        for version in (10, 11):
            for which in (-1, -2, -3):
                topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": which}]}]
                answer = broker.ask("ListOffsets", version, replica_id=-1, isolation_level=1, topics=topics)
                row = answer["topics"][0]["partitions"][0]
                seen[f"v{version} {which}"] = [row["offset"], row["error_code"], row["leader_epoch"]]
        return seen

    return [ask(), producer.commit(), ask()]


@situation("OffsetFetch v10 of a group with an open transaction, stable and not", judge=KRAFT)
def offsets(broker: Broker) -> Any:
    topic = broker.create_led("newest-offsets", partitions=2)
    topic_id = broker.topic_id(topic)
    with Group(broker, "newest-offsets") as group:
        producer = initialised(broker, "newest-offsets")
        producer.add_offsets(group.id)
        producer.commit_offsets(group.id, {topic: [at(5)]})

        def ask(*, stable: bool) -> Any:
            topics = [{"topic_id": topic_id, "partition_indexes": [0, 1]}]
            groups = [{"group_id": group.id, "topics": topics}]
            answer = broker.ask("OffsetFetch", 10, groups=groups, require_stable=stable)
            answer["groups"][0]["topics"][0]["partitions"].sort(key=lambda row: row["partition_index"])
            return answer

        still_open = [ask(stable=stable) for stable in (True, False)]
        ended = producer.commit()
        settled(group, topic)
        return [still_open, ended, [ask(stable=stable) for stable in (True, False)]]
