"""A share group's machine with its log, its clock and a share coordinator that may fail: what laws are played on."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.groups.consumer.machine.events import HeartbeatAnswer, Now, Refusal, Tick
from sordini.broker.groups.share.machine import machine, record_formats
from sordini.broker.groups.share.machine.events import (
    Event,
    InitializeStates,
    ShareGroupTimings,
    ShareHeartbeat,
    StatesInitialized,
    StatesNotInitialized,
    Step,
    StepContext,
)
from sordini.broker.groups.share.machine.folded import FoldedShareGroup
from sordini.broker.groups.share.machine.rebalance_history import ShareGroupHistory
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup, assign_simply
from sordini.broker.groups.share.machine.state import Partitions, ShareGroup
from sordini.protocol.records.versioned import Damaged
from tests.support.assignor_groups import result_of
from tests.support.consumer_group_world import START_MS, WALL_MS, FakeTopics

GROUP = "g"


class ShareGroupWorld:
    """Every step is checked: the invariants hold, and the log says the same as the group."""

    def __init__(self, *, interval_ms: int = 0, members_max: int = 200, **topics: int) -> None:
        self.topics = FakeTopics(**topics)
        self.settings = ShareGroupTimings(assignment_interval_ms=interval_ms, members_max=members_max)
        self.group = ShareGroup(GROUP)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.pending: list[InitializeStates] = []
        self.steps: list[Step] = []
        self.history = ShareGroupHistory(10_000)
        self.moments: list[tuple[Now, ShareGroup, Step]] = []
        """All steps that changed the group since the history began."""
        self.loaded_group: ShareGroup | None = None
        """The group as the history began with it; None for the group before its first member."""

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def apply(self, event: Event) -> Step:
        before = self.group
        step = machine.step(before, event, StepContext(self.now, self.settings, self.topics, _assign))
        machine.check_invariants(step.group)
        assert step.group.epoch >= before.epoch
        assert step.group.assignment_epoch >= before.assignment_epoch
        self.log += [record_formats.written(GROUP, change) for change in step.changes]
        self.group = step.group
        self.pending += [action for action in step.actions if isinstance(action, InitializeStates)]
        self.steps.append(step)
        if step.changes:
            self.moments.append((self.now, before, step))
            self.history.observe(before, step, self.topics, self.now)
        assert persistent(self.loaded()) == persistent(step.group)
        return step

    def beat(self, member_id: str, epoch: int, *topics: str, **fields: str) -> HeartbeatAnswer | Refusal:
        """A heartbeat; one that names topics subscribes to them."""
        subscribed = frozenset(topics) if topics else None
        rack = fields.get("rack")
        event = ShareHeartbeat(member_id, epoch, rack, subscribed, fields.get("client", "c"), "/127.0.0.1")
        answer = self.apply(event).answer
        assert isinstance(answer, HeartbeatAnswer | Refusal)
        return answer

    def store(self, *, fails: bool = False) -> None:
        """The share coordinator answers all that it was requested."""
        pending, self.pending = self.pending, []
        for action in pending:
            outcome = StatesNotInitialized if fails else StatesInitialized
            self.apply(outcome(action.partitions))

    def tick(self, late_ms: int = 0) -> Step:
        return self.apply(Tick(late_ms))

    def loaded(self) -> ShareGroup:
        """What the next coordinator finds in the log."""
        folded = FoldedShareGroup(GROUP)
        for key, value in self.log:
            found = record_formats.read(key, value)
            assert found is not None
            assert not isinstance(found, Damaged)
            assert found.group_id == GROUP
            folded.fold(found.change)
        group = folded.group(self.now_ms, WALL_MS + self.now_ms, self.settings.session_timeout_ms)
        return ShareGroup(GROUP) if group is None else group

    def restart(self) -> None:
        """Another broker coordinates the group."""
        self.group, self.pending = self.loaded(), []
        self.history, self.moments, self.loaded_group = ShareGroupHistory(10_000), [], self.group
        self.history.loaded(self.group, self.now)


def persistent(group: ShareGroup) -> ShareGroup:
    """Without what is lost with the leadership of the partition."""
    return group._replace(
        session_deadlines_ms={}, due_ms=None, topics_version=0, states_ms=0, grace=None, is_target_under_way=False
    )


def _assign(_group_id: str, _epoch: int, group: AssignableGroup) -> Mapping[str, Partitions]:
    return result_of(assign_simply(group))
