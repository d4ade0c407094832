"""The share groups of one partition of __consumer_offsets, for as long as this broker leads it.

Events go through the machine one at a time. Records of a step are appended as one batch before the step is in force; an
answer leaves once everything that the group has written is committed, and then the share coordinator is requested to
initialize states.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

from sordini.broker.coordinators.event_queue import EventQueue
from sordini.broker.coordinators.journal import KeyValue
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.committed_answers import CommittedAnswers
from sordini.broker.groups.consumer.machine.events import (
    MemberFenced,
    Now,
    Refusal,
    TargetAssigned,
    TargetComputed,
    Tick,
    Topics,
)
from sordini.broker.groups.consumer.member_connections import MemberConnections, OlderConnection
from sordini.broker.groups.journal_errors import GROUP_ERRORS
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.shard_histories import ShardHistories
from sordini.broker.groups.share.machine import machine, record_formats
from sordini.broker.groups.share.machine.changes import MemberChange
from sordini.broker.groups.share.machine.events import (
    Action,
    Answer,
    EpochRaised,
    Event,
    InitializeStates,
    SetOffsets,
    ShareGroupTimings,
    ShareHeartbeat,
    StatesInitialized,
    StatesNotInitialized,
    Step,
    StepContext,
)
from sordini.broker.groups.share.machine.memory_cost import added_cost, cost_change
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup, assign_simply
from sordini.broker.groups.share.machine.state import JOIN_EPOCH, Partitions, ShareGroup
from sordini.broker.groups.share.machine.target import SIMPLE
from sordini.broker.groups.share.state_requests import StateRequests, pairs
from sordini.broker.network.ports import Peer
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

STEPS_AT_ONCE = 2_000
"""Of the assignor, in the request that needs the target; a longer one continues in slices of as many steps."""

NO_ROOM = "The groups of this broker use all memory that sordini.group.memory.bytes.max allows."

OnAnswer = Callable[[Any], None]
Append = Callable[[Sequence[KeyValue], Callable[[], None], Callable[[ErrorCode], None]], bool]
"""The journal's `append`."""


class ShareGroupDeps(NamedTuple):
    """What all share groups of a broker share."""

    ports: Ports
    settings_of: Callable[[str], ShareGroupTimings]
    topics: Topics
    states: StateRequests
    is_offloaded: Callable[[], bool]
    """group.share.assignor.offload.enable"""
    is_guarded: bool
    """sordini.group.consumer.stale.connection.fencing.enable"""


class _Submitted(NamedTuple):
    """An event, and who waits for its answer."""

    event: Event
    on_answer: OnAnswer | None
    peer: Peer | None = None
    """Who sent it."""


