"""Committed offsets of the source's groups, translated: checkpoints, and where asked the target's own offsets.

A checkpoint is written when a group's offset in the source or its translation changed. A translation never goes back
while the group continues, although less is known after a restart. Into the target's `__consumer_offsets` an offset is
written only while the group has no members there, and only forward.

Where several sources are merged into one topic a group has one offset for all of them: the smallest, and none while it
is not known for each source that copies into the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sordini.client.errors import Refused, check
from sordini.mirror.cluster import Cluster
from sordini.mirror.formats import Checkpoint, read_checkpoint, write_checkpoint
from sordini.mirror.internal_topics import ensure_topic, read_all, write
from sordini.mirror.naming import Names, Naming, Selection
from sordini.mirror.offset_map import OffsetMap
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.list_groups import ListGroupsRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest
from sordini.protocol.types import TopicPartition

Place = tuple[str, TopicPartition]
"""A group, and a partition of the target."""

_ONE_GROUP: Final = 7
"""The last OffsetFetch for one group, and by topic names."""
_ALL_TOPICS: Final = 2
"""The first OffsetFetch that returns all topics of a group."""
_COMMIT_BY_NAME: Final = 9
_NO_GENERATION: Final = -1


class MergedOffsets:
    """What the sources of one mirror say of each group's offsets in the target."""

    def __init__(self, sources: Iterable[str], naming: Naming) -> None:
        self._naming = naming
        self._topics: dict[str, frozenset[str] | None] = dict.fromkeys(sources)
        self._offsets: dict[Place, dict[str, int]] = {}

    def copies(self, source: str, topics: Iterable[str]) -> None:
        """A source copies into these topics of the target."""
        self._topics[source] = frozenset(topics)

    def put(self, source: str, place: Place, offset: int) -> None:
        """A source's records before `offset` are read by the group."""
        self._offsets.setdefault(place, {})[source] = offset

    def safe(self, place: Place) -> int | None:
        """Up to where the group has read all that comes from any source; None while that is not known."""
        offsets = self._offsets.get(place, {})
        if self._naming is Naming.MERGE:
            for source, topics in self._topics.items():
                if topics is None or (place[1].topic in topics and source not in offsets):
                    return None
        return min(offsets.values(), default=None)


class GroupSync:
    """The groups of one source."""

    def __init__(self, source: Cluster, target: Cluster, names: Names, selection: Selection) -> None:
        self._source = source
        self._target = target
        self._names = names
        self._selection = selection
        self._written: dict[Place, Checkpoint] = {}
        self._partitions = 0

    async def open(self, replication_factor: int) -> None:
        """Create the topic of checkpoints, or read what is in it. Raises ClientError."""
        topic = self._names.checkpoints_topic
        self._partitions = await ensure_topic(self._target, topic, replication_factor)
        for one in await read_all(self._target, topic, read_checkpoint):
            self._written[one.group, one.partition] = one

    async def sync(self, maps: Mapping[TopicPartition, OffsetMap], merged: MergedOffsets, *, commits: bool) -> int:
        """Translate all groups once, and write what changed; the number of groups. Raises ClientError."""
        groups = [group for group in await list_groups(self._source) if self._selection.has(group)]
        changed: list[Checkpoint] = []
        problems: list[Refused] = []
        count = 0
        for group in groups:
            try:
                offsets = await committed_offsets(self._source, group)
                found = self._checkpoints(group, offsets, maps, merged, changed)
                count += bool(found)
                if commits and found:
                    await self._commit(group, {one.partition: merged.safe((group, one.partition)) for one in found})
            except Refused as refused:
                problems.append(refused)  # The others are translated all the same.
        if changed:
            records = [write_checkpoint(one) for one in changed]
            await write(self._target, self._names.checkpoints_topic, self._partitions, records)
            self._written |= {(one.group, one.partition): one for one in changed}
        if problems:
            raise problems[0]
        return count

    def _checkpoints(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        maps: Mapping[TopicPartition, OffsetMap],
        merged: MergedOffsets,
        changed: list[Checkpoint],
    ) -> list[Checkpoint]:
        """A group's checkpoints; those that are to be written are added to `changed`."""
        found = []
        for partition, offset in offsets.items():
            one = self._translated(group, partition, offset, maps)
            if one is not None:
                found.append(one)
                if self._written.get((group, one.partition)) != one:
                    changed.append(one)
                merged.put(self._names.source, (group, one.partition), one.downstream)
        return found

    def _translated(
        self, group: str, partition: TopicPartition, offset: int, maps: Mapping[TopicPartition, OffsetMap]
    ) -> Checkpoint | None:
        """The checkpoint that is right now; None where nothing is known."""
        target = TopicPartition(self._names.remote_topic(partition.topic), partition.partition)
        before = self._written.get((group, target))
        known = maps.get(partition)
        downstream = None if known is None else known.translate(offset)
        if downstream is None:
            return before if before is not None and before.upstream == offset else None
        if before is not None and offset >= before.upstream:
            downstream = max(downstream, before.downstream)
        return Checkpoint(group, target, offset, downstream)

    async def _commit(self, group: str, wanted: Mapping[TopicPartition, int | None]) -> None:
        """Commit offsets in the target that are ahead of what is committed there.

        The target itself refuses an offset of no member while the group has members.
        """

        async def attempt() -> None:
            present = await committed_offsets(self._target, group)
            ahead = {
                partition: offset
                for partition, offset in wanted.items()
                if offset is not None and offset > present.get(partition, -1)
            }
            if ahead:
                link = await self._target.coordinator(group)
                response = await link.ask(_commit_request(group, ahead), at_most=_COMMIT_BY_NAME)
                for topic in response.topics:
                    for row in topic.partitions:
                        # It has members, which commit for themselves.
                        if row.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
                            check(f"committing for group '{group}' in the target", row.error_code)

        await self._target.retry(attempt)


def _commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(partition.topic, []).append(row)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows) for topic, rows in topics.items()],
    )


async def list_groups(cluster: Cluster) -> list[str]:
    """All consumer groups of a cluster, and those that only commit. Raises ClientError."""
    found: set[str] = set()
    for broker_id in await cluster.broker_ids():
        response = await (await cluster.broker(broker_id)).ask(ListGroupsRequest())
        check(f"groups of broker {broker_id} of cluster '{cluster.access.alias}'", response.error_code)
        found.update(row.group_id for row in response.groups if row.protocol_type in {"consumer", ""})
    return sorted(found)


async def committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """All committed offsets of a group. Raises ClientError."""

    async def attempt() -> dict[TopicPartition, int]:
        link = await cluster.coordinator(group)
        request = OffsetFetchRequest(group_id=group, topics=None)
        response: Any = await link.ask(request, at_least=_ALL_TOPICS, at_most=_ONE_GROUP)
        check(f"offsets of group '{group}' of cluster '{cluster.access.alias}'", response.error_code)
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in response.topics
            for row in topic.partitions
            if row.committed_offset >= 0 and not row.error_code
        }

    return await cluster.retry(attempt)
