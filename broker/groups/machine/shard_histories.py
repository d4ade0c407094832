"""The rebalance histories of one partition's groups, within the limits of this broker.

Histories are part of `sordini.group.memory.bytes.max`, and may use an eighth of it: beyond that, the group that
rebalances gives up its oldest entries. When members or offsets need the room, all histories of the broker are given up,
so that no history keeps a member from joining.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sordini.broker.groups.machine.events import Action, Event, Now
from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit, ShardMemoryUsage
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.rebalance_history import GroupHistory, Rebalance
from sordini.broker.groups.machine.state import Group, GroupState

SHARE_OF_MEMORY: Final = 8
"""One part in so many of the limit of all groups."""


class RebalanceTotals:
    """The limits of all histories of one broker, and what they use; and the rebalances that were completed."""

    def __init__(self, entries_max: int, memory: GroupMemoryLimit) -> None:
        self.entries_max = entries_max
        self._memory = memory
        memory.reclaim = self._release
        self.shards: set[ShardHistories] = set()
        self.completed: Counter[RebalanceCause] = Counter()
        """Since the start, by the cause that started them."""

    def is_over(self, more_bytes: int) -> bool:
        """Whether histories would use too much with `more_bytes`."""
        memory = self._memory
        return more_bytes > 0 and (
            memory.reclaimable_bytes + more_bytes > memory.bytes_max // SHARE_OF_MEMORY
            or memory.held_bytes + more_bytes > memory.bytes_max
        )

    def change(self, by_bytes: int) -> None:
        self._memory.reclaimable_bytes += by_bytes

    def _release(self) -> None:
        for shard in self.shards:
            shard.release()


class ShardHistories:
    """By group. A group that has not rebalanced here has none."""

    def __init__(self, totals: RebalanceTotals, memory: ShardMemoryUsage) -> None:
        self._totals = totals
        self._memory = memory
        self._histories: dict[str, GroupHistory] = {}
        totals.shards.add(self)

    def observe(self, before: Group, after: Group, event: Event, actions: Sequence[Action], now: Now) -> None:
        """Add what one step of a group did."""
        history = self._histories.get(after.group_id)
        if history is None:
            if not any(isinstance(action, RebalanceCaused) for action in actions):
                return
            history = self._histories[after.group_id] = GroupHistory(self._totals.entries_max)
        held = history.held_bytes
        completed = history.observe(before, after, event, actions, now)
        if completed is not None:
            self._totals.completed[completed.first_cause] += 1
        self._limit(history, held)

    def restored(self, group: Group, now: Now) -> None:
        """A group was loaded. One that rebalances at once has too many members (`machine.restored_group`)."""
        if group.state is GroupState.PREPARING_REBALANCE:
            history = self._histories[group.group_id] = GroupHistory(self._totals.entries_max)
            history.begin(group, RebalanceCaused(RebalanceCause.GROUP_TOO_LARGE, None, ""), now)
            self._limit(history, 0)

    def of(self, group: Group) -> list[Rebalance]:
        """A group's rebalances, oldest first; the last one may be in progress."""
        history = self._histories.get(group.group_id)
        if history is None:
            return []
        current = history.in_progress(group)
        return [*history.entries] if current is None else [*history.entries, current]

    def last_durations(self) -> list[tuple[str, int]]:
        """Groups, and the duration of their last rebalance in milliseconds."""
        return [
            (group_id, history.last_duration_ms)
            for group_id, history in self._histories.items()
            if history.last_duration_ms >= 0
        ]

    def group_removed(self, group_id: str) -> None:
        history = self._histories.pop(group_id, None)
        if history is not None:
            self._change(-history.held_bytes)

    def close(self) -> None:
        """The leadership of the partition has ended. Groups whose events are still queued are removed after this."""
        self.release()
        self._totals.shards.discard(self)

    def release(self) -> None:
        """Give up all histories."""
        for group_id in list(self._histories):
            self.group_removed(group_id)

    def _limit(self, history: GroupHistory, held_before: int) -> None:
        while history.entries and self._totals.is_over(history.held_bytes - held_before):
            history.drop_oldest()
        if self._totals.is_over(history.held_bytes - held_before):
            history.abandon()
        self._change(history.held_bytes - held_before)

    def _change(self, by_bytes: int) -> None:
        self._totals.change(by_bytes)
        self._memory.change(by_bytes)
