"""The rebalance histories of one partition's groups, within the limits of this broker.

Histories are part of `sordini.group.memory.bytes.max`, and may use an eighth of it: beyond that, the group that
rebalances gives up its oldest entries. When members or offsets need the room, all histories of the broker are given up,
so that no history keeps a member from joining.

A group that changes its protocol keeps its history: entries of both kinds follow each other. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from sordini.broker.groups.any_group import AnyGroup
from sordini.broker.groups.consumer.machine.events import EpochRaised, Step, Topics
from sordini.broker.groups.consumer.machine.events import Now as ConsumerNow
from sordini.broker.groups.consumer.machine.rebalance_history import ConsumerGroupHistory
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.machine.events import Action, Event, Now
from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit, ShardMemoryUsage
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.rebalance_history import GroupHistory, Rebalance, RebalanceEntries
from sordini.broker.groups.machine.state import Group, GroupState
from sordini.broker.groups.share.machine.events import EpochRaised as ShareEpochRaised
from sordini.broker.groups.share.machine.events import Step as ShareStep
from sordini.broker.groups.share.machine.rebalance_history import ShareGroupHistory
from sordini.broker.groups.share.machine.state import ShareGroup

H = TypeVar("H", bound=RebalanceEntries)

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
        """Since the start, by the cause that started them; those that were overtaken, too."""

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
        self._histories: dict[str, RebalanceEntries] = {}
        totals.shards.add(self)

    def observe(self, before: Group, after: Group, event: Event, actions: Sequence[Action], now: Now) -> None:
        """Add what one step of a classic group did."""
        history = self._histories.get(after.group_id)
        if not isinstance(history, GroupHistory):
            if not any(isinstance(action, RebalanceCaused) for action in actions):
                return
            history = self._begin(after.group_id, GroupHistory(self._totals.entries_max))
        held = history.held_bytes
        completed = history.observe(before, after, event, actions, now)
        self._ended(() if completed is None else (completed,))
        self._limit(history, held)

    def observe_consumer(
        self, before: ConsumerGroup, step: Step, topics: Topics, now: ConsumerNow, *, is_converted: bool
    ) -> None:
        """Add what one step of a consumer group changed; `is_converted`: the group was a classic one before it."""
        group_id, history = step.group.group_id, self._histories.get(step.group.group_id)
        if not isinstance(history, ConsumerGroupHistory):
            raised = next((action for action in step.actions if isinstance(action, EpochRaised)), None)
            if raised is None and step.group.assignment_epoch == before.assignment_epoch:
                return
            history = self._begin(group_id, ConsumerGroupHistory(self._totals.entries_max))
            if is_converted and raised is not None:
                history.converted(raised.epoch, now)
        held = history.held_bytes
        self._ended(history.observe(before, step, topics, now))
        self._limit(history, held)

    def observe_share(self, before: ShareGroup, step: ShareStep, topics: Topics, now: ConsumerNow) -> None:
        """Add what one step of a share group changed."""
        group_id, history = step.group.group_id, self._histories.get(step.group.group_id)
        if not isinstance(history, ShareGroupHistory):
            is_raised = any(isinstance(action, ShareEpochRaised) for action in step.actions)
            if not is_raised and step.group.assignment_epoch == before.assignment_epoch:
                return
            history = self._begin(group_id, ShareGroupHistory(self._totals.entries_max))
        held = history.held_bytes
        self._ended(history.observe(before, step, topics, now))
        self._limit(history, held)

    def restored(self, group: Group, now: Now) -> None:
        """A group was loaded. One that rebalances at once has too many members (`machine.restored_group`)."""
        self._rebalances_at_once(group, RebalanceCaused(RebalanceCause.GROUP_TOO_LARGE, None, ""), now)

    def restored_consumer(self, group: ConsumerGroup, now: ConsumerNow) -> None:
        """A consumer group was loaded; its members may be on their way to a target."""
        history = ConsumerGroupHistory(self._totals.entries_max)
        history.loaded(group, now)
        if history.held_bytes:
            held = self._begin(group.group_id, history).held_bytes
            self._limit(history, held)

    def restored_share(self, group: ShareGroup, now: ConsumerNow) -> None:
        """A share group was loaded; its members may not have reached its target yet."""
        history = ShareGroupHistory(self._totals.entries_max)
        history.loaded(group, now)
        if history.held_bytes:
            held = self._begin(group.group_id, history).held_bytes
            self._limit(history, held)

    def ends_as_classic(self, group: ConsumerGroup, now: ConsumerNow) -> None:
        """A consumer group becomes a classic one; `begins_as_classic` follows."""
        history = self._histories.get(group.group_id)
        if isinstance(history, ConsumerGroupHistory):
            held = history.held_bytes
            history.end(group, now)
            self._limit(history, held)

    def begins_as_classic(self, group: Group, now: Now) -> None:
        """A classic group begins with the members of a consumer group, which may have to join again."""
        caused = RebalanceCaused(RebalanceCause.PROTOCOL_CHANGED, None, "to classic")
        self._rebalances_at_once(group, caused, now)

    def of(self, group: AnyGroup) -> list[Rebalance]:
        """A group's rebalances, oldest first.

        The last one may be in progress, and the last two of a consumer or share group.
        """
        history = self._histories.get(group.group_id)
        if history is None:
            return []
        current: Iterable[Rebalance | None] = ()
        if isinstance(history, GroupHistory) and isinstance(group, Group):
            current = (history.in_progress(group),)
        if isinstance(history, ConsumerGroupHistory) and isinstance(group, ConsumerGroup):
            current = history.in_progress(group)
        if isinstance(history, ShareGroupHistory) and isinstance(group, ShareGroup):
            current = history.in_progress(group)
        return [*history.entries, *(rebalance for rebalance in current if rebalance is not None)]

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

    def _begin(self, group_id: str, history: H) -> H:
        """A history of the group's protocol; the entries of the protocol that it had before are taken over."""
        former = self._histories.get(group_id)
        held = 0
        if former is not None:
            held = former.held_bytes
            history.take_over(former)
        self._histories[group_id] = history
        self._change(history.held_bytes - held)
        return history

    def _rebalances_at_once(self, group: Group, caused: RebalanceCaused, now: Now) -> None:
        if group.state is GroupState.PREPARING_REBALANCE:
            history = self._begin(group.group_id, GroupHistory(self._totals.entries_max))
            held = history.held_bytes
            history.begin(group, caused, now)
            self._limit(history, held)

    def _ended(self, rebalances: Iterable[Rebalance]) -> None:
        for rebalance in rebalances:
            self._totals.completed[rebalance.first_cause] += 1

    def _limit(self, history: RebalanceEntries, held_before: int) -> None:
        while history.entries and self._totals.is_over(history.held_bytes - held_before):
            history.drop_oldest()
        if self._totals.is_over(history.held_bytes - held_before):
            history.abandon()
        self._change(history.held_bytes - held_before)

    def _change(self, by_bytes: int) -> None:
        self._totals.change(by_bytes)
        self._memory.change(by_bytes)
