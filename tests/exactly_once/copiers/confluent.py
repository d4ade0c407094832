"""The copier with confluent-kafka: a member of a group, fenced by its generation (KIP-447)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from tests.exactly_once.copiers.orders import (
    PATIENCE_S,
    PIECE_MAX,
    POLL_S,
    SESSION_MS,
    TRANSACTION_TIMEOUT_MS,
    Journal,
    Orders,
    Stop,
    output,
    run,
)

_COMMON: dict[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 2_000,
    "socket.timeout.ms": 10_000,
}


class Copier:
    """One consumer and its producer."""

    def __init__(self, orders: Orders, journal: Journal) -> None:
        self._orders = orders
        self._journal = journal
        timeouts = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "message.timeout.ms": TRANSACTION_TIMEOUT_MS - 1}
        self._producer = Producer(
            {**_COMMON, **timeouts, "bootstrap.servers": orders.bootstrap, "transactional.id": orders.name}
        )
        self.consumer = Consumer(
            {
                **_COMMON,
                "bootstrap.servers": orders.bootstrap,
                "group.id": orders.group,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 3,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._is_moved = False
        self._member: Any = None
        self._producer.init_transactions(PATIENCE_S)
        self.consumer.subscribe([orders.source], on_assign=self._assigned, on_revoke=self._moved, on_lost=self._moved)

    def _assigned(self, *_: Any) -> None:
        """Keep the generation in which all that follows is read.

        The client's own may be forgotten at any time, when a heartbeat is refused: offsets sent without one are fenced
        by nothing.
        """
        self._is_moved = True
        self._member = self.consumer.consumer_group_metadata()

    def _moved(self, *_: Any) -> None:
        self._is_moved = True

    def next_piece(self) -> list[Message]:
        """Some records, all read in one generation: those from before a rebalance may be another member's now."""
        piece: list[Message] = []
        self._is_moved = False
        while len(piece) < PIECE_MAX:
            message = self.consumer.poll(0.02 if piece else POLL_S)
            if self._is_moved:
                piece, self._is_moved = [], False
            if message is None:
                break
            if message.error() is None:
                piece.append(message)
        return piece

    def copy(self, piece: list[Message]) -> None:
        """One transaction; what it could not do is read again. Raises KafkaException where the client cannot go on."""
        name = self._journal.begin()
        try:
            self._send(name, piece)
            if not self._journal.is_to_be_aborted:
                _repeated(lambda: self._producer.commit_transaction(PATIENCE_S))
                self._journal.ended(name, "committed")
                return
            self._producer.flush(PATIENCE_S)
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
        _repeated(lambda: self._producer.abort_transaction(PATIENCE_S))
        self._journal.ended(name, "aborted")
        self._rewind()

    def _send(self, name: str, piece: list[Message]) -> None:
        self._producer.begin_transaction()
        for message in piece:
            value = output(message.value(), name, len(piece))
            self._producer.produce(self._orders.sink, value, partition=message.partition())
        ends = {message.partition(): message.offset() + 1 for message in piece}
        positions = [TopicPartition(self._orders.source, number, offset) for number, offset in ends.items()]
        _repeated(lambda: self._producer.send_offsets_to_transaction(positions, self._member, PATIENCE_S))

    def _rewind(self) -> None:
        """Read on from what is committed."""
        for one in _repeated(lambda: self.consumer.committed(self.consumer.assignment(), PATIENCE_S)):
            offset = one.offset if one.offset >= 0 else OFFSET_BEGINNING
            place = TopicPartition(one.topic, one.partition, offset)
            _repeated(lambda place=place: self.consumer.seek(place))


def _repeated(request: Callable[[], Any]) -> Any:
    """The result of a request, made again when the client calls its error one to be retried.

    Not for ever. When the group coordinator was gone from the metadata for a while, librdkafka 2.16 waits for a connection
    that it has given up (issue 5511), and does not time out (issue 5456): `Stop.is_wanted` ends the program then.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return request()
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise


def copy(orders: Orders, journal: Journal, stop: Stop) -> None:
    copier = Copier(orders, journal)
    while not stop.is_wanted():
        if piece := copier.next_piece():
            copier.copy(piece)
    copier.consumer.close()


if __name__ == "__main__":
    run(copy)
