"""The copier with kafka-python: a member of a group, fenced by its generation (KIP-447).

kafka-python 3.0 loses a request when its coordinator's connection fails at that moment, and waits for the answer for ever:
`Stop.is_wanted` ends the program then.
"""

from __future__ import annotations

import warnings
from typing import Any

from tests.exactly_once.copiers.orders import (
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

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError, ProducerFencedError
    from kafka.structs import OffsetAndMetadata

Piece = dict[TopicPartition, list[Any]]


class Copier:
    """One consumer and its producer."""

    def __init__(self, orders: Orders, journal: Journal) -> None:
        self._orders = orders
        self._journal = journal
        servers = orders.bootstrap.split(",")
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=orders.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self.consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=orders.group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=SESSION_MS // 3,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metadata_max_age_ms=2_000,
        )
        self._producer.init_transactions()
        self.member: Any = None
        self.consumer.subscribe([orders.source], listener=_Listener(self))

    def next_piece(self) -> Piece:
        found: Piece = self.consumer.poll(int(POLL_S * 1_000), max_records=PIECE_MAX)
        return found

    def copy(self, piece: Piece) -> None:
        """One transaction; what it could not do is read again. Raises KafkaError where the client cannot go on."""
        name = self._journal.begin()
        try:
            self._send(name, piece)
            if not self._journal.is_to_be_aborted:
                self._producer.commit_transaction()
                self._journal.ended(name, "committed")
                return
            self._producer.flush()
        except ProducerFencedError:
            raise
        except KafkaError:
            pass  # To be aborted; where the client cannot do that either, the abort raises.
        self._producer.abort_transaction()
        self._journal.ended(name, "aborted")
        self._rewind()

    def _send(self, name: str, piece: Piece) -> None:
        size = sum(map(len, piece.values()))
        self._producer.begin_transaction()
        for partition, records in piece.items():
            for record in records:
                self._producer.send(self._orders.sink, output(record.value, name, size), partition=partition.partition)
        ends = {one: OffsetAndMetadata(records[-1].offset + 1, "", -1) for one, records in piece.items()}
        self._producer.send_offsets_to_transaction(ends, self.member)

    def _rewind(self) -> None:
        for partition in self.consumer.assignment():
            self.consumer.seek(partition, self.consumer.committed(partition) or 0)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # It has no types.
    """Keeps the generation in which all that follows is read.

    The client's own may be forgotten at any time, when a heartbeat is refused: offsets sent without one are fenced by
    nothing.
    """

    def __init__(self, copier: Copier) -> None:
        self._copier = copier

    def on_partitions_revoked(self, _revoked: Any) -> None:
        """No transaction is open: this happens in a poll."""

    def on_partitions_assigned(self, _assigned: Any) -> None:
        self._copier.member = self._copier.consumer.group_metadata()


def copy(orders: Orders, journal: Journal, stop: Stop) -> None:
    copier = Copier(orders, journal)
    while not stop.is_wanted():
        if piece := copier.next_piece():
            copier.copy(piece)
    copier.consumer.close()


if __name__ == "__main__":
    run(copy)
