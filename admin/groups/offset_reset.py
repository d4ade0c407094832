"""`groups reset`: reads the offsets that the plan needs, and commits the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups import offset_reset_plan
from sordini.admin.groups.group_description import DEAD, SHARE, GroupDescription, describe_group
from sordini.admin.groups.group_requests import commit_offsets, committed_offsets
from sordini.admin.groups.offset_reset_plan import CannotReset, PartitionOffsets, PlannedReset, ResetTarget
from sordini.admin.partition_offsets import offset_ranges, offsets_for_times
from sordini.admin.selections import PartitionSelection
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

MAY_BE_RESET = ("Empty", DEAD)


class ResetRequest(NamedTuple):
    """A group, its partitions (empty: all with a committed offset), the target and its value.

    The value of `from_file` is the text of the file.
    """

    group: str
    wanted: Sequence[PartitionSelection]
    target: str
    value: bool | int | str | None


class ResetPlan(NamedTuple):
    """The plan, and whether the group exists: a reset may create it, before its first consumer starts."""

    lines: list[PlannedReset]
    group_exists: bool

    @property
    def new_offsets(self) -> dict[TopicPartition, int]:
        """What is to be committed."""
        return {line.partition: line.new for line in self.lines}


async def reset_offsets(cluster: ClusterClient, request: ResetRequest, *, execute: bool) -> ResetPlan:
    """Make the plan, and with `execute` commit it. Raises Failure, and then nothing was changed."""
    found = await describe_group(cluster, request.group)
    if found.kind == SHARE:
        raise Failure(f"group '{request.group}' is a share group: `sordini share reset` resets its offsets")
    check_is_empty(found)
    committed = {partition: row.offset for partition, row in (await committed_offsets(cluster, request.group)).items()}
    plan = await plan_of(cluster, request, committed, group_exists=found.state != DEAD or bool(committed))
    if execute:
        await commit_offsets(cluster, request.group, plan.new_offsets)
    return plan


def check_is_empty(found: GroupDescription) -> None:
    """Raises Failure for a group with members, or one that is about to have some."""
    if found.state in MAY_BE_RESET:
        return
    count = len(found.members)
    members = f" with {count} member{'' if count == 1 else 's'}" if count else ""
    raise Failure(
        f"group '{found.group}' is {found.state}{members}: offsets can be reset only while it is empty. "
        "Stop its consumers first"
    )


async def plan_of(
    cluster: ClusterClient, request: ResetRequest, current: Mapping[TopicPartition, int], *, group_exists: bool
) -> ResetPlan:
    """The plan for a group of any kind, whose offsets at present are given. Raises Failure."""
    if not group_exists and not request.wanted and request.target != "from_file":
        raise Failure(
            f"group '{request.group}' does not exist; `sordini groups list` lists the groups. To create it with "
            "offsets, name partitions with --topic"
        )
    try:
        from_file = _from_file(request)
        partitions = await _partitions(cluster, request, current, from_file)
        target = await _reset_target(cluster, request, partitions, from_file)
        lines = offset_reset_plan.plan_reset(await _partition_offsets(cluster, partitions, current), target)
    except CannotReset as problem:
        raise Failure(str(problem)) from None
    return ResetPlan(lines, group_exists)


def _from_file(request: ResetRequest) -> dict[TopicPartition, int]:
    return offset_reset_plan.read_csv(str(request.value), request.group) if request.target == "from_file" else {}


async def _partitions(
    cluster: ClusterClient,
    request: ResetRequest,
    current: Mapping[TopicPartition, int],
    from_file: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    if from_file:
        return list(from_file)
    if request.wanted:
        return await partitions_of(cluster, request.wanted)
    if not current:
        raise Failure(f"group '{request.group}' has no committed offsets; name partitions with --topic")
    return list(current)


async def _partition_offsets(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], current: Mapping[TopicPartition, int]
) -> dict[TopicPartition, PartitionOffsets]:
    ends = await offset_ranges(cluster, partitions)
    return {partition: PartitionOffsets(current.get(partition), *end) for partition, end in ends.items()}


async def _reset_target(
    cluster: ClusterClient,
    request: ResetRequest,
    partitions: Sequence[TopicPartition],
    from_file: Mapping[TopicPartition, int],
) -> ResetTarget:
    match request.target, request.value:
        case "to_earliest", _:
            return offset_reset_plan.to_earliest
        case "to_latest", _:
            return offset_reset_plan.to_latest
        case "to_current", _:
            return offset_reset_plan.to_current
        case "to_offset", int(offset):
            return offset_reset_plan.to_offset(offset)
        case "shift_by", int(count):
            return offset_reset_plan.shift_by(count)
        case "to_datetime", int(time_ms):
            return await _offsets_at_time(cluster, partitions, time_ms)
        case "by_duration", int(duration_ms):
            return await _offsets_at_time(cluster, partitions, SystemClock().now_ms() - duration_ms)
        case _:
            return offset_reset_plan.to_offsets(from_file)


async def _offsets_at_time(cluster: ClusterClient, partitions: Sequence[TopicPartition], time_ms: int) -> ResetTarget:
    # Negative timestamps have special meanings in ListOffsets; no record is older than 0.
    found = await offsets_for_times(cluster, dict.fromkeys(partitions, max(0, time_ms)))
    return offset_reset_plan.to_offsets({partition: row.offset for partition, row in found.items()})
