"""The coordinator of a consumer group: the product's machine, its records, and the group that is folded from them.

Nothing of the protocol is decided here, nor which heartbeat comes too late (`member_connections.py`). The shell of the product appends the records of a step before an answer leaves
(`broker/groups/consumer/groups.py`): a step whose records are lost has not happened, and its answer was never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sordini.broker.groups.consumer.machine import machine, offset_validation
from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.changes import Change, OldMetadataChange, SubscriptionChange
from sordini.broker.groups.consumer.machine.events import (
    Answer,
    ConsumerHeartbeat,
    ConsumerLimits,
    Event,
    Now,
    StepContext,
    TargetComputed,
    Tick,
    Topic,
)
from sordini.broker.groups.consumer.machine.folded import FoldedGroup
from sordini.broker.groups.consumer.machine.state import (
    NO_PARTITIONS,
    NO_TIMEOUT,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
)
from sordini.broker.groups.consumer.member_connections import NO_CONNECTION, MemberConnections, OlderConnection
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId
from tests.model.consumer_groups.scopes import Scope
from tests.model.consumer_groups.state import (
    GROUP_ID,
    LEAVE,
    NAMES,
    TOPIC,
    TOPIC_ID,
    Computing,
    Coordinator,
    Request,
    partitions_of,
)
from tests.support.consumer_group_world import computed

NOW_MS, FAR_MS = 1_000, 1_000_000
LIMITS = ConsumerLimits(assignment_interval_ms=0)
SESSION, REBALANCE = "session", "rebalance"


class OneTopic(NamedTuple):
    """The cluster's topics; the version follows the count of partitions."""

    partitions: int

    @property
    def version(self) -> int:
        return self.partitions

    def get(self, name: str) -> Topic | None:
        return Topic(TOPIC_ID, self.partitions) if name == TOPIC else None

    def id_of(self, name: str) -> TopicId | None:
        return TOPIC_ID if name == TOPIC else None

    def hash_of(self, name: str) -> int | None:
        return self.partitions if name == TOPIC else None

    def name_of(self, topic_id: TopicId) -> str | None:
        return TOPIC if topic_id == TOPIC_ID else None


class Served(NamedTuple):
    coordinator: Coordinator
    answer: Answer | OlderConnection | None
    computing: Computing | None
    """A target that this step has begun to compute."""


class Rules:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def serve(self, coordinator: Coordinator, request: Request, partitions: int) -> Served:
        name, connections = NAMES[request.member], _connections(coordinator)
        if not connections.admit(coordinator.group, name, request.connection):
            return Served(coordinator._replace(newest=_newest(connections)), OlderConnection(), None)
        return self._step(coordinator, _event(request), partitions, connections, request.connection)

    def computed(self, coordinator: Coordinator, done: Computing, partitions: int) -> Served:
        targets = {name: _partitions(numbers) for name, numbers in done.targets}
        return self._step(coordinator, TargetComputed(done.epoch, done.assignor, targets), partitions)

    def fence(self, coordinator: Coordinator, member_id: str, deadline: str, partitions: int) -> Served:
        """One deadline of a member passes."""
        group = coordinator.group
        if deadline == SESSION:
            due = group._replace(session_deadlines_ms={**group.session_deadlines_ms, member_id: NOW_MS})
        else:
            due = group._replace(rebalance_deadlines_ms={**group.rebalance_deadlines_ms, member_id: NOW_MS})
        return self._step(coordinator._replace(group=due), Tick(0), partitions)

    def moved(self, coordinator: Coordinator) -> Coordinator:
        """Another broker has read the log."""
        return Coordinator(_calm(folded(coordinator.log) or ConsumerGroup(GROUP_ID)), coordinator.log)

    def is_commit_accepted(self, coordinator: Coordinator, member: int, epoch: int, partition: int) -> bool:
        partitions = [(TOPIC_ID, partition)]
        return not offset_validation.commit_error(coordinator.group, NAMES[member], epoch, partitions)

    def _step(
        self,
        coordinator: Coordinator,
        event: Event,
        partitions: int,
        connections: MemberConnections | None = None,
        connection: int = NO_CONNECTION,
    ) -> Served:
        if connections is None:
            connections = _connections(coordinator)
        begun: list[Computing] = []

        def assign(_: str, epoch: int, assignor: str, group: AssignorInput) -> Mapping[str, Partitions] | None:
            targets = computed(assignor, group)
            if not self.scope.is_offloaded:
                return targets
            numbers = tuple((name, partitions_of(target)) for name, target in sorted(targets.items()))
            begun.append(Computing(epoch, assignor, numbers))
            return None

        # A heartbeat may change the deadlines in place.
        before = coordinator.group._replace(session_deadlines_ms=dict(coordinator.group.session_deadlines_ms))
        step = machine.step(before, event, StepContext(Now(NOW_MS, NOW_MS), LIMITS, OneTopic(partitions), assign))
        joining = event.member_id if isinstance(event, ConsumerHeartbeat) else None
        connections.changed(GROUP_ID, step.changes, joining, connection)
        # Without delayed heartbeats no connection is older than another: then it is nothing to tell states apart by.
        newest = _newest(connections) if self.scope.delays else coordinator.newest
        log = {_key(change): change for change in (*coordinator.log, *step.changes)}
        kept = tuple(log[key] for key in sorted(log) if log[key].value is not None)
        return Served(Coordinator(_calm(step.group), kept, newest), step.answer, begun[0] if begun else None)


def folded(log: tuple[Change, ...]) -> ConsumerGroup | None:
    group = FoldedGroup(GROUP_ID)
    for change in log:
        group.fold(change)
    return group.group(NOW_MS, LIMITS.session_timeout_ms)


def _connections(coordinator: Coordinator) -> MemberConnections:
    """As if each member had joined on its newest connection."""
    connections = MemberConnections()
    for name, newest in zip(NAMES, coordinator.newest, strict=True):
        if newest != NO_CONNECTION:
            joined = SubscriptionChange(name, ConsumerMember(name))
            connections.changed(GROUP_ID, (joined,), name, newest)
    return connections


def _newest(connections: MemberConnections) -> tuple[int, int]:
    return connections.newest(GROUP_ID, NAMES[0]), connections.newest(GROUP_ID, NAMES[1])


def error_of(code: ErrorCode) -> str:
    return ErrorCode(code).name


def _calm(group: ConsumerGroup) -> ConsumerGroup:
    """The group without its clocks: deadlines run, and none has passed."""
    return group._replace(
        session_deadlines_ms=dict.fromkeys(group.session_deadlines_ms, FAR_MS),
        rebalance_deadlines_ms=type(group.rebalance_deadlines_ms)(dict.fromkeys(group.rebalance_deadlines_ms, FAR_MS)),
        due_ms=FAR_MS if group.members else None,
        assigned_ms=0,
        regexes_due_ms=FAR_MS,
    )


def _key(change: Change) -> tuple[str, str]:
    assert not isinstance(change, OldMetadataChange)
    return type(change).__name__, getattr(change, "member_id", "")


def _event(request: Request) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        NAMES[request.member],
        request.epoch,
        None,
        None,
        60_000 if request.is_full else NO_TIMEOUT,
        frozenset({TOPIC}) if request.is_full else None,
        None,
        None,
        None if request.owned is None or request.kind == LEAVE else _partitions(request.owned),
        "client",
        "host",
    )


def _partitions(numbers: frozenset[int]) -> Partitions:
    return {TOPIC_ID: numbers} if numbers else NO_PARTITIONS
