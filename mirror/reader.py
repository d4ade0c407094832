"""Reads partitions of the source from their leaders: one Fetch under way to each broker, until `run` is cancelled.

    reader.positions[partition] = offset        # from where; partitions are added while it runs
    await reader.run(tasks)
    read = await reader.inbox.take(seconds)

What was fetched waits in the inbox, which is bounded: without room nothing is fetched. A leader that moves or does not
answer is looked up again, here and without end; whatever else goes wrong ends `run`. A response counts only if its
partition is still where it was when it was requested, so no record is taken twice when two brokers answer for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from sordini.client.errors import Refused, Unreachable, check
from sordini.client.record_requests import (
    EARLIEST,
    FETCH_BY_NAME,
    LATEST,
    READ_COMMITTED,
    fetch_request,
    fetched_partitions,
)
from sordini.client.retries import RETRIABLE, Backoff
from sordini.mirror.batches import Extracted, extract
from sordini.mirror.cluster import Cluster
from sordini.mirror.copies import Copies, producers_in
from sordini.mirror.errors import MirrorError
from sordini.mirror.figures import Figures
from sordini.mirror.internal_topics import offsets_of, records_of
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

FETCH_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
"""Of one partition in a response; a larger batch comes whole."""
INBOX_BYTES_MAX: Final = 32 * 1024 * 1024
_MAX_WAIT_MS: Final = 500
_PAUSE_MS_FIRST: Final = 50
_PAUSE_MS_MAX: Final = 2_000
_PURPOSE: Final = "fetch"
_NO_COPIES: Final[Callable[[int], bool]] = lambda _: False  # noqa: E731 - a constant.
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Read(NamedTuple):
    """What one fetch brought of one partition."""

    partition: TopicPartition
    extracted: Extracted
    lag: int
    """Records behind it in the source."""
    size: int
    """Bytes that it takes in the inbox."""


class Inbox:
    """What was fetched and is not written yet, in its order."""

    def __init__(self) -> None:
        self._reads: deque[Read] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def has_room(self) -> None:
        """Wait until more may be fetched."""
        await self._room.wait()

    def put(self, read: Read) -> None:
        self._reads.append(read)
        self._bytes += read.size
        self._arrived.set()
        if self._bytes >= INBOX_BYTES_MAX:
            self._room.clear()

    async def wait(self, seconds: float) -> bool:
        """Wait until there is something, for at most so long; whether there is."""
        if not self._reads:
            self._arrived.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return False
        return True

    def wake(self) -> None:
        """End a wait although nothing arrived."""
        self._arrived.set()

    def take(self, bytes_max: int) -> list[Read]:
        """What is there, up to so many bytes: at least one read, if there is any."""
        found: list[Read] = []
        while self._reads and bytes_max > 0:
            read = self._reads.popleft()
            found.append(read)
            bytes_max -= read.size
            self._bytes -= read.size
        if self._bytes < INBOX_BYTES_MAX:
            self._room.set()
        return found


class Reader:
    """The partitions of one source and where each is read."""

    def __init__(
        self, cluster: Cluster, figures: Figures, copies: Copies | None, notice: Callable[[str], None]
    ) -> None:
        """With `copies` what a mirror wrote into the source is left out. `notice` takes lines for the operator."""
        self.positions: dict[TopicPartition, int] = {}
        """The next offset to fetch."""
        self.inbox = Inbox()
        self._cluster = cluster
        self._figures = figures
        self._copies = copies
        self._notice = notice
        self._led: dict[int, list[TopicPartition]] = {}
        self._is_stale = asyncio.Event()
        self._fetching: set[int] = set()

    def refresh(self) -> None:
        """Partitions were added or removed: find their leaders."""
        self._is_stale.set()

    async def run(self) -> None:
        """Read until cancelled. Raises ClientError."""
        backoff = Backoff(_PAUSE_MS_FIRST, _PAUSE_MS_MAX)
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._is_stale.clear()
                if await self._find_leaders():
                    backoff.reset()
                for broker_id in self._led.keys() - self._fetching:
                    self._fetching.add(broker_id)
                    tasks.create_task(self._fetch_from(broker_id))
                await asyncio.sleep(backoff.next_ms() / 1000)
                await self._is_stale.wait()

    async def _find_leaders(self) -> bool:
        """Ask for the leaders of all partitions; whether each has one."""
        topics = {partition.topic for partition in self.positions}
        if not topics:
            return True
        try:
            await self._cluster.metadata(topics)
        except Unreachable as error:
            if self._figures.problem != str(error):
                self._notice(f"{error}; it is tried again")
            self._figures.problem = str(error)
            self._is_stale.set()
            return False
        self._figures.problem = ""
        led: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            led.setdefault(self._cluster.leader_of(partition), []).append(partition)
        is_complete = led.pop(-1, None) is None
        self._led = led
        if not is_complete:
            self._is_stale.set()
        return is_complete

    async def _fetch_from(self, broker_id: int) -> None:
        """Fetch from one broker while it leads anything."""
        try:
            while partitions := self._led.get(broker_id):
                await self.inbox.has_room()
                try:
                    link = await self._cluster.broker(broker_id, _PURPOSE)
                    request = self._request(partitions)
                    response = await link.ask(request, **FETCH_BY_NAME)
                except Unreachable:
                    self._is_stale.set()
                    return
                await self._take(response, request)
                if self._is_stale.is_set():
                    await asyncio.sleep(_PAUSE_MS_FIRST / 1000)  # Errors come at once: leaders are being looked up.
        finally:
            self._fetching.discard(broker_id)

    def _request(self, partitions: Iterable[TopicPartition]) -> FetchRequest:
        offsets = {partition: self.positions[partition] for partition in partitions if partition in self.positions}
        return fetch_request(
            offsets, PARTITION_BYTES, bytes_max=FETCH_BYTES, wait_ms=_MAX_WAIT_MS, isolation_level=READ_COMMITTED
        )

    async def _take(self, response: FetchResponse, request: FetchRequest) -> None:
        check(f"reading from cluster '{self._cluster.access.alias}'", response.error_code)
        starts = {
            TopicPartition(topic.topic, row.partition): row.fetch_offset
            for topic in request.topics
            for row in topic.partitions
        }
        for partition, row in fetched_partitions(response):
            if partition in starts:
                await self._take_partition(partition, starts[partition], row)

    async def _take_partition(self, partition: TopicPartition, start: int, row: PartitionData) -> None:
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_offset(partition, start)
            return
        if row.error_code in RETRIABLE or row.error_code in _GONE:
            self._is_stale.set()  # A deleted topic is dropped when the topics are looked up again.
            return
        check(f"reading {partition} of cluster '{self._cluster.access.alias}'", row.error_code)
        records = records_of(row)
        if self._copies is not None and records:
            await self._copies.learn(producers_in(records))
        if self.positions.get(partition) != start:
            return
        try:
            is_copy = _NO_COPIES if self._copies is None else self._copies.is_copy
            extracted = extract(records, start, row.aborted_transactions or (), is_skipped=is_copy)
        except BrokerError as error:
            raise MirrorError(f"{partition} of cluster '{self._cluster.access.alias}': {error}") from None
        end = row.last_stable_offset if row.last_stable_offset >= 0 else row.high_watermark
        lag = max(0, end - extracted.next_offset)
        if extracted.next_offset == start:
            self._figures.lags[partition] = lag
            return
        self.positions[partition] = extracted.next_offset
        self.inbox.put(Read(partition, extracted, lag, len(records)))
        self._rotate(partition)

    def _rotate(self, partition: TopicPartition) -> None:
        """A response is limited, so partitions that had none in it come first in the next request."""
        led = self._led.get(self._cluster.leader_of(partition), [])
        if partition in led:
            led.remove(partition)
            led.append(partition)

    async def _find_offset(self, partition: TopicPartition, start: int) -> None:
        """Go on where the source has records: it has deleted those at our offset, or lost what was there."""
        try:
            first = (await offsets_of(self._cluster, [partition], EARLIEST))[partition]
            end = (await offsets_of(self._cluster, [partition], LATEST))[partition]
        except (Refused, Unreachable):
            self._is_stale.set()
            return
        if self.positions.get(partition) != start or first <= start <= end:
            return
        alias = self._cluster.access.alias
        if start < first:
            self._figures.lost_records += first - start
            self._notice(f"{alias}: {first - start} offsets of {partition} were deleted before they were copied")
        else:
            self._notice(f"{alias}: {partition} ends at {end}, before the position {start}: its log was truncated")
        self.positions[partition] = first if start < first else end
        self.inbox.put(Read(partition, Extracted([], self.positions[partition], 0), 0, 0))
