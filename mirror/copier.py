"""One attempt at copying a source: what it needs in both clusters, one producer session, and the transactions.

A transaction: batches of many partitions; then, when all of them are acknowledged, the positions up to which each
partition of the source is copied, and where its records are in the target (offset syncs); then its commit. Positions
are read back only by the next attempt, after its session has ended this one's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Final

from sordini.client.errors import ClientError
from sordini.client.record_requests import EARLIEST, LATEST
from sordini.mirror.batches import Copy, Extracted
from sordini.mirror.cluster import Cluster
from sordini.mirror.copies import Copies
from sordini.mirror.errors import MirrorError
from sordini.mirror.figures import Figures
from sordini.mirror.formats import (
    KeyValue,
    OffsetSync,
    Position,
    heartbeat,
    read_offset_sync,
    read_position,
    write_offset_sync,
    write_position,
    write_producer,
)
from sordini.mirror.groups import GroupSync, MergedOffsets
from sordini.mirror.internal_topics import batches_of, ensure_topic, offsets_of, read_all, write
from sordini.mirror.naming import HEARTBEATS, Names, Naming
from sordini.mirror.offset_map import OffsetMap, Segment
from sordini.mirror.plan import Delivery, Plan, Source, Start, SyncsIn
from sordini.mirror.reader import Read, Reader
from sordini.mirror.sessions import IdempotentSession, Session, TransactionalSession, has_transactions
from sordini.mirror.topics import Topic, TopicSync
from sordini.mirror.writer import Placed, Writer
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

SYNCS_MAX: Final = 64
"""Offset syncs of one partition in one transaction; of more, some are left out, which makes translations coarser."""
TAKE_BYTES: Final = 4 * 1024 * 1024
"""Taken and written before a transaction is asked whether it is time to commit."""
LEADER_TRIES: Final = 10
LEADER_PAUSE_S: Final = 0.2
_IDLE_S: Final = 3600.0


class Shared(NamedTuple):
    """What all flows of a mirror have in common."""

    plan: Plan
    merged: MergedOffsets
    notice: Callable[[str], None]
    """Takes one line for the operator."""


class Copier:
    """One attempt: two clusters with their connections, one session."""

    def __init__(self, shared: Shared, source: Source, figures: Figures, upstream: Cluster, target: Cluster) -> None:
        plan = shared.plan
        self._shared = shared
        self._source = source
        self._figures = figures
        self._upstream = upstream
        self._target = target
        self._names = Names(source.access.alias, plan.target.alias, plan.naming, plan.separator)
        self._topic_sync = TopicSync(upstream, target, self._names, source.topics, shared.notice)
        self._group_sync = GroupSync(upstream, target, self._names, source.groups)
        self._topics: dict[str, Topic] = {}
        self._maps: dict[TopicPartition, OffsetMap] = {}
        self._topic_ids: dict[str, str] = {}
        """Of all topics that were copied in this attempt."""
        self._known: dict[TopicPartition, Position] = {}
        """As of the beginning."""
        self._left: dict[TopicPartition, int] = {}
        """Where partitions are that cannot be copied at present."""
        self._counts: dict[str, int] = {}
        self._is_first = False
        copies = Copies(upstream) if plan.naming is Naming.MERGE else None
        self.reader = Reader(upstream, figures, copies, shared.notice)
        self._writer: Writer

    # Beginning.

    async def open(self) -> None:
        """Fence earlier sessions, and find out where to continue. Raises ClientError."""
        plan, names, target = self._shared.plan, self._names, self._target
        if plan.heartbeat_s:
            await self._noticed(self._make_heartbeats)()
        self._counts[names.positions_topic] = await ensure_topic(target, names.positions_topic, plan.replication_factor)
        syncs = self._syncs_topic
        self._counts[syncs] = await ensure_topic(self._syncs_cluster, syncs, plan.replication_factor)
        session = await self._session()
        await session.open()
        self._writer = Writer(target, session)
        if session.producer_id >= 0:
            record = write_producer(names.source, session.producer_id)
            await write(target, names.positions_topic, self._counts[names.positions_topic], [record])
        # Another mirror may write into the same topic, and its open transaction must not hide our last position.
        for position in await read_all(target, names.positions_topic, read_position, waits=True):
            if position is not None:
                self._known[position.partition] = position
        self._is_first = not any(self._source.topics.has(partition.topic) for partition in self._known)
        for sync in await read_all(self._syncs_cluster, syncs, read_offset_sync):
            segment = Segment(sync.upstream, sync.downstream, sync.record_count)
            self._maps.setdefault(sync.partition, OffsetMap()).add(segment)
        await self._group_sync.open(plan.replication_factor)
        await self._follow_topics()
        self._is_first = False

    @property
    def summary(self) -> str:
        """What is copied, in one line."""
        partitions = len(self.reader.positions)
        return f"{len(self._topics)} topics with {partitions} partitions, copied {self._figures.delivery}"

    async def _session(self) -> Session:
        plan = self._shared.plan
        is_asked = plan.delivery is Delivery.EXACTLY_ONCE
        if is_asked and await has_transactions(self._target):
            self._figures.delivery = "exactly once"
            return TransactionalSession(
                self._target, f"sordini-mirror-{plan.name}-{self._names.source}-{self._names.target}"
            )
        if self._figures.delivery != "at least once":
            why = "the target has no transactions" if is_asked else "the configuration asks for it"
            self._shared.notice(f"{self._names.source}: copied at least once, with repetitions after a failure: {why}")
        self._figures.delivery = "at least once"
        return IdempotentSession(self._target)

    @property
    def _syncs_topic(self) -> str:
        return self._names.offset_syncs_topic(in_source=self._shared.plan.syncs_in is SyncsIn.SOURCE)

    @property
    def _syncs_cluster(self) -> Cluster:
        return self._target if self._shared.plan.syncs_in is SyncsIn.TARGET else self._upstream

    async def _follow_topics(self) -> None:
        """Take in new topics and partitions, and let go of deleted topics."""
        plan = self._shared.plan
        configs = plan.excluded_configs if plan.sync_configs else None
        topics = {topic.name: topic for topic in await self._topic_sync.sync(plan.replication_factor, configs)}
        for name, topic in topics.items():
            if self._topic_ids.setdefault(name, topic.topic_id) != topic.topic_id:
                raise MirrorError(f"topic '{name}' was deleted and created again")
        for name in sorted(self._topics.keys() - topics.keys()):
            if not self._topic_sync.is_refused(name):
                self._shared.notice(
                    f"{self._names.source}: topic '{name}' is gone: it was deleted, or may not be described any more; "
                    f"what was copied into '{self._names.remote_topic(name)}' stays"
                )
        self._topics = topics
        self._shared.merged.copies(self._names.source, map(self._names.remote_topic, topics))
        wanted = [TopicPartition(topic.name, number) for topic in topics.values() for number in range(topic.partitions)]
        positions = self.reader.positions
        for partition in positions.keys() - set(wanted):
            # It continues there if it comes back: what was read until now may be on its way into the target.
            self._left[partition] = positions.pop(partition)
            self._figures.lags.pop(partition, None)
        new = await self._led([partition for partition in wanted if partition not in positions])
        if new:
            positions.update(await self._starts(new))
            self.reader.refresh()

    async def _led(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those that have a leader in both clusters, for which is waited a little; the others are for the next time."""
        found: list[TopicPartition] = []
        for _ in range(LEADER_TRIES if partitions else 0):
            await self._upstream.metadata({partition.topic for partition in partitions})
            await self._target.metadata([*map(self._names.remote_topic, self._topics), *self._counts])
            found = [
                partition
                for partition in partitions
                if self._upstream.leader_of(partition) >= 0 and self._target.leader_of(self._remote(partition)) >= 0
            ]
            if len(found) == len(partitions):
                break
            await asyncio.sleep(LEADER_PAUSE_S)
        return found

    async def _starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions continue; a topic that was created again begins anew."""
        starts, unknown = {}, []
        created_again: set[str] = set()
        for partition in partitions:
            known = self._known.get(partition)
            topic_id = self._topics[partition.topic].topic_id
            if partition in self._left:
                starts[partition] = self._left.pop(partition)
            elif known is not None and (not known.topic_id or not topic_id or known.topic_id == topic_id):
                starts[partition] = known.next_offset
            else:
                unknown.append(partition)
                if known is not None:
                    created_again.add(partition.topic)
        for name in sorted(created_again):
            self._shared.notice(
                f"{self._names.source}: topic '{name}' was created again since it was copied: the new one is copied "
                f"from its first record, behind what '{self._names.remote_topic(name)}' has of the old one"
            )
        if not self._is_first or self._source.start is Start.EARLIEST:
            return starts | await offsets_of(self._upstream, unknown, EARLIEST)
        ends = await offsets_of(self._upstream, unknown, LATEST)
        for partition, offset in ends.items():
            # Written down with the first transaction: a restart must not begin later.
            self.reader.inbox.put(Read(partition, Extracted([], offset, 0), 0, 0))
        return starts | ends

    # Beside the copying.

    def helpers(self) -> list[Coroutine[None, None, None]]:
        """What runs until it is cancelled. Raises ClientError where copying cannot continue."""
        plan = self._shared.plan
        helpers = [self.reader.run(), self._every(plan.refresh_s, self._follow_topics)]
        helpers.append(self._every(plan.groups_s, self._noticed(self._translate_groups)))
        if plan.heartbeat_s:
            helpers.append(self._every(plan.heartbeat_s, self._noticed(self._beat)))
        return helpers

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await action()

    def _noticed(self, action: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """An action without which records are copied all the same: a failure is noticed once."""
        problem = ""

        async def tried() -> None:
            nonlocal problem
            try:
                await action()
            except ClientError as error:
                if str(error) != problem:
                    self._shared.notice(f"{self._names.source}: {error}")
                problem = str(error)
            else:
                problem = ""

        return tried

    async def _translate_groups(self) -> None:
        commits = self._shared.plan.sync_group_offsets
        # Another mirror may copy other topics of the source: what was read of its offset syncs is soon outdated.
        maps = {partition: known for partition, known in self._maps.items() if partition.topic in self._topics}
        self._figures.groups = await self._group_sync.sync(maps, self._shared.merged, commits=commits)

    async def _make_heartbeats(self) -> None:
        for cluster in (self._upstream, self._target):
            await ensure_topic(cluster, HEARTBEATS, self._shared.plan.replication_factor)

    async def _beat(self) -> None:
        """Of this flow in the target, and of the opposite one in the source: the copy of it shows that we copy."""
        now_ms = time.time_ns() // 1_000_000
        source, target = self._names.source, self._names.target
        await write(self._target, HEARTBEATS, 1, [heartbeat(source, target, now_ms)])
        await write(self._upstream, HEARTBEATS, 1, [heartbeat(target, source, now_ms)])

    # Copying.

    async def copy(self, stopping: asyncio.Event) -> None:
        """Write transaction after transaction, until asked to stop. Raises ClientError."""
        while not stopping.is_set():
            if await self.reader.inbox.wait(_IDLE_S):
                await self._transaction(stopping)

    async def _transaction(self, stopping: asyncio.Event) -> None:
        """All that arrives until it is time to commit."""
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._shared.plan.commit_s
        inbox = self.reader.inbox
        taken: list[Read] = []
        while True:
            reads = inbox.take(TAKE_BYTES)
            taken += reads
            await self._put(reads)
            left = deadline - clock.time()
            if left <= 0 or stopping.is_set():
                break
            await inbox.wait(left)
        if not taken:
            return
        segments = _joined(await self._writer.drain())
        await self._put_records(taken, segments)
        await self._writer.drain()
        await self._writer.commit()
        await self._committed(taken, segments)

    async def _put(self, reads: list[Read]) -> None:
        """Write what was read."""
        targets = {read.partition: self._remote(read.partition) for read in reads if read.extracted.copies}
        await self._writer.add(targets.values())
        for read in reads:
            for copy in read.extracted.copies:
                await self._writer.put(targets[read.partition], copy, read.partition)

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._names.remote_topic(partition.topic), partition.partition)

    async def _put_records(self, taken: Iterable[Read], segments: dict[TopicPartition, list[Segment]]) -> None:
        """Write the positions and, where they are in the target, the offset syncs."""
        topic = self._names.positions_topic
        ends = {read.partition: read.extracted.next_offset for read in taken}
        positions = [
            write_position(self._names.source, Position(partition, offset, self._topic_id(partition)))
            for partition, offset in ends.items()
        ]
        await self._put_own(topic, positions)
        if self._syncs_cluster is self._target:
            await self._put_own(self._syncs_topic, _sync_records(segments))

    def _topic_id(self, partition: TopicPartition) -> str:
        return self._topic_ids.get(partition.topic, "")

    async def _put_own(self, topic: str, records: list[KeyValue]) -> None:
        batches = batches_of(topic, self._counts[topic], records)
        await self._writer.add(batches)
        for partition, (count, batch) in batches.items():
            await self._writer.put(partition, Copy(memoryview(bytearray(batch)), count, ()), None)

    async def _committed(self, taken: Iterable[Read], segments: dict[TopicPartition, list[Segment]]) -> None:
        """Count what is in the target for good."""
        figures = self._figures
        figures.transactions += 1
        for read in taken:
            figures.lags[read.partition] = read.lag
            figures.opened_batches += read.extracted.opened
            figures.batches += len(read.extracted.copies)
            for copy in read.extracted.copies:
                figures.records += copy.record_count
                figures.bytes += len(copy.data)
        for partition, found in segments.items():
            known = self._maps.setdefault(partition, OffsetMap())
            for segment in found:
                known.add(segment)
        if self._syncs_cluster is self._upstream and segments:
            topic = self._syncs_topic
            await write(self._upstream, topic, self._counts[topic], _sync_records(segments))


def _joined(placed: Iterable[Placed]) -> dict[TopicPartition, list[Segment]]:
    """The segments of each partition; neighbours become one."""
    found: dict[TopicPartition, list[Segment]] = {}
    for partition, segment in placed:
        segments = found.setdefault(partition, [])
        if segments and segment[:2] == (segments[-1].upstream_end, segments[-1].downstream_end):
            segments[-1] = segments[-1]._replace(record_count=segments[-1].record_count + segment.record_count)
        else:
            segments.append(segment)
    return found


def _sync_records(segments: dict[TopicPartition, list[Segment]]) -> list[KeyValue]:
    records = []
    for partition, found in segments.items():
        step = -(-len(found) // SYNCS_MAX)
        records += [write_offset_sync(OffsetSync(partition, *segment)) for segment in found[::step]]
    return records
