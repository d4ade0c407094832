"""Produce within transactions and outside of them: what is stored, and what is refused (KIP-98, KIP-890)."""

from typing import Any

from tests.compat.situations.batches import CONTROL, batch, record
from tests.compat.situations.fetch import fetch
from tests.compat.situations.producers import TRANSACTIONAL, initialised
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker

VERSIONS = range(3, 12)
"""Those of transactional batches, up to the last one that adds no partitions by itself."""


def _sent(
    broker: Broker, transactional_id: str | None, topic: str, *batches: bytes, version: int = 9, acks: int = -1
) -> Any:
    """The answer to one request with a batch for each partition from 0 on, its rows in order."""
    rows = [{"index": index, "records": records} for index, records in enumerate(batches)]
    topics = [{"name": topic, "partition_data": rows}]
    fields = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 5_000, "topic_data": topics}
    answer = broker.ask("Produce", version, **fields)
    if isinstance(answer, dict):
        for one in answer["responses"]:
            one["partition_responses"].sort(key=lambda row: row["index"])
    return answer


@situation("Produce v3 to v11 of transactional batches in a transaction that has the partition")
def every_version(broker: Broker) -> Any:
    topic = broker.create("txn-produce")
    producer = initialised(broker, "txn-produce")
    producer.add({topic: [0]})
    sent = {version: producer.send(topic, 2, version=version) for version in VERSIONS}
    return [sent, producer.commit()]


@situation("Produce v3 to v11 of a transactional batch without a transaction, and to a partition that is not in it")
def not_added(broker: Broker) -> Any:
    topic = broker.create("txn-not-added", partitions=2)
    producer = initialised(broker, "txn-not-added")
    empty = {version: producer.send(topic, version=version) for version in VERSIONS}
    producer.add({topic: [0]})
    ongoing = {version: producer.send(topic, partition=1, version=version) for version in VERSIONS}
    return {"Empty": empty, "Ongoing": ongoing, "the one that is": producer.send(topic), "end": producer.commit()}


@situation("Produce in a transaction after a batch was refused since the partition was not in it")
def added_afterwards(broker: Broker) -> Any:
    topic = broker.create("txn-added-afterwards")
    producer = initialised(broker, "txn-added-afterwards")
    refused = [producer.send(topic), producer.send(topic, base_sequence=1)]
    producer.add({topic: [0]})
    return [
        refused,
        producer.send(topic, base_sequence=1),
        producer.send(topic),
        producer.send(topic),
        producer.commit(),
    ]


@situation("Produce after a commit and after an abort, without a new transaction")
def after_the_end(broker: Broker) -> Any:
    topic = broker.create("txn-after-the-end")
    producer = initialised(broker, "txn-after-the-end")
    seen = []
    for end in (producer.commit, producer.abort):
        producer.write(topic)
        seen += [end(), producer.send(topic, version=10), producer.send(topic, version=11)]
    return seen


@situation("Produce of a transactional batch again: in its transaction, and after its end")
def again(broker: Broker) -> Any:
    topic = broker.create("txn-again")
    producer = initialised(broker, "txn-again")
    producer.write(topic, 2)
    seen = {"in its transaction": producer.send(topic, 2, base_sequence=0)}
    producer.commit()
    seen["after its end"] = producer.send(topic, 2, base_sequence=0)
    producer.add({topic: [0]})
    seen["in the next one"] = producer.send(topic, 2, base_sequence=0)
    seen["a new batch"] = producer.send(topic, 2)
    return [seen, producer.commit()]


@situation("Produce of transactional batches whose sequences have a gap")
def gaps(broker: Broker) -> Any:
    topic = broker.create("txn-gaps", partitions=2)
    producer = initialised(broker, "txn-gaps")
    producer.add({topic: [0, 1]})
    seen = {"first of all": producer.send(topic, base_sequence=4), "right": producer.send(topic, 2)}
    seen["a gap"] = producer.send(topic, base_sequence=7)
    producer.commit()
    producer.add({topic: [0, 1]})
    seen["a gap in the next one"] = producer.send(topic, base_sequence=9)
    seen["right in the next one"] = producer.send(topic)
    seen["another partition"] = producer.send(topic, partition=1, base_sequence=3)
    return [seen, producer.abort()]


@situation("Produce of a new epoch that does not begin at 0, and that does")
def new_epoch(broker: Broker) -> Any:
    topic = broker.create("txn-new-epoch")
    producer = initialised(broker, "txn-new-epoch")
    producer.write(topic, 2)
    producer.commit()
    producer.init()
    producer.add({topic: [0]})
    return [producer.send(topic, base_sequence=2), producer.send(topic), producer.send(topic), producer.commit()]


@situation("Produce of transactional batches with an older and a newer epoch")
def wrong_epochs(broker: Broker) -> Any:
    topic = broker.create("txn-wrong-epochs", partitions=2)
    producer = initialised(broker, "txn-wrong-epochs")
    producer.init()
    producer.add({topic: [0, 1]})
    seen = {
        f"first epoch {epoch} v{version}": producer.send(topic, version=version, producer_epoch=epoch)
        for epoch in (0, 2)
        for version in (9, 11)
    }
    seen["its own"] = producer.send(topic)
    seen |= {
        f"then epoch {epoch} v{version}": producer.send(topic, version=version, producer_epoch=epoch)
        for epoch in (0,)
        for version in (9, 11)
    }
    return [seen, producer.commit()]


