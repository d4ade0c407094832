"""The records of one partition of __consumer_offsets, read back: what a new coordinator begins with.

The last record of each key is replayed; groups are made of theirs once all are read. A record that cannot be read is
skipped with a reason, since one damaged record must not lose the groups of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sordini.broker.groups.consumer.machine import record_formats
from sordini.broker.groups.consumer.machine.folded import FoldedGroup
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.events import Now
from sordini.broker.groups.machine.state import GroupValue
from sordini.broker.groups.shard_offsets import ShardOffsets
from sordini.broker.groups.share.machine import record_formats as share_record_formats
from sordini.broker.groups.share.machine.folded import FoldedShareGroup
from sordini.broker.groups.share.machine.state import ShareGroup
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition


class GroupReplay:
    """Offsets go to the shard's at once; groups are kept until `groups` is called."""

    def __init__(self, offsets: ShardOffsets) -> None:
        self._offsets = offsets
        self._replayed: dict[str, GroupValue | None] = {}
        self._folded: dict[str, FoldedGroup] = {}
        self._folded_shares: dict[str, FoldedShareGroup] = {}

    def replay(self, key: bytes, value: bytes) -> str | None:
        """Load the last record of a key; returns why it is skipped, or None."""
        match records.read_key(key):
            case records.OffsetKey(group_id, topic, partition):
                committed = records.read_offset(value)
                if isinstance(committed, Damaged):
                    return f"an offset of group {group_id}: {committed.reason}"
                self._offsets.restore(group_id, TopicPartition(topic, partition), committed)
                self._replayed.setdefault(group_id, None)
            case records.GroupKey(group_id):
                group = records.read_group(value)
                if isinstance(group, Damaged):
                    return f"group {group_id}: {group.reason}"
                self._replayed[group_id] = group
            case records.UnknownGroupKey(version):
                return self._replay_consumer_group(version, key, value)
            case Damaged(reason):
                return f"a key: {reason}"
        return None

    def _replay_consumer_group(self, version: int, key: bytes, value: bytes) -> str | None:
        match record_formats.read(key, value):
            case None:
                return self._replay_share_group(version, key, value)
            case Damaged(reason):
                return f"a consumer group's record of version {version}: {reason}"
            case record_formats.ConsumerGroupRecord(group_id, change):
                self._folded.setdefault(group_id, FoldedGroup(group_id)).fold(change)
        return None

    def _replay_share_group(self, version: int, key: bytes, value: bytes) -> str | None:
        match share_record_formats.read(key, value):
            case None:
                return f"a key of version {version}"
            case Damaged(reason):
                return f"a share group's record of version {version}: {reason}"
            case share_record_formats.ShareGroupRecord(group_id, change):
                self._folded_shares.setdefault(group_id, FoldedShareGroup(group_id)).fold(change)
        return None

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        """Load a record of a transaction without a marker; returns as `replay`."""
        read = records.read_key(key)
        if not isinstance(read, records.OffsetKey):
            return f"a record of producer {producer_id}'s transaction that is no offset: {read}"
        committed = None if value is None else records.read_offset(value)
        if isinstance(committed, Damaged):
            return f"an offset of group {read.group_id}: {committed.reason}"
        partition = TopicPartition(read.topic, read.partition)
        self._offsets.restore_open(producer_id, read.group_id, partition, committed)
        self._replayed.setdefault(read.group_id, None)
        return None

    def groups(self) -> Iterator[tuple[str, GroupValue | None]]:
        """Every classic group that has a record, or offsets only (None). Afterwards nothing is kept of them here."""
        replayed, self._replayed = self._replayed, {}
        yield from replayed.items()

    def consumer_groups(self, now_ms: int, session_timeout_ms: Callable[[str], int]) -> Iterator[ConsumerGroup]:
        """Every consumer group, with sessions that start now (monotonic). `groups`, called after it, has the others."""
        folded, self._folded = self._folded, {}
        for group_id, parts in folded.items():
            group = parts.group(now_ms, session_timeout_ms(group_id))
            if group is not None:
                self._replayed.pop(group_id, None)
                yield group

    def share_groups(self, now: Now, session_timeout_ms: Callable[[str], int]) -> Iterator[ShareGroup]:
        """Every share group, as `consumer_groups`."""
        folded, self._folded_shares = self._folded_shares, {}
        for group_id, parts in folded.items():
            group = parts.group(now.monotonic_ms, now.wall_ms, session_timeout_ms(group_id))
            if group is not None:
                self._replayed.pop(group_id, None)
                yield group
