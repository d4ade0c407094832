"""EndTxn: commits and aborts, the repeated, the contradictory and the refused ones."""

from typing import Any

from tests.compat.situations.producers import Producer, initialised
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

VERSIONS = range(5)
"""Those that do not raise the epoch with each transaction."""


@situation("EndTxn v0 to v4 commits and aborts what was written")
def every_version(broker: Broker) -> Any:
    topic = broker.create("end-versions")
    seen = {}
    for version in VERSIONS:
        producer = initialised(broker, f"end-v{version}")
        producer.write(topic, 2)
        committed = [producer.commit(version), producer.describe()]
        producer.write(topic, 2)
        seen[version] = [committed, producer.abort(version), producer.describe()]
    return seen


@situation("EndTxn without a transaction: of a new producer, and after a new epoch")
def without_a_transaction(broker: Broker) -> Any:
    seen = {}
    for commits in (True, False):
        producer = initialised(broker, f"end-without-{commits}")
        seen[f"commit {commits}"] = [producer.end(version, commits=commits) for version in VERSIONS]
        producer.init()
        seen[f"commit {commits} in a new epoch"] = [producer.end(commits=commits), producer.describe()]
    return seen


@situation("EndTxn of a transaction that has partitions and no records")
def without_records(broker: Broker) -> Any:
    topic = broker.create("end-without-records", partitions=2)
    producer = initialised(broker, "end-without-records")
    seen = []
    for end in (producer.commit, producer.abort):
        producer.add({topic: [0, 1]})
        seen += [end(), producer.describe()]
    return seen


@situation("EndTxn twice, with the same outcome and with the other one")
def twice(broker: Broker) -> Any:
    topic = broker.create("end-twice")
    seen = {}
    for first in (True, False):
        for second in (True, False):
            producer = initialised(broker, f"end-twice-{first}-{second}")
            producer.write(topic)
            (producer.commit if first else producer.abort)()
            seen[f"{first} then {second}"] = [
                [producer.end(version, commits=second) for version in VERSIONS],
                producer.state(),
            ]
    return seen


@situation("EndTxn repeated at once, while the markers are being written")
def at_once(broker: Broker) -> Any:
    topic = broker.create("end-at-once")
    seen = {}
    for commits in (True, False):
        producer = initialised(broker, f"end-at-once-{commits}")
        producer.write(topic)
        answers = [producer.end_after(commits=commits) for _ in range(2)]
        seen[commits] = [*answers, producer.end(commits=not commits)]
    return seen


@situation("EndTxn with the other outcome at once, while the markers are being written")
def contradicted_at_once(broker: Broker) -> Any:
    topic = broker.create("end-contradicted")
    seen = {}
    for commits in (True, False):
        producer = initialised(broker, f"end-contradicted-{commits}")
        producer.write(topic)
        seen[commits] = [producer.end(commits=commits), producer.end_after(commits=not commits)]
    return seen


@situation("EndTxn with an older and a newer epoch than the producer's")
def wrong_epochs(broker: Broker) -> Any:
    topic = broker.create("end-epochs")
    producer = initialised(broker, "end-epochs")
    producer.init()
    asked = {
        f"{{}} epoch {epoch} v{version}": (version, epoch) for epoch in (0, 2, -1, 2**15 - 1) for version in VERSIONS
    }
    seen: dict[str, Any] = {
        name.format("Empty"): producer.end(version, producer_epoch=epoch) for name, (version, epoch) in asked.items()
    }
    producer.write(topic)
    seen |= {
        name.format("Ongoing"): producer.end(version, producer_epoch=epoch) for name, (version, epoch) in asked.items()
    }
    producer.commit()
    seen |= {
        name.format("Complete"): producer.end(version, producer_epoch=epoch) for name, (version, epoch) in asked.items()
    }
    return seen | {"described": producer.describe()}


@situation("EndTxn with another producer's id, of an unknown transactional id, and of an empty one")
def wrong_ids(broker: Broker) -> Any:
    topic = broker.create("end-ids")
    producer, other = initialised(broker, "end-ids"), broker.new_producer_id()
    producer.write(topic)
    asked: dict[str, Any] = {
        "another id": {"producer_id": other},
        "no id": {"producer_id": -1, "producer_epoch": -1},
        "unknown": {"transactional_id": broker.name("end-nowhere")},
        "empty": {"transactional_id": ""},
    }
    seen = {
        f"{name} v{version}": producer.end(version, **changes)
        for name, changes in asked.items()
        for version in VERSIONS
    }
    return seen | {"described": producer.describe(), "its own": producer.commit()}


@situation("EndTxn of a transaction that a new producer is aborting")
def being_fenced(broker: Broker) -> Any:
    topic = broker.create("end-being-fenced")
    producer = initialised(broker, "end-being-fenced")
    producer.write(topic)
    successor = Producer(broker, "end-being-fenced")
    first = successor.init()
    seen = [producer.end(version, commits=commits) for version in VERSIONS for commits in (True, False)]
    return [first, seen, successor.init_after()]


@situation("EndTxn when a topic of the transaction was deleted")
def deleted_topic(broker: Broker) -> Any:
    kept = broker.create("end-kept")
    seen = {}
    for commits in (True, False):
        deleted = broker.create(f"end-deleted-{commits}")
        producer = initialised(broker, f"end-deleted-{commits}")
        producer.write(kept)
        producer.write(deleted)
        broker.ask("DeleteTopics", 4, topic_names=[deleted], timeout_ms=10_000)
        until(
            lambda deleted=deleted: broker.ask(
                "Metadata", 9, topics=[{"name": deleted}], allow_auto_topic_creation=False
            ),
            lambda answer: answer["topics"][0]["error_code"] == 3,
        )
        ended = (producer.commit if commits else producer.abort)()
        seen[commits] = [ended, producer.describe(), producer.add({kept: [0]}), producer.abort()]
    return seen


@situation("the next transaction after EndTxn has its own records and its own outcome")
def one_after_the_other(broker: Broker) -> Any:
    topic = broker.create("end-next")
    producer = initialised(broker, "end-next")
    seen = []
    for end in (producer.commit, producer.abort, producer.commit):
        added = producer.add_after({topic: [0]})
        seen.append([added, producer.send(topic, 2), end()])
    return [seen, producer.describe()]
