"""`uniform`: partitions evenly over members, whatever their topics; a member keeps what it has where balance allows."""

from __future__ import annotations

from collections.abc import Generator

from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group
from sordini.broker.groups.consumer.machine.assignors.java_order import member_id_order
from sordini.broker.groups.consumer.machine.assignors.uniform_heterogeneous import HeterogeneousAssignment
from sordini.broker.groups.consumer.machine.assignors.uniform_homogeneous import assign_homogeneous


def assign_uniformly(group: Group) -> Generator[int, None, Assignment]:
    """An `Assignor`."""
    member_ids = yield from member_id_order(group.members)
    if group.is_homogeneous:
        return (yield from assign_homogeneous(group, member_ids))
    return (yield from HeterogeneousAssignment(group, member_ids).run())
