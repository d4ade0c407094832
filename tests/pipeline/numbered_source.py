"""A source that is beyond doubt: numbered records, each in the topic once, and not far ahead of what is committed elsewhere.

A test of losses compares with what it has sent. So the producer is idempotent, a record counts when the brokers have
acknowledged it, and whatever fails in the thread fails the test with its own reason, and not as a loss of what reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.cluster.loads import Worker

RECORDS_EACH: Final = 100
KEYS: Final = 97
PAUSE_S: Final = 0.2
DELIVERY_S_MAX: Final = 110
"""Less than what a `Worker` is waited for."""


class SourceFailed(AssertionError):
    """The source has failed, and so nothing can be said of what reads it."""


class NumberedSource(Worker):
    """Sends until it is stopped, as long as there is room for `RECORDS_EACH` more."""

    def __init__(self, bootstrap: str, topic: str, room: Callable[[int], int]) -> None:
        """`room` takes the number of records that are acknowledged, and returns how many may be sent now."""
        super().__init__()
        limit_ms = DELIVERY_S_MAX * 1000
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "delivery.timeout.ms": limit_ms}
        self._producer = Producer({**settings, "log_level": 0})
        self._topic = topic
        self._room = room
        self.count = 0
        """Records that are acknowledged: those of the numbers below it."""

    def work(self) -> None:
        while self.is_going_on:
            if self._room(self.count) >= RECORDS_EACH:
                self._send(range(self.count, self.count + RECORDS_EACH))
            self._enough.wait(PAUSE_S)

    def check(self) -> None:
        """Raises what has ended the thread."""
        if self._failure is not None:
            raise SourceFailed(f"{type(self._failure).__name__}: {self._failure}") from self._failure

    def _send(self, numbers: range) -> None:
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        for number in numbers:
            self._producer.produce(self._topic, b"%d" % number, b"%d" % (number % KEYS), on_delivery=delivered)
        left = self._producer.flush(DELIVERY_S_MAX)
        if left or refused:
            raise SourceFailed(f"{left} records without an answer, {len(refused)} refused: {refused[:1]}")
        self.count += len(numbers)
