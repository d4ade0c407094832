"""A simulated consumer group: its machine, clients, a clock, and a disk whose writes complete on command.

Used by the groups' transcripts and laws. The simulation does what the shell does (carry actions out in order, tick when
something is due) and checks the contract: every request is answered once, the invariants hold after every step
(`machine.check_invariants`), and what was written, read back, is the persistent part of the group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.events import (
    DeleteGroup,
    Event,
    GroupAnswer,
    GroupLimits,
    GroupWrite,
    Heartbeat,
    Join,
    JoinAnswer,
    LastOffsetRemoved,
    Leave,
    LeaveAnswer,
    LeavingMember,
    MemberFenced,
    Now,
    RebalanceCompleted,
    Sync,
    SyncAnswer,
    Tick,
    Unload,
    ValidateOffsetCommit,
    WriteCompleted,
)
from sordini.broker.groups.machine.persistent_state import persistent_value
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause, RebalanceCaused
from sordini.broker.groups.machine.rebalance_history import GroupHistory
from sordini.broker.groups.machine.state import Caller, Group, GroupState, GroupValue, Protocol
from sordini.protocol.errors import ErrorCode

REQUEST_NAMES: dict[type, str] = {ValidateOffsetCommit: "commit", DeleteGroup: "delete"}
"""The names in transcripts that differ from the event's."""
EPOCH_MS = 1_700_000_000_000
"""The wall clock when the monotonic one is at 0."""


