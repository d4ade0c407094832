"""The classic groups of one partition of __consumer_offsets (JoinGroup), for as long as this broker leads it.

Events go through the machine one at a time, in the order of their arrival, and its actions are carried out here:
answers to pending requests, writes to the journal, log lines.

A group is kept while it has members, a record, ids given out, or offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, assert_never

from sordini.broker.coordinators.event_queue import EventQueue
from sordini.broker.coordinators.shard import Shard
from sordini.broker.groups.conversion import interrupted_requests
from sordini.broker.groups.journal_errors import COMMIT_ERRORS, GROUP_ERRORS
from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.events import (
    Action,
    Event,
    GroupAnswer,
    GroupReply,
    GroupWrite,
    Heartbeat,
    Join,
    JoinAnswer,
    LastOffsetRemoved,
    MemberFenced,
    Now,
    RebalanceCompleted,
    Request,
    Tick,
    Unload,
    ValidateOffsetCommit,
    WriteCompleted,
)
from sordini.broker.groups.machine.group_deletion import deletion_callers
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.machine.rebalance_cause import RebalanceCaused
from sordini.broker.groups.machine.state import Caller, Group, GroupState, GroupValue
from sordini.broker.groups.shard_deps import GroupShardDeps
from sordini.broker.groups.shard_histories import ShardHistories
from sordini.broker.groups.shard_offsets import ShardOffsets
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

QUIET = frozenset({Heartbeat, ValidateOffsetCommit})
"""The most frequent events: they are part of no rebalance."""

OnAnswer = Callable[[Any], None]


class ClassicGroups:
    """By group id."""

    def __init__(
        self,
        shard: Shard[Any],
        deps: GroupShardDeps,
        offsets: ShardOffsets,
        memory: ShardMemoryUsage,
        histories: ShardHistories,
        now: Callable[[], Now],
    ) -> None:
        self.groups: dict[str, Group] = {}
        self._histories = histories
        self._shard = shard
        self._limits = deps.limits
        self._log = deps.ports.log
        self._offsets = offsets
        self._memory = memory
        self._now = now
        self._numbers = count(1)
        self._callers: dict[Caller, OnAnswer] = {}
        self._deleting: set[Caller] = set()
        """Who waits for the tombstone of a group whose place another one has taken."""
        self._events: EventQueue[Event] = EventQueue(self._step)

    # Requests and events.

    def submit(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        """Submit a request to a group; `on_answer` is called once, maybe before this returns."""
        caller = Caller(next(self._numbers))
        self._callers[caller] = on_answer
        self._events.apply(group_id, request._replace(caller=caller))

    def tick(self, group_id: str, late_ms: int) -> None:
        self._events.apply(group_id, Tick(late_ms))

    def restore(self, group_id: str, value: GroupValue | None) -> None:
        """Keep a group that was loaded; None: it has offsets only."""
        now = self._now()
        group = Group(group_id) if value is None else machine.restored_group(group_id, value, now, self._limits)
        self.keep(group)
        self._histories.restored(group, now)

    def begin(self, group: Group) -> None:
        """A group begins with the members of a consumer group."""
        self.keep(group)
        self._histories.begins_as_classic(group, self._now())

    def keep_for_offsets(self, group_id: str) -> None:
        """A group that did not exist has offsets."""
        self.keep(Group(group_id))

    def remove_without_offsets(self, group_id: str) -> None:
        """Remove an empty group that has no offsets."""
        group = self.groups.get(group_id)
        is_empty = group is not None and group.state is GroupState.EMPTY and not group.pending_writes
        if is_empty and self._offsets.of(group_id).is_idle:
            self._events.apply(group_id, LastOffsetRemoved())

    def end(self, group_id: str) -> None:
        """A consumer group has taken the place of a group: members that wait for it have to join again."""
        group = self.groups.get(group_id)
        if group is not None:
            self._drop(group_id, is_converted=True)
            self._deleting.update(deletion_callers(group))
            for reply in interrupted_requests(group):
                self._carry_out(group_id, reply)

    def unload(self) -> None:
        """The leadership has ended: what waits is answered NOT_COORDINATOR."""
        for group_id in list(self.groups):
            self._events.apply(group_id, Unload())

    # Steps of the machine.

    def _step(self, group_id: str, event: Event) -> None:
        group = self.groups.get(group_id)
        if group is None:
            if isinstance(event, Tick | WriteCompleted | LastOffsetRemoved | Unload):
                return  # The group was removed.
            group = Group(group_id)
        if isinstance(event, Join) and not self._memory.admits_join(group_id, self.groups.get(group_id), event):
            self._carry_out(group_id, GroupReply(event.caller, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)))
            return
        before, now = group, self._now()
        group, actions = machine.step(before, event, now, self._limits)
        if group.state is GroupState.DEAD and not group.pending_writes and not isinstance(event, Unload):
            partitions = self._offsets.of(group_id).partitions()
            if partitions:
                # Its generation is 0, so it has no record of its own: its offsets are all there is to delete.
                self._delete_without_record(group, partitions, actions)
                return
        self.keep(group, event)
        if type(event) not in QUIET and group_id in self.groups:
            self._histories.observe(before, group, event, actions, now)
        for action in actions:
            self._carry_out(group_id, action)

    def keep(self, group: Group, event: Event | None = None) -> None:
        """Replace a group after an event, or begin with it; one with nothing to be kept is dropped."""
        group_id = group.group_id
        if machine.is_finished(group) or (_is_initial(group) and self._offsets.of(group_id).is_idle):
            self._drop(group_id)
            return
        self._memory.group_changed(self.groups.get(group_id), group, event)
        self.groups[group_id] = group
        due_ms = machine.next_due_ms(group)
        if due_ms is not None:
            self._shard.schedule(group_id, due_ms)

    def _drop(self, group_id: str, *, is_converted: bool = False) -> None:
        self.groups.pop(group_id, None)
        self._memory.group_removed(group_id)
        if not is_converted:  # The consumer group that follows has its history.
            self._histories.group_removed(group_id)
        self._shard.unschedule(group_id)

    def _carry_out(self, group_id: str, action: Action) -> None:
        match action:
            case GroupReply(caller, answer):
                self._callers.pop(caller)(answer)
            case GroupWrite():
                self._write_group(group_id, action)
            case MemberFenced(member_id, instance_id, reason):
                self._log.info("member fenced", group=group_id, member=member_id, instance=instance_id, reason=reason)
            case RebalanceCompleted(generation_id, members, protocol):
                self._log.info(
                    "rebalance completed", group=group_id, generation=generation_id, members=members, protocol=protocol
                )
            case RebalanceCaused():
                pass  # For the history.
            case _:
                assert_never(action)

    def _write_group(self, group_id: str, write: GroupWrite) -> None:
        callers = deletion_callers(self.groups.get(group_id), write.number)

        def written(code: ErrorCode) -> None:
            error = GROUP_ERRORS.get(code, code) or None
            for caller in self._deleting.intersection(callers):
                self._deleting.discard(caller)
                self._callers.pop(caller)(GroupAnswer(error or ErrorCode.NONE))
                return
            self._events.apply(group_id, WriteCompleted(write.generation_id, error, write.number))

        key = records.group_key(group_id)
        if write.value is None:
            self._offsets.delete(group_id, self._offsets.of(group_id).partitions(), written, [(key, None)])
        else:
            self._shard.journal.append([(key, records.group_value(write.value))], _nothing, written)

    def _delete_without_record(
        self, group: Group, partitions: Sequence[TopicPartition], actions: Sequence[Action]
    ) -> None:
        """Delete the offsets of a group without a record; the group is removed, and the answer sent, after that.

        By then a member may have joined it, or a consumer group have taken its place: these stay.
        """
        before = self.groups.get(group.group_id)
        replies = [action for action in actions if isinstance(action, GroupReply)]

        def written(code: ErrorCode) -> None:
            if not code and self.groups.get(group.group_id) is before:
                self.keep(group)
            for caller, _ in replies:
                self._callers.pop(caller)(GroupAnswer(COMMIT_ERRORS.get(code, code)))

        self._offsets.delete(group.group_id, partitions, written)


def _is_initial(group: Group) -> bool:
    """Whether a group is as before its first request."""
    is_unused = group.state is GroupState.EMPTY and group.generation_id == 0
    return is_unused and not group.pending_joins and not group.pending_writes


def _nothing() -> None:
    """The group is already in the state that its record has."""
