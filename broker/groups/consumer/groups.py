"""The consumer groups of one partition of __consumer_offsets, for as long as this broker leads it.

Events go through the machine one at a time. Records of a step are appended as one batch before the step is in force; an
answer leaves once everything that the group has written is committed, so that no member knows what could be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Protocol

from sordini.broker.coordinators.event_queue import EventQueue
from sordini.broker.coordinators.journal import KeyValue
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.committed_answers import CommittedAnswers
from sordini.broker.groups.consumer.machine import machine, record_formats
from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.assignors.group import static_ids
from sordini.broker.groups.consumer.machine.changes import Change
from sordini.broker.groups.consumer.machine.events import (
    Action,
    Answer,
    ClassicJoin,
    ClassicState,
    ConsumerHeartbeat,
    ConsumerLimits,
    EpochRaised,
    Event,
    MemberFenced,
    Now,
    Refusal,
    RegexesResolved,
    ResolveRegexes,
    Step,
    StepContext,
    TargetAssigned,
    TargetComputed,
    Tick,
    Topics,
)
from sordini.broker.groups.consumer.machine.memory_cost import added_cost, cost_change, says_nothing_new
from sordini.broker.groups.consumer.machine.state import JOIN_EPOCH, ConsumerGroup, Partitions, ResolvedRegex
from sordini.broker.groups.consumer.member_connections import NO_CONNECTION, MemberConnections, OlderConnection
from sordini.broker.groups.journal_errors import GROUP_ERRORS
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.shard_histories import ShardHistories
from sordini.broker.network.ports import Peer
from sordini.protocol.errors import ErrorCode
from sordini.system.named_tuple import NamedTuple

STEPS_AT_ONCE = 2_000
"""Of an assignor, in the request that needs the target; a longer one goes on in slices of as many steps."""

RETRY_MS: Final = 1_000
"""What no client asks for again (a target, the topics of a regular expression, a fencing) is tried again so much later
when it could not be written; then after twice the time, and so on."""
RETRY_DOUBLINGS_MAX: Final = 5
RETRY_MS_MAX: Final = 30_000

NO_ROOM = "The groups of this broker use all memory that sordini.group.memory.bytes.max allows."

OnAnswer = Callable[[Any], None]
Append = Callable[[Sequence[KeyValue], Callable[[], None], Callable[[ErrorCode], None]], bool]
"""The journal's `append`."""
EndAsClassic = Callable[[ConsumerGroup, ClassicState], tuple[KeyValue, Callable[[], None]]]
"""The record of a classic group with the members of this one, and what begins it once that is in the log."""


class ResolveTopics(Protocol):
    """Finds the topics that regular expressions match, as far as a peer may see them."""

    async def __call__(self, regexes: Iterable[str], peer: Peer) -> Mapping[str, ResolvedRegex]: ...


class ConsumerGroupDeps(NamedTuple):
    """What all consumer groups of a broker share."""

    ports: Ports
    settings_of: Callable[[str], ConsumerLimits]
    topics: Topics
    resolve: ResolveTopics
    is_offloaded: Callable[[], bool]
    """group.consumer.assignor.offload.enable"""
    is_guarded: bool
    """sordini.group.consumer.stale.connection.fencing.enable"""


class _Submitted(NamedTuple):
    """An event, and who waits for its answer."""

    event: Event
    on_answer: OnAnswer | None
    peer: Peer | None = None
    """Who sent it."""
    prefix: tuple[KeyValue, ...] = ()
    """Records that precede those of the step, in the same batch."""
    begin: ConsumerGroup | None = None
    """The group before the event, where it begins with it: a classic group is converted."""
    retries: int = 0
    """How often it could not be written before."""


class _SlowTarget(NamedTuple):
    """A target that goes on to be computed once the step that began it is in force."""

    epoch: int
    assignor: str
    static_ids: Mapping[str, str]
    work: Generator[int, None, Mapping[str, Partitions]]


