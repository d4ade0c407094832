"""One snapshot at the lag of groups, and of other readers whose offsets are known: its steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sordini.client.lag.asking import Rounds
from sordini.client.lag.coordinators import DEAD, CommittedOffset, Group, all_groups, describe, named_groups
from sordini.client.lag.leaders import LogPart, Topics, find_leaders, read_logs
from sordini.client.lag.model import Condition, GroupLag, PartitionLag
from sordini.client.lag.outlook import UNKNOWN, Rate, outlook_of
from sordini.client.lag.pushed_lags import read_pushed
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

FROM_START: Final = -1


class Reader(NamedTuple):
    """A reader without a group: its name, what it is, and the next offset that it reads of each partition."""

    name: str
    kind: str
    offsets: Mapping[TopicPartition, int]


def snapshot_of_groups(
    names: Sequence[str] | None, now_ms: int, *, topics: frozenset[str] = frozenset(), committed_only: bool = True
) -> Rounds[list[GroupLag]]:
    """The lag of these groups, in their order, or (None) of all; of some topics, if any are named.

    `now_ms` is the wall clock. A group that does not exist is Dead and has no partitions. What members say of their lag
    is there for groups that are named. Raises ClientError.
    """
    groups = (yield from all_groups()) if names is None else (yield from named_groups(names))
    yield from describe(groups)
    pushing = [] if names is None else groups
    return (yield from _snapshot(groups, now_ms, topics, committed_only=committed_only, pushing=pushing))


def snapshot_of_readers(
    readers: Sequence[Reader], now_ms: int, *, committed_only: bool = True
) -> Rounds[list[GroupLag]]:
    """The lag of readers that have no group. Raises ClientError."""
    groups = []
    for reader in readers:
        group = Group(reader.name)
        group.kind, group.state = reader.kind, ""
        group.offsets = {partition: CommittedOffset(offset) for partition, offset in reader.offsets.items()}
        groups.append(group)
    return (yield from _snapshot(groups, now_ms, frozenset(), committed_only=committed_only))


def _snapshot(
    groups: Sequence[Group],
    now_ms: int,
    topics: frozenset[str],
    *,
    committed_only: bool,
    pushing: Sequence[Group] = (),
) -> Rounds[list[GroupLag]]:
    """`pushing` are those whose members' metrics are read."""
    names = {name for group in groups for name in _topics_of(group) if not topics or name in topics}
    found = yield from find_leaders(names)
    yield from read_pushed(pushing, found.brokers, now_ms)
    of_topic: dict[str, list[TopicPartition]] = {}
    for partition in found.leaders:
        of_topic.setdefault(partition.topic, []).append(partition)
    rows = [(group, _partitions_of(group, of_topic, topics)) for group in groups]
    wanted: dict[TopicPartition, set[int]] = {}
    for group, partitions in rows:
        for partition in partitions:
            if found.leaders.get(partition) is not None:
                committed = group.offsets.get(partition)
                wanted.setdefault(partition, set()).add(FROM_START if committed is None else committed.offset)
    leaders = {partition: leader for partition in wanted if (leader := found.leaders[partition]) is not None}
    logs = yield from read_logs(leaders, dict(sorted(wanted.items())), now_ms, committed_only=committed_only)
    return [
        GroupLag(
            group.name,
            group.kind,
            group.state,
            group.members,
            tuple(_partition_lag(group, partition, found, logs, committed_only) for partition in partitions),
            group.problem,
        )
        for group, partitions in rows
    ]


def _topics_of(group: Group) -> set[str]:
    return {partition.topic for partition in (*group.offsets, *group.owners, *group.lags)} | group.subscribed


def _partitions_of(
    group: Group, of_topic: Mapping[str, Sequence[TopicPartition]], topics: frozenset[str]
) -> list[TopicPartition]:
    """What it has committed or has; of topics to which its members subscribe, all partitions."""
    found = {*group.offsets, *group.owners, *group.lags}
    for topic in group.subscribed:
        found.update(of_topic.get(topic, ()))
    return sorted(partition for partition in found if not topics or partition.topic in topics)


def _partition_lag(
    group: Group,
    partition: TopicPartition,
    topics: Topics,
    logs: Mapping[tuple[TopicPartition, int], LogPart],
    committed_only: bool,  # noqa: FBT001 - a row of the loop above.
) -> PartitionLag:
    committed, owner = group.offsets.get(partition), group.owners.get(partition)
    offset = None if committed is None else committed.offset
    log = logs.get((partition, FROM_START if offset is None else offset))
    lacks_owner = group.members > 0 and owner is None and partition.topic in group.subscribed
    if log is None or log.problem is not None:
        problem = topics.problems.get(partition.topic) if log is None else log.problem
        condition = Condition.UNAVAILABLE
        if log is None and problem is None:
            if partition in topics.leaders:
                problem = "it has no leader at present"
            else:
                condition = Condition.DELETED
        return PartitionLag(
            *partition, condition, offset, None, None, None, None, None, None,
            None if committed is None else committed.rate,
            None if committed is None else committed.age_ms,
            owner, lacks_owner, UNKNOWN, problem, group.client_lags.get(partition),
        )  # fmt: skip
    undone = group.lags.get(partition)
    lag = undone if undone is not None else None if offset is None else max(0, log.end - offset)
    rate_out = None if committed is None else committed.rate
    is_done = undone == 0
    unread = None if offset is None or is_done else log.unread
    readable_end = log.stable_end if committed_only else log.end
    has_unread = (
        offset is not None and not is_done and (unread is not None or (not log.is_searched and offset < readable_end))
    )
    unread_ms = None if unread is None else unread.appended.at_least_ms
    outlook = outlook_of(lag, log.rate, rate_out, has_unread=has_unread, unread_ms=unread_ms)
    return PartitionLag(
        *partition,
        _condition(offset, log, has_unread=has_unread),
        offset,
        log.start,
        log.end,
        log.stable_end,
        lag,
        unread,
        log.rate,
        rate_out,
        None if committed is None else committed.age_ms,
        owner,
        lacks_owner,
        UNKNOWN if offset is None and log.start < log.end else outlook,
        client=group.client_lags.get(partition),
    )


def _condition(offset: int | None, log: LogPart, *, has_unread: bool) -> Condition:
    if offset is None:
        return Condition.NO_OFFSET if log.start < log.end else Condition.CAUGHT_UP
    if offset < log.start:
        return Condition.EXPIRED
    if offset > log.end:
        return Condition.AHEAD
    return Condition.BEHIND if has_unread else Condition.CAUGHT_UP


def with_rates(row: PartitionLag, rate_in: Rate | None, rate_out: Rate | None) -> PartitionLag:
    """The same partition with rates that were measured otherwise."""
    if row.unread is None and row.condition is not Condition.BEHIND:
        return row._replace(rate_in=rate_in, rate_out=rate_out)
    unread_ms = None if row.unread is None else row.unread.appended.at_least_ms
    outlook = outlook_of(row.lag, rate_in, rate_out, has_unread=True, unread_ms=unread_ms)
    return row._replace(rate_in=rate_in, rate_out=rate_out, outlook=outlook)


def exists(group: GroupLag) -> bool:
    """Whether there is anything of a group of this name."""
    return group.state != DEAD or bool(group.partitions) or group.problem is not None
