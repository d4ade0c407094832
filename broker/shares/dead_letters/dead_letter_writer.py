"""Writes the dead letters of all share partitions of a broker, some batches at a time.

Each share partition has a queue. A batch of its first dead letters is written, then one of another queue. What cannot
be written stays in its queue and is tried again, after pauses from `PAUSE_MS_MIN` to `PAUSE_MS_MAX`: Apache Kafka 4.4.0
archives such records without a dead letter. Queues are bounded by the records in flight of their share partition,
which stops delivering when all of these are dead letters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from sordini.broker.coordinators.deadline_timer import DeadlineTimer
from sordini.broker.coordinators.ports import Ports
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.dead_letters.dead_letter_topics import DeadLetterTarget, NoTopic
from sordini.broker.shares.machine.dead_letter_batch import Origin, behind, dead_letter_batch, offsets_of
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.broker.shares.ports import OnWritten
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.copied_records import CopiedRecords
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.system.named_tuple import NamedTuple

BATCHES_AT_ONCE: Final = 8
PAUSE_MS_MIN, PAUSE_MS_MAX = 1_000, 30_000


class Topics(Protocol):
    """`DeadLetterTopics`."""

    async def target(self, group_id: str, partition: int) -> DeadLetterTarget | None: ...


class Originals(Protocol):
    """`OriginalRecords`."""

    async def copy(self, partition: Partition, offsets: Sequence[int], bytes_max: int) -> CopiedRecords: ...


class Appends(Protocol):
    """`DeadLetterAppends`."""

    async def append(self, target: TopicPartition, batch: bytes) -> None: ...


class DeadLetterPorts(NamedTuple):
    """What dead letters are written with."""

    topics: Topics
    originals: Originals
    appends: Appends


class DeadLetterTotals:
    """Since the start, for the metrics."""

    __slots__ = ("failures", "headers_only", "written")

    def __init__(self) -> None:
        self.written = 0
        self.failures = 0
        """Batches that could not be written, each time."""
        self.headers_only = 0
        """Dead letters whose records were to be copied, and were too large for the topic."""


class _Queue:
    """The dead letters of one share partition."""

    def __init__(self, key: SharePartitionKey, partition: Partition, on_written: OnWritten) -> None:
        self.key = key
        self.partition = partition
        self.on_written = on_written
        self.letters: list[DeadLetters] = []
        self.reason = ""
        """Of the last failure, as long as it lasts."""
        self.pause_ms = PAUSE_MS_MIN
        self.is_dropped = False

    @property
    def origin(self) -> Origin:
        return Origin(self.key.group_id, self.partition.name.topic, self.key.partition)


class DeadLetterWriter:
    """All queues."""

    def __init__(self, deps: DeadLetterPorts, ports: Ports) -> None:
        self.totals = DeadLetterTotals()
        self._deps = deps
        self._ports = ports
        self._queues: dict[SharePartitionKey, _Queue] = {}
        self._ready: OrderedDict[SharePartitionKey, _Queue] = OrderedDict()
        self._active = 0
        self._timer: DeadlineTimer[SharePartitionKey] = DeadlineTimer(ports.clock, ports.call_later, self._resume)

    @property
    def waiting(self) -> int:
        """Dead letters that are not written yet."""
        return sum(one.end - one.first for queue in self._queues.values() for one in queue.letters)

    @property
    def failing(self) -> int:
        """Share partitions whose dead letters could not be written at the last time."""
        return sum(bool(queue.reason) for queue in self._queues.values())

    def add(
        self,
        key: SharePartitionKey,
        partition: Partition,
        letters: Sequence[DeadLetters],
        on_written: OnWritten,
    ) -> None:
        """As `DeadLetterQueues`."""
        queue = self._queues.get(key)
        if queue is not None:  # It is its turn, or it waits for it, or it is paused.
            queue.letters += letters
        elif letters:
            queue = self._queues[key] = _Queue(key, partition, on_written)
            queue.letters += letters
            self._make_ready(queue)

    def drop(self, key: SharePartitionKey) -> None:
        """As `DeadLetterQueues`."""
        queue = self._queues.pop(key, None)
        if queue is not None:
            queue.is_dropped = True
            queue.letters.clear()
            self._ready.pop(key, None)
            self._timer.cancel(key)

    def _make_ready(self, queue: _Queue) -> None:
        self._ready[queue.key] = queue
        self._start()

    def _start(self) -> None:
        while self._ready and self._active < BATCHES_AT_ONCE:
            _, queue = self._ready.popitem(last=False)
            self._active += 1
            self._ports.spawn(self._write(queue))

    async def _write(self, queue: _Queue) -> None:
        """One batch of a queue, and on with the next queue."""
        count = len(queue.letters)
        try:
            written, left = await self._write_batch(queue)
        except (BrokerError, NoTopic) as error:
            self._failed(queue, str(error))
        else:
            if not queue.is_dropped:
                self._succeeded(queue, count, written, left)
        finally:
            self._active -= 1
            self._start()

    async def _write_batch(self, queue: _Queue) -> tuple[list[DeadLetters], list[DeadLetters]]:
        """What is written, or is not to be, of those that waited when this began, and what is left of these.

        Raises BrokerError and NoTopic.
        """
        letters = sorted(queue.letters)
        if not letters:  # The queue was dropped before this began.
            return [], []
        target = await self._deps.topics.target(queue.key.group_id, queue.key.partition)
        if target is None:
            return letters, []
        copied = CopiedRecords({}, letters[-1].end)
        if target.copies:
            offsets = offsets_of(letters)
            copied = await self._deps.originals.copy(queue.partition, offsets, target.batch_bytes_max)
        now_ms = self._ports.clock.now_ms()
        batch = dead_letter_batch(queue.origin, letters, copied, now_ms, target.batch_bytes_max)
        await self._deps.appends.append(target.partition, batch.records)
        self.totals.written += batch.letters
        self.totals.headers_only += batch.headers_only
        return behind(letters, batch.letters)

    def _succeeded(self, queue: _Queue, count: int, written: list[DeadLetters], left: list[DeadLetters]) -> None:
        if queue.reason:
            partition = str(queue.partition.name)
            self._ports.log.info("dead letters written again", group=queue.key.group_id, partition=partition)
        queue.reason, queue.pause_ms = "", PAUSE_MS_MIN
        queue.letters[:count] = left
        if queue.letters:
            self._make_ready(queue)
        else:
            del self._queues[queue.key]
        queue.on_written(written)

    def _failed(self, queue: _Queue, reason: str) -> None:
        self.totals.failures += 1
        if queue.is_dropped:
            return
        if reason != queue.reason:
            self._ports.log.warning(
                "dead letters not written, retrying",
                group=queue.key.group_id,
                partition=str(queue.partition.name),
                reason=reason,
            )
        queue.reason = reason
        self._timer.schedule(queue.key, self._ports.clock.monotonic_ms() + queue.pause_ms)
        queue.pause_ms = min(queue.pause_ms * 2, PAUSE_MS_MAX)

    def _resume(self, key: SharePartitionKey, _late_ms: int) -> None:
        queue = self._queues.get(key)
        if queue is not None:
            self._make_ready(queue)
