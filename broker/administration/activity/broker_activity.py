"""What one broker knows of its own activity: fed by the server, by retention and by the log cleaner."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sordini.broker.administration.activity.event_log import EventKind, EventLog
from sordini.broker.administration.activity.loop_cpu import CpuUse, LoopCpu
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import Clock
from sordini.storage.cleaner import Cleaned
from sordini.storage.log import Log


class BrokerActivity:
    """Its uptime, its CPU time, its connections, its events."""

    def __init__(self, clock: Clock, thread_ns: Callable[[], int]) -> None:
        """`thread_ns` reads the CPU time of the calling thread, which is the event loop's."""
        self._clock = clock
        self._thread_ns = thread_ns
        self._cpu = LoopCpu()
        self._ready_ms: int | None = None
        self.events = EventLog()
        self.connections: Callable[[], Mapping[str, int]] = dict
        """Open connections by listener; set when the sockets are made."""

    def ready(self) -> None:
        """The broker serves from now on."""
        self._ready_ms = self._clock.monotonic_ms()
        self.events.started(self._clock.now_ms())
        self.sample()

    def uptime_ms(self) -> int:
        """Since it was ready; 0 before."""
        return 0 if self._ready_ms is None else self._clock.monotonic_ms() - self._ready_ms

    def sample(self) -> None:
        """Due once a second, on the loop's thread."""
        self._cpu.sample(self._clock.monotonic_ms(), self._thread_ns() // 1_000_000)

    def cpu(self) -> CpuUse:
        """On the loop's thread."""
        return self._cpu.use(self._clock.monotonic_ms(), self._thread_ns() // 1_000_000)

    def segments_deleted(self, name: TopicPartition, count: int, size: int) -> None:
        self.events.add(EventKind.SEGMENTS_DELETED, self._clock.now_ms(), name, count, size)

    def cleaned(self, cleaned: Cleaned) -> None:
        removed = max(cleaned.bytes_before - cleaned.bytes_after, 0)
        count = sum(len(made.replaces) for made in cleaned.result.replacements)
        self.events.add(EventKind.COMPACTED, self._clock.now_ms(), cleaned.log.topic_partition, count, removed)

    def uncleanable(self, log: Log) -> None:
        self.events.add(EventKind.UNCLEANABLE, self._clock.now_ms(), log.topic_partition, 0, 0)