class ConsumerGroups:
    """By group id. A group is kept while it has members or records."""

    def __init__(
        self,
        deps: ConsumerGroupDeps,
        append: Append,
        schedule: Callable[[str, int], None],
        memory: ShardMemoryUsage,
        histories: ShardHistories,
        on_new: Callable[[str], None],
        end_as_classic: EndAsClassic,
    ) -> None:
        """`on_new` is called with the id of each group that begins here: a classic group of that id has ended."""
        self.groups: dict[str, ConsumerGroup] = {}
        self._deps = deps
        self._append = append
        self._schedule = schedule
        self._memory = memory
        self._histories = histories
        self._on_new = on_new
        self._end_as_classic = end_as_classic
        self._events: EventQueue[_Submitted] = EventQueue(self._step)
        self._answers = CommittedAnswers()
        self._connections = MemberConnections() if deps.is_guarded else None
        self._lives: dict[str, int] = {}
        """A number for each group: what was begun for a former group of the same id is not for this one."""
        self._numbers = count(1)
        self._is_closed = False

    # Requests and events.

    def submit(
        self,
        group_id: str,
        event: Event,
        on_answer: OnAnswer | None = None,
        peer: Peer | None = None,
        prefix: tuple[KeyValue, ...] = (),
        begin: ConsumerGroup | None = None,
    ) -> None:
        """Apply an event; `on_answer` is called once with its answer, maybe before this returns."""
        self._events.apply(group_id, _Submitted(event, on_answer, peer, prefix, begin))

    def tick(self, group_id: str, late_ms: int) -> None:
        self.submit(group_id, Tick(late_ms))

    def restore(self, group: ConsumerGroup) -> None:
        """Keep a group that was loaded. Its sessions have started."""
        self._keep(group.group_id, group)
        self._histories.restored_consumer(group, self._now())

    def tombstones(self, group_id: str) -> list[KeyValue]:
        """Of all records of a group without members."""
        return [record_formats.written(group_id, change) for change in machine.removal(self.groups[group_id])]

    def forget(self, group_id: str) -> None:
        """Its tombstones are in the log."""
        self._keep(group_id, None)

    def unload(self) -> None:
        """The leadership has ended: what waits is answered NOT_COORDINATOR by the journal or here."""
        self._is_closed = True
        self._answers.close()
        for group_id in list(self.groups):
            self._keep(group_id, None)
        if self._connections is not None:
            self._connections.clear()

    # Steps of the machine.

    def _step(self, group_id: str, submitted: _Submitted) -> None:
        if self._is_closed:
            _answer(submitted, Refusal(ErrorCode.NOT_COORDINATOR, ""))
            return
        event, known = submitted.event, self.groups.get(group_id)
        if known is None and not (isinstance(event, ConsumerHeartbeat) and event.member_epoch == JOIN_EPOCH):
            is_member = isinstance(event, ConsumerHeartbeat) and event.member_epoch > JOIN_EPOCH
            kind = "Consumer group" if is_member else "Group"
            _answer(submitted, Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found."))
            return
        if known is not None and not self._is_on_newest_connection(known, submitted):
            _answer(submitted, OlderConnection())
            return
        if not self._has_room(group_id, known, event):
            _answer(submitted, Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_ROOM))
            return
        before = known or submitted.begin or ConsumerGroup(group_id)
        slow: list[_SlowTarget] = []
        around = self._around(group_id, slow)
        step = machine.step(before, event, around)
        records = [record_formats.written(group_id, change) for change in step.changes]
        if not records:
            if known is not None:
                self._keep(group_id, step.group)
            self._answers.when_committed(group_id, partial(_answer_or_error, submitted, step.answer))
        elif not self._write(group_id, step, [*submitted.prefix, *records], submitted):
            self._retry_later(group_id, submitted)
            return
        else:
            self._remember_connection(step, submitted)
            if step.becomes_classic is None:
                is_converted = bool(submitted.prefix)
                self._histories.observe_consumer(before, step, around.topics, around.now, is_converted=is_converted)
        for action in step.actions:
            self._carry_out(group_id, action, submitted.peer)
        for target in slow:
            self._deps.ports.spawn(self._assign_in_slices(group_id, self._lives.get(group_id), target))

    def _retry_later(self, group_id: str, submitted: _Submitted) -> None:
        """A step could not be written. A client sends its request again; other events have no sender."""
        event, retries = submitted.event, submitted.retries
        if isinstance(event, TargetComputed | RegexesResolved | Tick):
            wait_ms = min(RETRY_MS << min(retries, RETRY_DOUBLINGS_MAX), RETRY_MS_MAX)
            again = Tick(wait_ms) if isinstance(event, Tick) else event
            submit = partial(self._submit_in_life, group_id, self._lives.get(group_id), again, retries + 1)
            self._deps.ports.call_later(wait_ms / 1000, submit)

    def _submit_in_life(self, group_id: str, life: int | None, event: Event, retries: int = 0) -> None:
        """Submit an event unless its group is gone, even if there is another one of that id."""
        if life is not None and self._lives.get(group_id) == life:
            self._events.apply(group_id, _Submitted(event, None, retries=retries))

    def _write(self, group_id: str, step: Step, records: Sequence[KeyValue], submitted: _Submitted) -> bool:
        """Append the records of a step; if that fails the step has not happened. Whether it has.

        Answers are made of the step alone: one that leaves while the records are appended does not see the group.
        """
        committed = partial(self._answers.committed, group_id)

        def done(code: ErrorCode) -> None:
            _answer_or_error(submitted, step.answer, code)

        self._answers.appending(group_id)
        begin_classic: Callable[[], None] | None = None
        if step.becomes_classic is not None:
            record, begin_classic = self._end_as_classic(step.group, step.becomes_classic)
            records = [*records, record]
        if not self._append(records, committed, done):
            committed()
            return False
        if begin_classic is None:
            self._keep(group_id, step.group, step.changes)
        else:
            self._keep(group_id, None)
            self._histories.ends_as_classic(step.group, self._now())
            begin_classic()
        return True

    def _keep(self, group_id: str, group: ConsumerGroup | None, changes: Sequence[Change] = ()) -> None:
        """Replace a group after a step that made these changes, begin with it, or forget it (None)."""
        before = self.groups.get(group_id)
        if group is None:
            self.groups.pop(group_id, None)
            self._lives.pop(group_id, None)
            self._memory.group_removed(group_id)
            return
        if before is None:
            self._lives[group_id] = next(self._numbers)
            self._on_new(group_id)
        self._memory.add_to_group(group_id, cost_change(before, group, changes))
        self.groups[group_id] = group
        due_ms = machine.next_due_ms(group)
        if due_ms is not None:
            self._schedule(group_id, due_ms)

    def _carry_out(self, group_id: str, action: Action, peer: Peer | None) -> None:
        log = self._deps.ports.log
        match action:
            case MemberFenced(member_id, instance_id, reason):
                log.info("member fenced", group=group_id, member=member_id, instance=instance_id, reason=reason)
            case EpochRaised(epoch, cause):
                log.info("group epoch raised", group=group_id, epoch=epoch, reason=cause.reason)
            case TargetAssigned(epoch, assignor, members):
                log.info("target assigned", group=group_id, epoch=epoch, assignor=assignor, members=members)
            case ResolveRegexes(regexes):
                assert peer is not None, "only heartbeats resolve regular expressions"
                self._deps.ports.spawn(self._resolve(group_id, self._lives.get(group_id), regexes, peer))

    async def _resolve(self, group_id: str, life: int | None, regexes: Collection[str], peer: Peer) -> None:
        self._submit_in_life(group_id, life, RegexesResolved(await self._deps.resolve(regexes, peer)))

    def _is_on_newest_connection(self, group: ConsumerGroup, submitted: _Submitted) -> bool:
        """Whether an event is no heartbeat on an older connection than its member's newest, which it may be itself."""
        event, peer = submitted.event, submitted.peer
        if self._connections is None or peer is None or not isinstance(event, ConsumerHeartbeat):
            return True
        return self._connections.admit(group, event.member_id, peer.number)

    def _remember_connection(self, step: Step, submitted: _Submitted) -> None:
        event, peer = submitted.event, submitted.peer
        if self._connections is not None:
            joining = event.member_id if isinstance(event, ConsumerHeartbeat) else None
            number = NO_CONNECTION if peer is None else peer.number
            self._connections.changed(step.group.group_id, step.changes, joining, number)

    def _has_room(self, group_id: str, group: ConsumerGroup | None, event: Event) -> bool:
        """Whether memory allows what an event says of a member."""
        if not isinstance(event, ConsumerHeartbeat | ClassicJoin):
            return True
        member = None if group is None else group.members.get(event.member_id)
        if isinstance(event, ConsumerHeartbeat) and says_nothing_new(member, event):
            return True
        return self._memory.has_room(self._memory.missing_group_bytes(group_id) + added_cost(member, event))

    # The context of a step.

    def _around(self, group_id: str, slow: list[_SlowTarget]) -> StepContext:
        """`slow` gets the target that takes long, if there is one."""
        assign = partial(self._assign, slow)
        return StepContext(self._now(), self._deps.settings_of(group_id), self._deps.topics, assign)

    def _now(self) -> Now:
        clock = self._deps.ports.clock
        return Now(clock.monotonic_ms(), clock.now_ms())

    def _assign(
        self, slow: list[_SlowTarget], _group_id: str, epoch: int, assignor: str, group: AssignorInput
    ) -> Mapping[str, Partitions] | None:
        work, is_offloaded = ASSIGNORS[assignor](group), self._deps.is_offloaded()
        steps = 0
        try:
            while steps < STEPS_AT_ONCE or not is_offloaded:
                steps += next(work)
        except StopIteration as end:
            targets: Mapping[str, Partitions] = end.value
            return targets
        slow.append(_SlowTarget(epoch, assignor, static_ids(group), work))
        return None

    async def _assign_in_slices(self, group_id: str, life: int | None, target: _SlowTarget) -> None:
        epoch, assignor, statics, work = target
        while True:
            await asyncio.sleep(0)
            steps = 0
            try:
                while steps < STEPS_AT_ONCE:
                    steps += next(work)
            except StopIteration as end:
                self._submit_in_life(group_id, life, TargetComputed(epoch, assignor, end.value, statics))
                return


def _answer(submitted: _Submitted, answer: Answer | OlderConnection | None) -> None:
    if submitted.on_answer is not None:
        submitted.on_answer(answer)


def _answer_or_error(submitted: _Submitted, answer: Answer | None, code: ErrorCode) -> None:
    """The answer, or why its records are not committed."""
    _answer(submitted, answer if not code else Refusal(GROUP_ERRORS.get(code, code), ""))
