"""Produce by idempotent producers: duplicates, gaps, old epochs, and the sequence's end."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


class _Sender:
    """Sends batches of one producer to one partition."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = broker.create(topic)
        self.producer_id = broker.new_producer_id()

    def send(self, sequence: int, count: int = 2, epoch: int = 0, **fields: Any) -> Any:
        data = batch(count, producer_id=self.producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)
        return self.broker.produce(self.topic, data)


@situation("Produce of a duplicate sequence is answered with the first offset")
def duplicate(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-duplicate")
    return [sender.send(0), sender.send(2), sender.send(2), sender.send(0), sender.send(4)]


@situation("Produce of a duplicate older than the last five batches")
def old_duplicate(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-old-duplicate")
    sent = [sender.send(2 * i) for i in range(7)]
    return [*sent, sender.send(4), sender.send(0), sender.send(2)]


@situation("Produce of an out-of-order sequence")
def out_of_order(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-gap")
    return [sender.send(0), sender.send(5), sender.send(3), sender.send(2)]


@situation("Produce that overlaps an earlier batch in part")
def overlap(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-overlap")
    return [sender.send(0, 4), sender.send(0, 2), sender.send(2, 2), sender.send(2, 4), sender.send(4, 1)]


@situation("Produce of an unknown producer that does not begin at 0")
def unknown_producer(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-unknown")
    return [sender.send(7), sender.send(9), sender.send(0)]


@situation("Produce of an old epoch, and of a new one")
def epochs(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-epochs")
    return {
        "epoch 3": sender.send(0, epoch=3),
        "epoch 2": sender.send(2, epoch=2),
        "epoch 4, sequence 5": sender.send(5, epoch=4),
        "epoch 4, sequence 0": sender.send(0, epoch=4),
        "epoch 4, sequence 2": sender.send(2, epoch=4),
        "epoch 3 again": sender.send(2, epoch=3),
    }


@situation("Produce across the end of the sequence, 2^31-1")
def wrap(broker: Broker) -> Any:
    sender = _Sender(broker, "sequence-wrap")
    return [
        sender.send(2**31 - 3, 2),
        sender.send(2**31 - 1, 3),
        sender.send(2**31 - 1, 3),
        sender.send(2, 1),
        sender.send(0, 1),
    ]


@situation("Produce with half a producer identity")
def half_identity(broker: Broker) -> Any:
    topic = broker.create("sequence-half")
    return {
        "no epoch": broker.produce(topic, batch(1, producer_id=77, producer_epoch=-1, base_sequence=0)),
        "no sequence": broker.produce(topic, batch(1, producer_id=77, producer_epoch=0, base_sequence=-1)),
        "no id": broker.produce(topic, batch(1, producer_id=-1, producer_epoch=0, base_sequence=0)),
        "id -2": broker.produce(topic, batch(1, producer_id=-2, producer_epoch=0, base_sequence=0)),
        "an unassigned id": broker.produce(topic, batch(1, producer_id=999_999_999, producer_epoch=0, base_sequence=0)),
    }


@situation("InitProducerId v0 to v4 without a transactional id")
def init_producer_id(broker: Broker) -> Any:
    def ask(version: int) -> Any:
        # Apache Kafka says 14 while it fetches its first block of ids.
        return until(
            lambda: broker.ask("InitProducerId", version, transactional_id=None, transaction_timeout_ms=1000),
            lambda answer: answer["error_code"] != 14,
        )

    seen = {version: ask(version) for version in range(5)}
    ids = [answer["producer_id"] for answer in seen.values()]
    return {"answers": seen, "ids rise": ids == sorted(set(ids))}


@situation("InitProducerId with a producer id and epoch given")
def init_again(broker: Broker) -> Any:
    mine = broker.new_producer_id()

    def ask(version: int, producer_id: int, epoch: int) -> Any:
        answer = broker.ask(
            "InitProducerId",
            version,
            transactional_id=None,
            transaction_timeout_ms=1000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        if not isinstance(answer, str):
            answer["the same id"] = answer["producer_id"] == producer_id
        return answer

    return {
        "its own": ask(3, mine, 0),
        "its own v4": ask(4, mine, 0),
        "another epoch": ask(3, mine, 5),
        "an unknown id": ask(3, 123_456_789, 3),
        "the last epoch": ask(3, mine, 32766),
        "an id without epoch": ask(3, mine, -1),
        "an epoch without id": ask(3, -1, 0),
    }


@situation("InitProducerId with wrong timeouts and an empty transactional id")
def init_wrong(broker: Broker) -> Any:
    def ask(transactional_id: str | None, timeout_ms: int) -> Any:
        return broker.ask("InitProducerId", 1, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

    return {
        "timeout 0 without transactions": ask(None, 0),
        "timeout -1 without transactions": ask(None, -1),
        "empty transactional id": ask("", 1000),
    }