@situation("Produce of transactional batches with another transactional id, and with none")
def other_owner(broker: Broker) -> Any:
    topic = broker.create("txn-other-owner")
    producer, other = initialised(broker, "txn-other-owner"), initialised(broker, "txn-another-owner")
    other.add({topic: [0]})
    producer.add({topic: [0]})
    owners = {"another": other.id, "unknown": broker.name("txn-unknown-owner"), "empty": "", "none": None}
    seen = {}
    for name, owner in owners.items():
        for version in (9, 11):
            seen[f"{name} v{version}"] = _sent(broker, owner, topic, producer.batch(topic), version=version)
    return [seen, producer.commit(), other.commit()]


@situation("Produce of a transactional batch of no producer, and of an id that was never given")
def half_identity(broker: Broker) -> Any:
    topic = broker.create("txn-half")
    producer = initialised(broker, "txn-half")
    producer.add({topic: [0]})
    return {
        "no producer id": producer.send(topic, producer_id=-1, producer_epoch=-1, base_sequence=-1),
        "an id that was never given": producer.send(topic, producer_id=producer.producer_id + 10**9),
        "end": producer.commit(),
    }


@situation("Produce of plain and of idempotent batches in a request with a transactional id")
def not_transactional(broker: Broker) -> Any:
    topic = broker.create("txn-plain")
    producer = initialised(broker, "txn-plain")
    idempotent = batch(1, producer_id=broker.new_producer_id(), producer_epoch=0, base_sequence=0)
    return {
        "plain": _sent(broker, producer.id, topic, batch(1)),
        "idempotent": _sent(broker, producer.id, topic, idempotent),
        "end": fetch(broker, topic, 2, isolation_level=1),
    }


@situation("Produce of an idempotent batch by a producer whose transaction is open")
def idempotent_in_a_transaction(broker: Broker) -> Any:
    topic = broker.create("txn-idempotent", partitions=2)
    producer = initialised(broker, "txn-idempotent")
    producer.write(topic)
    seen = {
        "its partition": producer.send(topic, attributes=0),
        "another one": producer.send(topic, partition=1, attributes=0),
    }
    return [seen, producer.commit(), producer.send(topic, attributes=0)]


@situation("Produce of transactional and of plain batches in one request")
def mixed(broker: Broker) -> Any:
    topic = broker.create("txn-mixed", partitions=3)
    producer = initialised(broker, "txn-mixed")
    producer.add({topic: [0]})
    return [_sent(broker, producer.id, topic, producer.batch(topic), batch(1), batch(1)), producer.commit()]


@situation("Produce for a partition in the transaction and one that is not, in one request")
def in_part(broker: Broker) -> Any:
    topic = broker.create("txn-in-part", partitions=3)
    producer = initialised(broker, "txn-in-part")
    producer.add({topic: [0, 2]})
    batches = [producer.batch(topic, partition=index) for index in range(4)]
    answers = [_sent(broker, producer.id, topic, *batches, version=version) for version in (10, 11)]
    return [answers, producer.commit()]


@situation("Produce of transactional batches of two producers in one request")
def two_producers(broker: Broker) -> Any:
    topic = broker.create("txn-two", partitions=2)
    both = [initialised(broker, f"txn-two-{index}") for index in (0, 1)]
    for producer in both:
        producer.add({topic: [0, 1]})
    answer = _sent(broker, both[0].id, topic, *(producer.batch(topic) for producer in both))
    return [answer, [producer.abort() for producer in both]]


@situation("Produce of control batches by a client")
def control(broker: Broker) -> Any:
    topic = broker.create("txn-control")
    producer = initialised(broker, "txn-control")
    producer.write(topic)
    marker = [record(b"\0\0\0\0\0\0", key=b"\0\0\0\1")]
    identity = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    commit = batch(marker, attributes=TRANSACTIONAL | CONTROL, **identity)
    seen = {
        "of its transaction": producer.send(topic, attributes=TRANSACTIONAL | CONTROL),
        "a commit": _sent(broker, producer.id, topic, commit),
        "of no producer": broker.produce(topic, batch(marker, attributes=CONTROL)),
    }
    return [seen, producer.commit()]


@situation("Produce of a transactional batch with acks 1")
def other_acks(broker: Broker) -> Any:
    topic = broker.create("txn-acks")
    producer = initialised(broker, "txn-acks")
    producer.add({topic: [0]})
    return [_sent(broker, producer.id, topic, producer.batch(topic), acks=1), producer.commit()]


@situation("Produce of transactional batches to internal topics")
def internal(broker: Broker) -> Any:
    producer = initialised(broker, "txn-internal")
    producer.add_offsets("g")
    return [producer.send("__transaction_state"), producer.send("__consumer_offsets"), producer.abort()]


@situation("Produce of a transactional batch for an unknown topic and an unknown partition")
def unknown(broker: Broker) -> Any:
    topic = broker.create("txn-known")
    producer = initialised(broker, "txn-unknown")
    producer.add({topic: [0]})
    return [producer.send(broker.name("txn-nowhere")), producer.send(topic, partition=4), producer.abort()]