@dataclass
class Client:
    """A consumer and its settings."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    generation_id: int = -1
    protocols: tuple[Protocol, ...] = (Protocol("range", b"m"),)
    protocol_type: str = "consumer"
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    version: int = 9
    error: ErrorCode | None = None
    """The error code of its last answer."""


@dataclass
class World:
    """`said` collects one line for each answer and write since it was last read."""

    limits: GroupLimits = field(default_factory=lambda: GroupLimits(initial_rebalance_delay_ms=0))
    group: Group = field(default_factory=lambda: Group("g"))
    now_ms: int = 0
    disk_waits: bool = False
    clients: dict[str, Client] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    waiting: dict[Caller, tuple[Client | None, Event]] = field(default_factory=dict)
    writes: deque[GroupWrite] = field(default_factory=deque)
    folded: GroupValue | None = None
    drawn: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    logged: list[MemberFenced | RebalanceCompleted] = field(default_factory=list)
    history: GroupHistory = field(default_factory=lambda: GroupHistory(50))
    is_unloaded: bool = False
    """Whether the broker is no longer the coordinator, which ends the group but keeps its record."""
    given: list[tuple[str, bytes]] = field(default_factory=list)
    """The assignments that were sent, by member."""

    # Clients.

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def join(self, client: Client, *, once: bool = False) -> None:
        """Join; a new member that is sent its id joins again with that, unless `once`."""
        draw = client.instance_id or client.name
        self.drawn[draw] = self.drawn.get(draw, 0) + 1
        self._submit(
            client,
            Join(
                self._caller(),
                client.member_id,
                client.instance_id,
                f"client-{client.name}",
                "/10.0.0.1",
                client.rebalance_timeout_ms,
                client.session_timeout_ms,
                client.protocol_type,
                client.protocols,
                f"{draw}-{self.drawn[draw]}",
                client.version >= 4 and client.instance_id is None,
                client.version >= 9,
            ),
        )
        if client.error is ErrorCode.MEMBER_ID_REQUIRED and not once:
            self.said.pop()
            self.join(client)

    def sync(self, client: Client, shares: Mapping[str, bytes], protocol_name: str | None = None) -> None:
        """Send or fetch the assignment; `shares` is by client."""
        assignments = {self.client(name).member_id: share for name, share in shares.items()}
        caller, name = self._caller(), client.instance_id
        event = Sync(caller, client.member_id, name, client.generation_id, None, protocol_name, assignments)
        self._submit(client, event)

    def heartbeat(self, client: Client) -> None:
        self._submit(client, Heartbeat(self._caller(), client.member_id, client.instance_id, client.generation_id))

    def commit(self, client: Client) -> None:
        self._submit(
            client, ValidateOffsetCommit(self._caller(), client.member_id, client.instance_id, client.generation_id)
        )

    def leave(self, *leaving: LeavingMember, client_id: str | None = None) -> None:
        self._submit(None, Leave(self._caller(), leaving, client_id))

    def delete(self) -> None:
        self._submit(None, DeleteGroup(self._caller()))

    def last_offset_removed(self) -> None:
        self.apply(LastOffsetRemoved())

    def unload(self) -> None:
        self.is_unloaded = True
        self.apply(Unload())

    # Time, disk and broker.

    def wait(self, duration_ms: int) -> None:
        """Let time pass, ticking when something is due."""
        until_ms, idle = self.now_ms + duration_ms, 0
        while (due_ms := machine.next_due_ms(self.group)) is not None and due_ms <= until_ms:
            idle = idle + 1 if due_ms <= self.now_ms else 0
            assert idle < 5, "ticks without effect"
            self.now_ms = max(self.now_ms, due_ms)
            self._tick(0)
        self.now_ms = until_ms

    def stall(self, duration_ms: int) -> None:
        """Let time pass while no request is served; the tick is late by that."""
        due_ms = machine.next_due_ms(self.group)
        self.now_ms += duration_ms
        if due_ms is not None and due_ms <= self.now_ms:
            self._tick(max(self.now_ms - due_ms, 1))

    def restart(self) -> None:
        """The broker crashes and loads what it had written."""
        self.waiting.clear()
        self.writes.clear()
        self.history = GroupHistory(50)
        self.group, self.is_unloaded = Group("g"), False
        if self.folded is not None:
            self.group = machine.restored_group("g", self.folded, self._now(), self.limits)
        if self.group.state is GroupState.PREPARING_REBALANCE:
            caused = RebalanceCaused(RebalanceCause.GROUP_TOO_LARGE, None, "")
            self.history.begin(self.group, caused, self._now())
        machine.check_invariants(self.group)

    def disk_answers(self, error: ErrorCode | None = None) -> None:
        """The oldest pending write completes, or fails."""
        write = self.writes.popleft()
        if error is None:
            self.folded = write.value
        self.apply(WriteCompleted(write.generation_id, error, write.number))
        if error is None and not self.writes and self.group.state is not GroupState.COMPLETING_REBALANCE:
            self._check_persistent()

    def apply(self, event: Event) -> None:
        """Take a step and carry out its actions."""
        before = self.group
        self.group, actions = machine.step(before, event, self._now(), self.limits)
        assert self.group.generation_id >= before.generation_id
        if not isinstance(event, Heartbeat | ValidateOffsetCommit):
            self.history.observe(before, self.group, event, actions, self._now())
        machine.check_invariants(self.group)
        for action in actions:
            if isinstance(action, MemberFenced | RebalanceCompleted):
                self.logged.append(action)
                continue
            if isinstance(action, RebalanceCaused):
                continue
            if isinstance(action, GroupWrite):
                if action.value is not None:
                    assert records.read_group(records.group_value(action.value)) == action.value
                self.said.append(_write_text(action))
                self.writes.append(action)
            else:
                client, request = self.waiting.pop(action.caller)
                self._record_answer(client, request, action.answer)
        while self.writes and not self.disk_waits:
            self.disk_answers()
        self._check_callers()

    # Helpers.

    def _now(self) -> Now:
        return Now(self.now_ms, EPOCH_MS + self.now_ms)

    def _caller(self) -> Caller:
        self.requests += 1
        return Caller(self.requests)

    def _submit(
        self, client: Client | None, event: Join | Sync | Heartbeat | Leave | ValidateOffsetCommit | DeleteGroup
    ) -> None:
        if client is not None:
            client.error = None
        self.waiting[event.caller] = (client, event)
        self.apply(event)

    def _tick(self, late_ms: int) -> None:
        self.apply(Tick(late_ms))

    def _check_callers(self) -> None:
        """Every request without an answer is pending in one field of the group."""
        members = self.group.members.values()
        pending = [m.awaiting_join for m in members] + [m.awaiting_sync for m in members]
        pending += [getattr(writing.purpose, "caller", None) for writing in self.group.pending_writes]
        assert sorted(caller for caller in pending if caller is not None) == sorted(self.waiting)

    def _check_persistent(self) -> None:
        """The last record agrees with the group, but for the time of a change that has no write of its own."""
        if self.group.state is GroupState.DEAD:
            assert self.folded is None or self.is_unloaded  # The group is dead on this broker only.
        elif self.folded is not None and self.group.state in (GroupState.STABLE, GroupState.EMPTY):
            live = persistent_value(self.group)
            if self.group.state is GroupState.STABLE:
                live = live._replace(state_since_ms=self.folded.state_since_ms)
            assert live == self.folded

    def _record_answer(
        self, client: Client | None, event: Event, answer: JoinAnswer | SyncAnswer | LeaveAnswer | GroupAnswer
    ) -> None:
        name = "admin" if client is None else client.name
        kind = REQUEST_NAMES.get(type(event), type(event).__name__.lower())
        self.said.append(f"{name} <- {kind} {_answer_text(answer)}")
        if client is None:
            return
        if not isinstance(answer, LeaveAnswer):
            client.error = answer.error
        if isinstance(event, Sync) and isinstance(answer, SyncAnswer) and answer.error is ErrorCode.NONE:
            self.given.append((event.member_id, answer.assignment))
        if isinstance(answer, JoinAnswer):
            known = answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
            client.member_id = answer.member_id if known else client.member_id
            if answer.error is ErrorCode.NONE:
                client.generation_id = answer.generation_id


def describe(group: Group) -> str:
    """The last line of each answer in a transcript."""
    parts = [group.state.value, f"generation={group.generation_id}"]
    if group.members:
        parts.append("members=" + ",".join(id_ + "*" * (id_ == group.leader_id) for id_ in group.members))
    if group.pending_joins:
        parts.append("given=" + ",".join(group.pending_joins))
    return "= " + " ".join(parts)


def _answer_text(answer: JoinAnswer | SyncAnswer | LeaveAnswer | GroupAnswer) -> str:
    if isinstance(answer, LeaveAnswer):
        return " ".join(error.name for error in answer.errors)
    if isinstance(answer, JoinAnswer) and answer.error is ErrorCode.NONE:
        parts = [
            f"id={answer.member_id} generation={answer.generation_id} {answer.protocol_type}/{answer.protocol_name}"
        ]
        parts.append(f"leader={answer.leader_id}")
        if answer.skip_assignment:
            parts.append("skips-assignment")
        parts += [f"{member.member_id}:{member.metadata.decode()}" for member in answer.members]
        return " ".join(parts)
    if isinstance(answer, JoinAnswer):
        return f"{answer.error.name} id={answer.member_id}" if answer.member_id else answer.error.name
    if isinstance(answer, SyncAnswer) and answer.error is ErrorCode.NONE:
        return f"assigned {answer.assignment.decode() or 'nothing'}"
    return answer.error.name


def _write_text(write: GroupWrite) -> str:
    if write.value is None:
        return "write tombstone"
    members = [f"{member.member_id}={member.assignment.decode()}" for member in write.value.members]
    return " ".join([f"write generation={write.generation_id}", *(members or ["without members"])])