class ShareGroups:
    """By group id. A group is kept while it has members or records."""

    def __init__(
        self,
        deps: ShareGroupDeps,
        append: Append,
        schedule: Callable[[str, int], None],
        memory: ShardMemoryUsage,
        histories: ShardHistories,
    ) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._deps = deps
        self._append = append
        self._schedule = schedule
        self._memory = memory
        self._histories = histories
        self._events: EventQueue[_Submitted] = EventQueue(self._step)
        self._answers = CommittedAnswers()
        self._connections = MemberConnections() if deps.is_guarded else None
        self.is_closed = False
        """Whether the leadership has ended."""

    # Requests and events.

    def submit(self, group_id: str, event: Event, on_answer: OnAnswer | None = None, peer: Peer | None = None) -> None:
        """Apply an event; `on_answer` is called once with its answer, maybe before this returns."""
        self._events.apply(group_id, _Submitted(event, on_answer, peer))

    def tick(self, group_id: str, late_ms: int) -> None:
        self.submit(group_id, Tick(late_ms))

    def restore(self, group: ShareGroup) -> None:
        """Keep a group that was loaded. Its sessions have started."""
        self._keep(group.group_id, group)
        self._histories.restored_share(group, self._now())

    def tombstones(self, group_id: str) -> list[KeyValue]:
        """Of all records of a group without members."""
        return [record_formats.written(group_id, change) for change in machine.removal(self.groups[group_id])]

    def forget(self, group_id: str) -> None:
        """Its tombstones are in the log."""
        self._keep(group_id, None)
        self._histories.group_removed(group_id)

    def unload(self) -> None:
        """The leadership has ended: what waits is answered NOT_COORDINATOR by the journal or here."""
        self.is_closed = True
        self._answers.close()
        for group_id in list(self.groups):
            self._keep(group_id, None)
        if self._connections is not None:
            self._connections.clear()

    # Steps of the machine.

    def _step(self, group_id: str, submitted: _Submitted) -> None:
        if self.is_closed:
            _answer(submitted, Refusal(ErrorCode.NOT_COORDINATOR, ""))
            return
        event, known = submitted.event, self.groups.get(group_id)
        if known is None and not _creates_group(event):
            is_member = isinstance(event, ShareHeartbeat) and event.member_epoch > JOIN_EPOCH
            kind = "Share group" if is_member else "Group"
            _answer(submitted, Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found."))
            return
        if known is not None and not self._is_on_newest_connection(known, submitted):
            _answer(submitted, OlderConnection())
            return
        if isinstance(event, ShareHeartbeat) and not self._has_room(group_id, known, event):
            _answer(submitted, Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
            return
        around = StepContext(self._now(), self._deps.settings_of(group_id), self._deps.topics, self._assign)
        before = known or ShareGroup(group_id)
        step = machine.step(before, event, around)
        records = [record_formats.written(group_id, change) for change in step.changes]
        if not records:
            if known is not None:
                self._keep(group_id, step.group)
            self._answers.when_committed(group_id, partial(_answer_or_error, submitted, step.answer))
        elif not self._write(group_id, step, records, submitted):
            return
        else:
            self._histories.observe_share(before, step, around.topics, around.now)
        for action in step.actions:
            self._carry_out(group_id, action)

    def _write(self, group_id: str, step: Step, records: Sequence[KeyValue], submitted: _Submitted) -> bool:
        """Append the records of a step; if that fails the step has not happened. Whether it has.

        Answers are made of the step alone: one that leaves while the records are appended does not see the group.
        """
        committed = partial(self._answers.committed, group_id)

        def done(code: ErrorCode) -> None:
            _answer_or_error(submitted, step.answer, code)

        self._answers.appending(group_id)
        if not self._append(records, committed, done):
            committed()
            return False
        self._keep(group_id, step.group)
        self._remember_connection(group_id, step, submitted)
        return True

    def _keep(self, group_id: str, group: ShareGroup | None) -> None:
        if group is None:
            self.groups.pop(group_id, None)
            self._memory.group_removed(group_id)
            return
        self._memory.add_to_group(group_id, cost_change(self.groups.get(group_id), group))
        self.groups[group_id] = group
        due_ms = machine.next_due_ms(group)
        if due_ms is not None:
            self._schedule(group_id, due_ms)

    def _carry_out(self, group_id: str, action: Action) -> None:
        log = self._deps.ports.log
        match action:
            case MemberFenced(member_id, instance_id, reason):
                log.info("member fenced", group=group_id, member=member_id, instance=instance_id, reason=reason)
            case EpochRaised(epoch, cause):
                log.info("group epoch raised", group=group_id, epoch=epoch, reason=cause.reason)
            case TargetAssigned(epoch, assignor, members):
                log.info("target assigned", group=group_id, epoch=epoch, assignor=assignor, members=members)
            case InitializeStates():
                self._answers.when_committed(group_id, partial(self._initialize, group_id, action))
            case _:
                assert_never(action)

    def _initialize(self, group_id: str, action: InitializeStates, code: ErrorCode) -> None:
        """The partitions are in the log as being initialized; without that they are tried again later."""
        if code:
            return

        def done(errors: Mapping[tuple[TopicId, int], ErrorCode]) -> None:
            if self.is_closed or group_id not in self.groups:
                return
            failed = next((error for error in errors.values() if error), ErrorCode.NONE)
            if failed:
                self._deps.ports.log.warning("states not initialized", group=group_id, error=failed.name)
                self.submit(group_id, StatesNotInitialized(action.partitions))
            else:
                self.submit(group_id, StatesInitialized(action.partitions))

        starts = {(topic_id, index): action.starts[topic_id] for topic_id, index in pairs(action.partitions)}
        self._deps.states.initialize(group_id, action.state_epoch, starts, done)

    def _is_on_newest_connection(self, group: ShareGroup, submitted: _Submitted) -> bool:
        """Whether an event is no heartbeat on an older connection than its member's newest, which it may be itself."""
        event, peer = submitted.event, submitted.peer
        if self._connections is None or peer is None or not isinstance(event, ShareHeartbeat):
            return True
        return self._connections.admit(group, event.member_id, peer.number)

    def _remember_connection(self, group_id: str, step: Step, submitted: _Submitted) -> None:
        if self._connections is None:
            return
        said = {change.member_id: change.value for change in step.changes if isinstance(change, MemberChange)}
        event, peer = submitted.event, submitted.peer
        removed = [member_id for member_id, value in said.items() if value is None]
        joined = event.member_id if isinstance(event, ShareHeartbeat) and said.get(event.member_id) else None
        if peer is None:
            joined = None
        self._connections.members_changed(group_id, removed, joined, 0 if peer is None else peer.number)

    def _has_room(self, group_id: str, group: ShareGroup | None, event: ShareHeartbeat) -> bool:
        """Whether memory allows what a heartbeat says of a member."""
        if event.subscribed_topics is None:
            return True
        member = None if group is None else group.members.get(event.member_id)
        return self._memory.has_room(self._memory.missing_group_bytes(group_id) + added_cost(member, event))

    # The context of a step.

    def _now(self) -> Now:
        clock = self._deps.ports.clock
        return Now(clock.monotonic_ms(), clock.now_ms())

    def _assign(self, group_id: str, epoch: int, group: AssignableGroup) -> Mapping[str, Partitions] | None:
        work, is_offloaded = assign_simply(group), self._deps.is_offloaded()
        steps = 0
        try:
            while steps < STEPS_AT_ONCE or not is_offloaded:
                steps += next(work)
        except StopIteration as end:
            targets: Mapping[str, Partitions] = end.value
            return targets
        self._deps.ports.spawn(self._assign_in_slices(group_id, epoch, work))
        return None

    async def _assign_in_slices(
        self, group_id: str, epoch: int, work: Generator[int, None, Mapping[str, Partitions]]
    ) -> None:
        while True:
            await asyncio.sleep(0)
            steps = 0
            try:
                while steps < STEPS_AT_ONCE:
                    steps += next(work)
            except StopIteration as end:
                self.submit(group_id, TargetComputed(epoch, SIMPLE, end.value))
                return


def _creates_group(event: Event) -> bool:
    """Whether a group that does not exist begins with an event."""
    return isinstance(event, SetOffsets) or (isinstance(event, ShareHeartbeat) and event.member_epoch == JOIN_EPOCH)


def _answer(submitted: _Submitted, answer: Answer | OlderConnection | None) -> None:
    if submitted.on_answer is not None:
        submitted.on_answer(answer)


def _answer_or_error(submitted: _Submitted, answer: Answer | None, code: ErrorCode) -> None:
    """The answer, or why its records are not committed."""
    _answer(submitted, answer if not code else Refusal(GROUP_ERRORS.get(code, code), ""))
