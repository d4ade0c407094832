"""How far the streams are behind the producer: where the topics end against what the tables say they have.

A table's last commit names the offsets after it, so a record counts as kept when every reader of the table sees it;
Spark is not involved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from sordini.pipeline.tables import Offsets, TableError

_EVERY_SECONDS = 0.5
_ASK_MS_MAX = 5_000


class Sample(NamedTuple):
    """One sample of the topics and the tables."""

    seconds: float
    """Since the watch began."""
    in_topics: int
    """Records of all topics."""
    in_tables: int
    """Those that the tables have taken in, as rows or as dead letters."""


class LagWatch:
    """Looks twice a second, in a thread of its own, from `start` to the end of its `with`.

    `in_tables` says how far the tables are; it is called in that thread.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str], in_tables: Callable[[], Offsets]) -> None:
        self.samples: list[Sample] = []
        self._in_tables = in_tables
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        self._partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in self._consumer.partitions_for_topic(topic) or ()
        ]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag watch", daemon=True)
        self._began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * _ASK_MS_MAX / 1000)
        self._consumer.close(autocommit=False)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Since `start`."""
        return time.monotonic() - self._began

    def has_all(self, records: int) -> bool:
        """Whether the tables had this many records at the last sample."""
        return bool(self.samples) and self.samples[-1].in_tables >= records

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            try:
                self.samples.append(self._look())
            except (KafkaError, TableError):
                continue  # A failed request is a gap in the figure, not the end of the demo.

    def _look(self) -> Sample:
        # The tables first: records that arrive in between then count as behind, never as ahead.
        kept = sum(sum(partitions.values()) for partitions in self._in_tables().values())
        ends = self._consumer.end_offsets(self._partitions)
        return Sample(self.seconds, sum(ends.values()), kept)
