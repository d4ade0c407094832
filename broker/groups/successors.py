"""What a group becomes of the other kind while it has members: its records, and the live group (`conversion.py`)."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.journal import KeyValue
from sordini.broker.groups.consumer.machine import record_formats
from sordini.broker.groups.consumer.machine.events import ClassicState, ConsumerLimits, Topics
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.conversion import downgraded, group_of, upgraded
from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.events import GroupLimits, Now
from sordini.broker.groups.machine.state import Group


def consumer_successor(
    group: Group, topics: Topics, limits: ConsumerLimits, now_ms: int
) -> tuple[tuple[KeyValue, ...], ConsumerGroup | None]:
    """Records that end a classic group and begin a consumer group, and that group; None without members.

    Raises BrokerError as `upgraded`.
    """
    tombstone: KeyValue = (records.group_key(group.group_id), None)
    if not group.members:
        return (tombstone,), None
    changes = upgraded(group, topics, limits)
    written = (record_formats.written(group.group_id, change) for change in changes)
    return (tombstone, *written), group_of(group.group_id, changes, now_ms)


class ClassicSuccessor:
    """What a consumer group becomes when only members of the classic protocol are left."""

    def __init__(
        self, topics: Topics, limits: GroupLimits, now: Callable[[], Now], begin: Callable[[Group], None]
    ) -> None:
        """`begin` is called with each classic group that begins."""
        self._topics = topics
        self._limits = limits
        self._now = now
        self._begin = begin

    def of(self, group: ConsumerGroup, state: ClassicState) -> tuple[KeyValue, Callable[[], None]]:
        """The record of the classic group, and what begins it once that is in the log."""
        value = downgraded(group, self._topics, self._now().wall_ms)

        def begin() -> None:
            rebalances = state is ClassicState.REBALANCING
            restored = machine.restored_group(group.group_id, value, self._now(), self._limits, rebalances=rebalances)
            self._begin(restored)

        return (records.group_key(group.group_id), records.group_value(value)), begin
