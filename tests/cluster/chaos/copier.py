"""Consume, transform, produce: a member of a group copies one topic to another, its offsets in the same transactions.

Messages are taken one by one: a message comes after all callbacks of its poll, so it belongs to the assignment of that
moment. What was gathered before a rebalance is dropped, and read again from the committed offsets. After a transaction
that was not committed the consumer is made anew: it joins again and begins where the group stands.

librdkafka's send_offsets_to_transaction may never return when the group's coordinator is gone (its issues 5456 and
5511): it is called in a thread of its own, and a producer that is stuck in it is replaced by the next one. So is a
consumer whose close does not return, seen when all brokers went away meanwhile. The consumers log what their group does:
a run that is kept says why one was idle.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.cluster.chaos.events import Found
from tests.cluster.chaos.transacting import (
    Records,
    StoppedError,
    StuckError,
    Transactional,
    error_of,
    offsets_of,
    within,
)
from tests.cluster.chaos.transaction_laws import COPY_GROUP, COPY_SOURCE, COPY_TARGET, copy_of
from tests.cluster.chaos.working import CLIENT, Working, key_of, split

BATCH_MAX: Final = 100
BATCH_SECONDS: Final = 0.3
POLL_SECONDS: Final = 0.05
CALL_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 8.0
"""For offsets to be added, and for a consumer to close: longer than a broker is stopped."""
CONSUMER: Final[dict[str, Any]] = {
    **CLIENT,
    "group.id": COPY_GROUP,
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_000,
    "max.poll.interval.ms": 30_000,
    "fetch.wait.max.ms": 100,
    "debug": "cgrp",
    "log_level": 7,
}


class Copier:
    """One process' consumers, one after the other."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._gathered: list[tuple[str, int, str]] = []
        self._producers = Transactional(working)
        self._consumer = self._joined()

    def run(self) -> None:
        """Copy until it is stopped. Raises StoppedError."""
        while self._working:
            self._gather()
            if self._gathered and not self._copy():
                self._leave()
                self._consumer = self._joined()
            self._gathered.clear()
        self._leave()

    def _leave(self) -> None:
        """Close the consumer, or leave it behind when that takes too long, which is noted: its session will expire."""
        try:
            within(PATIENCE_SECONDS, self._consumer.close)
        except StuckError as problem:
            self._working.recorder.note(
                Found("client", f"{self._working.orders.name} leaves a consumer: close: {problem}")
            )

    def _joined(self) -> Consumer:
        consumer = Consumer({**CONSUMER, **self._working.orders.connection})
        consumer.subscribe([COPY_SOURCE], on_revoke=self._revoked, on_lost=self._revoked)
        return consumer

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is self._consumer:  # One that was left behind says nothing of what the next one has read.
            self._gathered.clear()

    def _gather(self) -> None:
        until = time.monotonic() + BATCH_SECONDS
        while len(self._gathered) < BATCH_MAX and time.monotonic() < until:
            message = self._consumer.poll(POLL_SECONDS)
            if message is not None and message.error() is None:
                tp = f"{message.topic()}-{message.partition()}"
                self._gathered.append((tp, message.offset() or 0, key_of(message.value())))

    def _copy(self) -> bool:
        """One transaction; whether it was committed."""
        transaction = self._producers.name()
        records: Records = [
            (f"{COPY_TARGET}-{split(tp)[1]}", copy_of(value, offset, transaction))
            for tp, offset, value in self._gathered
        ]
        return self._producers.run(records, commit=True, before_end=self._add_offsets)

    def _add_offsets(self, producer: Producer) -> None:
        """Raises StuckError when the call does not return: the producer is left behind with it."""
        places = offsets_of([(tp, offset) for tp, offset, _ in self._gathered])
        offsets = [TopicPartition(*split(tp), offset) for tp, offset in places.items()]
        metadata = self._consumer.consumer_group_metadata()
        try:
            within(PATIENCE_SECONDS, lambda: _add(producer, offsets, metadata))
        except StuckError as problem:
            raise StuckError(f"send_offsets_to_transaction: {problem}") from None


def _add(producer: Producer, offsets: list[TopicPartition], metadata: Any) -> None:
    """Add offsets, again while that is said to take longer. Raises KafkaException."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            producer.send_offsets_to_transaction(offsets, metadata, CALL_SECONDS)
        except KafkaException as problem:
            if not error_of(problem).retriable() or time.monotonic() > until:
                raise
        else:
            return


def main() -> None:
    working = Working()
    with suppress(StoppedError):
        Copier(working).run()
    working.recorder.close()
    os._exit(0)  # A producer that was left behind would not let the process end.


if __name__ == "__main__":
    main()
