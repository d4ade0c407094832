"""Groups and offsets made from the records of a partition that was read (see `loading`).

Members come back with sessions that start when all is there: they could not send heartbeats before. What makes no sense
or is of a kind not known here is passed over, and told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.broker.coordinators.loading import Latest
from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.state import Group, GroupValue
from sordini.broker.groups.shard import Setup, Shard
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition

RECORDS_PER_SLICE = 300
"""Looked into before others have their turn: two or three milliseconds."""
GROUPS_PER_SLICE = 50


async def restore(shard: Shard, latest: Latest, setup: Setup, is_wanted: Callable[[], bool]) -> bool:
    """Fill a shard; false when that is not wanted any more."""
    values: dict[str, GroupValue | None] = {}
    passed_over: list[str] = []
    for number, (key, value) in enumerate(latest.items(), 1):
        problem = _take(shard, values, key, value)
        if problem is not None:
            passed_over.append(problem)
        if number % RECORDS_PER_SLICE == 0:
            await asyncio.sleep(0)
            if not is_wanted():
                return False
    for number, (group_id, group) in enumerate(values.items(), 1):
        now = shard.now()
        shard.restore(Group(group_id) if group is None else machine.restored(group_id, group, now, setup.limits))
        if number % GROUPS_PER_SLICE == 0:
            await asyncio.sleep(0)
            if not is_wanted():
                return False
    if passed_over:
        name, first = str(shard.partition.name), passed_over[0]
        setup.ports.log.warning("records passed over", partition=name, count=len(passed_over), first=first)
    return True


def _take(shard: Shard, values: dict[str, GroupValue | None], key: bytes, value: bytes) -> str | None:
    """Look into one record; what is wrong with it, if it is to be passed over."""
    match records.read_key(key):
        case records.OffsetKey(group_id, topic, partition):
            committed = records.read_offset(value)
            if isinstance(committed, Damaged):
                return f"an offset of group {group_id}: {committed.reason}"
            shard.restore_offset(group_id, TopicPartition(topic, partition), committed)
            values.setdefault(group_id, None)
        case records.GroupKey(group_id):
            group = records.read_group(value)
            if isinstance(group, Damaged):
                return f"group {group_id}: {group.reason}"
            values[group_id] = group
        case records.UnknownKey(version):
            return f"a key of version {version}"
        case Damaged(reason):
            return f"a key: {reason}"
    return None
