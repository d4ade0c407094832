"""Writes batches into the target, in the order in which they are given, several requests in flight.

    await writer.put(partition, copy, source)     # stamped and sent when there is room
    placed = await writer.drain()                 # all are acknowledged: where each record is now

A request has one batch for each partition, those of all partitions of one leader together. There are no retries: after
any error the writer is useless, and its owner ends the transaction. So batches of a partition cannot be reordered or
repeated, however many requests are in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from sordini.client.cluster import Link
from sordini.client.errors import ClientError, Refused, Unreachable
from sordini.client.record_requests import PRODUCE_BY_NAME, produce_request, produced_partitions
from sordini.mirror.batches import Copy, stamp
from sordini.mirror.cluster import ANSWER_S_MAX, Cluster
from sordini.mirror.errors import MirrorError
from sordini.mirror.internal_topics import PRODUCE_TIMEOUT_MS
from sordini.mirror.offset_map import Segment
from sordini.mirror.sessions import Session
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import INT32_MAX
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

REQUESTS_MAX: Final = 5
"""In flight to one broker."""
REQUEST_BYTES: Final = 1024 * 1024
"""A request takes no further batch once it has so many bytes."""
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Given and not acknowledged; `put` waits beyond it. A transaction has to write this before the target gives it up."""
_PURPOSE: Final = "produce"


class Sent(NamedTuple):
    """A batch on its way."""

    copy: Copy
    source: TopicPartition | None
    """None for a record of the mirror's own."""


class Placed(NamedTuple):
    """Where records of the source are in the target."""

    source: TopicPartition
    segment: Segment


class Writer:
    """One session's batches on their way to the leaders of their partitions."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        self._cluster = cluster
        self.session = session
        self._lanes: dict[int, _Lane] = {}
        self._added: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self._pending_bytes = 0
        self._failure: ClientError | None = None
        self._changed = asyncio.Event()
        self._placed: list[Placed] = []

    @property
    def has_transaction(self) -> bool:
        """Whether anything was written since the last end."""
        return bool(self._added)

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Announce partitions before their first batch in a transaction; known ones cost nothing."""
        new = [partition for partition in dict.fromkeys(partitions) if partition not in self._added]
        if new:
            await self.session.add(new)
            self._added.update(new)

    async def put(self, partition: TopicPartition, copy: Copy, source: TopicPartition | None) -> None:
        """Write a batch; waits while too many bytes are under way. Raises the ClientError of any earlier batch."""
        await self._until(lambda: self._pending_bytes <= PENDING_BYTES_MAX)
        lane = await self._lane(partition)
        self._pending_bytes += len(copy.data)
        lane.push(partition, Sent(copy, source))

    async def drain(self) -> list[Placed]:
        """Wait until all is acknowledged; where the records since the last call are. Raises ClientError."""
        await self._until(lambda: not self._pending_bytes)
        placed, self._placed = self._placed, []
        return placed

    async def commit(self) -> None:
        """End the transaction. Everything was drained before."""
        assert not self._pending_bytes, "a batch is not acknowledged"
        await self.session.commit()
        self._added.clear()

    async def _until(self, condition: Any) -> None:
        while self._failure is None and not condition():
            self._changed.clear()
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    await self._changed.wait()
            except TimeoutError:
                raise Unreachable(f"the target acknowledged nothing for {ANSWER_S_MAX:g} s") from None
        if self._failure is not None:
            raise self._failure

    async def _lane(self, partition: TopicPartition) -> _Lane:
        broker_id = self._cluster.leader_of(partition)
        if broker_id < 0:
            raise Refused(f"partition {partition} of the target", ErrorCode.LEADER_NOT_AVAILABLE)
        lane = self._lanes.get(broker_id)
        if lane is None:
            link = await self._cluster.broker(broker_id, _PURPOSE)
            lane = self._lanes.setdefault(broker_id, _Lane(link, self))
        return lane

    def stamped(self, partition: TopicPartition, sent: Sent) -> memoryview:
        """The batch as it goes on the wire, with the partition's next sequence."""
        session = self.session
        sequence = -1
        if session.producer_id >= 0:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = sequence + sent.copy.record_count & INT32_MAX
        is_transactional = session.transactional_id is not None
        stamp(sent.copy, session.producer_id, session.producer_epoch, sequence, transactional=is_transactional)
        return sent.copy.data

    def acknowledged(self, sent: Sent, base_offset: int) -> None:
        """A batch is in the target."""
        self._pending_bytes -= len(sent.copy.data)
        if sent.source is not None:
            downstream = base_offset
            for run in sent.copy.runs:
                self._placed.append(Placed(sent.source, Segment(run.offset, downstream, run.record_count)))
                downstream += run.record_count
        self._changed.set()

    def fail(self, error: ClientError) -> None:
        """A batch may not be in the target: the first error is what all who wait get."""
        if self._failure is None:
            self._failure = error
        self._changed.set()


class _Lane:
    """The batches for one broker."""

    def __init__(self, link: Link, writer: Writer) -> None:
        self._link = link
        self._writer = writer
        self._waiting: dict[TopicPartition, deque[Sent]] = {}
        self._in_flight = 0

    def push(self, partition: TopicPartition, sent: Sent) -> None:
        self._waiting.setdefault(partition, deque()).append(sent)
        self._send()

    def _send(self) -> None:
        while self._waiting and self._in_flight < REQUESTS_MAX:
            taken = self._take()
            batches = {partition: self._writer.stamped(partition, sent) for partition, sent in taken.items()}
            transactional_id = self._writer.session.transactional_id
            request = produce_request(batches, PRODUCE_TIMEOUT_MS, transactional_id=transactional_id)
            try:
                response = self._link.send(request, **PRODUCE_BY_NAME)
            except ClientError as error:
                self._writer.fail(error)
                return
            self._in_flight += 1
            response.add_done_callback(lambda done, taken=taken: self._on_response(done, taken))  # type: ignore[misc]

    def _take(self) -> dict[TopicPartition, Sent]:
        """The first batch of each partition, up to the size of a request; the others come first the next time."""
        taken: dict[TopicPartition, Sent] = {}
        size = 0
        for partition in list(self._waiting):
            queue = self._waiting.pop(partition)
            taken[partition] = sent = queue.popleft()
            if queue:
                self._waiting[partition] = queue
            size += len(sent.copy.data)
            if size >= REQUEST_BYTES:
                break
        return taken

    def _on_response(self, done: asyncio.Future[Any], taken: dict[TopicPartition, Sent]) -> None:
        self._in_flight -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            assert isinstance(error, ClientError)
            self._writer.fail(error)
            return
        for partition, row in produced_partitions(done.result()):
            if row.error_code:
                subject = f"writing to {partition} in the target"
                self._writer.fail(Refused(subject, row.error_code, row.error_message))
                return
            self._writer.acknowledged(taken.pop(partition), row.base_offset)
        if taken:
            self._writer.fail(MirrorError(f"{self._link.address} did not answer for {', '.join(map(str, taken))}"))
            return
        self._send()
