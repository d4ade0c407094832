"""The groups of one partition of __consumer_offsets, for as long as this broker leads it. A `ShardState`.

Events go through the machine one at a time, in the order of their arrival, and its actions are carried out here:
answers to pending requests, writes to the journal, log lines.

A group is kept while it has members, a record, ids given out, or offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple, assert_never

from sordini.broker.coordinators.journal import OnDone, TransactionalProducer
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.shard import Shard
from sordini.broker.groups.journal_errors import COMMIT_ERRORS, GROUP_ERRORS
from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.events import (
    Action,
    Answer,
    Event,
    GroupLimits,
    Heartbeat,
    Join,
    JoinAnswer,
    LastOffsetRemoved,
    MemberFenced,
    Now,
    RebalanceCompleted,
    Reply,
    Request,
    Tick,
    Unload,
    ValidateOffsetCommit,
    Write,
    WriteCompleted,
)
from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit, ShardMemoryUsage
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.rebalance_cause import RebalanceCaused
from sordini.broker.groups.machine.shard_histories import RebalanceTotals, ShardHistories
from sordini.broker.groups.machine.state import Caller, CommittedOffset, Group, GroupState, GroupValue
from sordini.broker.groups.shard_offsets import NO_OFFSETS, ShardOffsets
from sordini.broker.transactions.newest_connection import NewestConnections
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import TopicPartition

GROUPS_PER_SLICE = 50
"""Restored before the loop serves other requests."""

QUIET = frozenset({Heartbeat, ValidateOffsetCommit})
"""The most frequent events: they are part of no rebalance."""

OnAnswer = Callable[[Any], None]


class GroupShardDeps(NamedTuple):
    """What all shards of the group coordinator share."""

    ports: Ports
    accepted_connections: Callable[[], int] | None
    """The count of connections that this broker has accepted; None where requests may come on older connections."""
    limits: GroupLimits
    memory: GroupMemoryLimit
    rebalances: RebalanceTotals
    retention_ms: int
    """offsets.retention.minutes"""
    delete_offsets_of: Callable[[set[TopicPartition]], None]
    """Deletes the offsets of partitions that no longer exist, in all groups of all shards."""


class GroupShard:
    """One partition's groups and offsets."""

    def __init__(self, shard: Shard[GroupShard], deps: GroupShardDeps) -> None:
        self.groups: dict[str, Group] = {}
        self.deleted_while_loading: set[TopicPartition] = set()
        """Partitions deleted from the cluster during the loading; offsets of theirs may be loaded."""
        self._shard = shard
        self._deps = deps
        self._log = deps.ports.log
        self._memory = ShardMemoryUsage(deps.memory)
        self.histories = ShardHistories(deps.rebalances, self._memory)
        self.since_ms = self._now().wall_ms
        """When this broker became the coordinator (wall clock)."""
        self._offsets = ShardOffsets(shard.journal, self._memory)
        accepted = deps.accepted_connections
        self._connections = None if accepted is None else NewestConnections(accepted())
        self._replayed: dict[str, GroupValue | None] = {}
        self._numbers = count(1)
        self._callers: dict[Caller, OnAnswer] = {}
        self._events: deque[tuple[str, Event]] = deque()
        self._is_stepping = False

    # Loading, as `ShardState`.

    def replay(self, key: bytes, value: bytes) -> str | None:
        match records.read_key(key):
            case records.OffsetKey(group_id, topic, partition):
                committed = records.read_offset(value)
                if isinstance(committed, Damaged):
                    return f"an offset of group {group_id}: {committed.reason}"
                self._offsets.restore(group_id, TopicPartition(topic, partition), committed)
                self._replayed.setdefault(group_id, None)
            case records.GroupKey(group_id):
                group = records.read_group(value)
                if isinstance(group, Damaged):
                    return f"group {group_id}: {group.reason}"
                self._replayed[group_id] = group
            case records.UnknownKey(version):
                return f"a key of version {version}"
            case Damaged(reason):
                return f"a key: {reason}"
        return None

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        read = records.read_key(key)
        if not isinstance(read, records.OffsetKey):
            return f"a record of producer {producer_id}'s transaction that is no offset: {read}"
        committed = None if value is None else records.read_offset(value)
        if isinstance(committed, Damaged):
            return f"an offset of group {read.group_id}: {committed.reason}"
        partition = TopicPartition(read.topic, read.partition)
        self._offsets.restore_open(producer_id, read.group_id, partition, committed)
        self._replayed.setdefault(read.group_id, None)
        return None

    def finish_replay(self) -> Iterator[None]:
        replayed, self._replayed = self._replayed, {}
        for number, (group_id, value) in enumerate(replayed.items(), 1):
            group = Group(group_id)
            if value is not None:
                group = machine.restored_group(group_id, value, self._now(), self._deps.limits)
            self._keep(group)
            self.histories.restored(group, self._now())
            if number % GROUPS_PER_SLICE == 0:
                yield

    def on_loaded(self, records: int, took_ms: int) -> None:
        self._deps.delete_offsets_of(self.deleted_while_loading)
        partition = str(self._shard.partition.name)
        self._log.info("groups loaded", partition=partition, groups=len(self.groups), records=records, took_ms=took_ms)

    def unload(self) -> None:
        started_ms, groups = self._now().monotonic_ms, len(self.groups)
        for group_id in list(self.groups):
            self.apply(group_id, Unload())
        self.histories.close()
        self._memory.close()
        if groups and not self._shard.is_loading:
            partition, took_ms = str(self._shard.partition.name), self._now().monotonic_ms - started_ms
            self._log.info("groups unloaded", partition=partition, groups=groups, took_ms=took_ms)

    # Requests and events.

    def submit(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        """Submit a request to a group; `on_answer` is called once, maybe before this returns."""
        caller = Caller(next(self._numbers))
        self._callers[caller] = on_answer
        self.apply(group_id, request._replace(caller=caller))

    def apply(self, group_id: str, event: Event) -> None:
        """Apply an event to a group; events that its actions cause are applied after it."""
        self._events.append((group_id, event))
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self._step(*self._events.popleft())
        finally:
            self._is_stepping = False

    def tick(self, group_id: str, late_ms: int) -> None:
        self.apply(group_id, Tick(late_ms))

    def commit_offsets(
        self,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Write offsets if the group admits this member, after the loading; `on_done` has NONE once committed."""
        if self._shard.is_loading:
            self._shard.wait_until_loaded(lambda: self.commit_offsets(group_id, request, offsets, on_done), on_done)
            return
        if group_id not in self.groups and request.generation_id >= 0:
            on_done(ErrorCode.ILLEGAL_GENERATION)  # A member of a group that was removed.
            return

        def committed() -> None:
            if group_id not in self.groups:
                self._keep(Group(group_id))

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))

        def validated(answer: Answer) -> None:
            if answer.error or not offsets:
                on_done(answer.error)
            else:
                self._offsets.commit(group_id, offsets, committed, written)

        self.submit(group_id, request, validated)

    def commit_in_transaction(
        self,
        producer: TransactionalProducer,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Write offsets of a producer's transaction if the group admits its consumer. The partition is loaded."""
        if group_id not in self.groups and request.generation_id >= 0:
            on_done(ErrorCode.ILLEGAL_GENERATION)  # A member of a group that was removed.
            return

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))

        def validated(answer: Answer) -> None:
            if answer.error or not offsets:
                on_done(answer.error)
                return
            is_written = self._offsets.commit_in_transaction(producer, group_id, offsets, written)
            if is_written and group_id not in self.groups:
                self._keep(Group(group_id))

        self.submit(group_id, request, validated)

    def admits(self, producer: TransactionalProducer, connection: int) -> bool:
        """Whether a request of the producer's transaction comes on no older connection than one before."""
        return self._connections is None or self._connections.admit(_key_of(producer), connection)

    def transaction_aborted(self, producer: TransactionalProducer) -> None:
        """An abort marker is appended: a request that the producer gave up before it is late, even if none followed."""
        accepted = self._deps.accepted_connections
        if self._connections is not None and accepted is not None:
            self._connections.admit(_key_of(producer), accepted())

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a transaction is committed; an empty group whose only offsets were aborted is removed."""
        for group_id in self._offsets.end_transaction(producer_id, commit=commit):
            self._remove_without_offsets(group_id)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition], on_done: OnDone) -> None:
        """Delete offsets; an empty group is removed with its last one."""

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))
            self._remove_without_offsets(group_id)

        self._offsets.delete(group_id, partitions, written)

    def expire(self, group_id: str) -> None:
        """Delete expired offsets; remove an empty group without offsets."""
        group = self.groups.get(group_id)
        if group is None:
            return
        expired = self._offsets.of(group_id).expired(group, self._now().wall_ms, self._deps.retention_ms)
        if expired:
            self.delete_offsets(group_id, expired, retried_later)
        else:
            self._remove_without_offsets(group_id)

    # Queries.

    def known_keys(self) -> list[str]:
        # A group whose first commit is pending has an offset table and is no group yet.
        return list(dict.fromkeys([*self.groups, *self._offsets.group_ids()]))

    def offsets(self, group_id: str) -> OffsetTable:
        """A group's committed offsets; none of a dead one."""
        group = self.groups.get(group_id)
        return NO_OFFSETS if group is None or group.state is GroupState.DEAD else self._offsets.of(group_id)

    def offset_partitions(self, group_id: str) -> list[TopicPartition]:
        """The partitions with committed offsets or pending commits: a deletion has to cover both."""
        return self._offsets.of(group_id).partitions()

    def _now(self) -> Now:
        clock = self._deps.ports.clock
        return Now(clock.monotonic_ms(), clock.now_ms())

    # Steps of the machine.

    def _step(self, group_id: str, event: Event) -> None:
        group = self.groups.get(group_id)
        if group is None:
            if isinstance(event, Tick | WriteCompleted | LastOffsetRemoved | Unload):
                return  # The group was removed.
            group = Group(group_id)
        if isinstance(event, Join) and not self._memory.admits_join(group_id, self.groups.get(group_id), event):
            self._carry_out(group_id, Reply(event.caller, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)))
            return
        before, now = group, self._now()
        group, actions = machine.step(before, event, now, self._deps.limits)
        if group.state is GroupState.DEAD and not group.pending_writes and not isinstance(event, Unload):
            partitions = self.offset_partitions(group_id)
            if partitions:
                # Its generation is 0, so it has no record of its own: its offsets are all there is to delete.
                self._delete_without_record(group, partitions, actions)
                return
        self._keep(group, event)
        if type(event) not in QUIET and group_id in self.groups:
            self.histories.observe(before, group, event, actions, now)
        for action in actions:
            self._carry_out(group_id, action)

    def _keep(self, group: Group, event: Event | None = None) -> None:
        group_id = group.group_id
        if machine.is_finished(group) or (_is_initial(group) and self._offsets.of(group_id).is_idle):
            self.groups.pop(group_id, None)
            self._memory.group_removed(group_id)
            self.histories.group_removed(group_id)
            self._shard.unschedule(group_id)
            return
        self._memory.group_changed(self.groups.get(group_id), group, event)
        self.groups[group_id] = group
        due_ms = machine.next_due_ms(group)
        if due_ms is not None:
            self._shard.schedule(group_id, due_ms)

    def _carry_out(self, group_id: str, action: Action) -> None:
        match action:
            case Reply(caller, answer):
                self._callers.pop(caller)(answer)
            case Write():
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

    def _write_group(self, group_id: str, write: Write) -> None:
        def written(code: ErrorCode) -> None:
            error = GROUP_ERRORS.get(code, code) or None
            self.apply(group_id, WriteCompleted(write.generation_id, error, write.number))

        if write.value is None:
            self._offsets.delete(group_id, self.offset_partitions(group_id), written, with_group=True)
            return
        record = records.group_key(group_id), records.group_value(write.value)
        self._shard.journal.append([record], _nothing, written)

    def _delete_without_record(
        self, group: Group, partitions: Sequence[TopicPartition], actions: Sequence[Action]
    ) -> None:
        """Delete the offsets of a group without a record; the group is removed, and the answer sent, after that."""
        replies = [action for action in actions if isinstance(action, Reply)]

        def on_done(error: ErrorCode) -> None:
            if not error:
                self._keep(group)
            for caller, _ in replies:
                self._callers.pop(caller)(Answer(error))

        self.delete_offsets(group.group_id, partitions, on_done)

    def _remove_without_offsets(self, group_id: str) -> None:
        """Remove an empty group that has no offsets."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.state is GroupState.EMPTY
            and not group.pending_writes
            and self._offsets.of(group_id).is_idle
        ):
            self.apply(group_id, LastOffsetRemoved())


def _is_initial(group: Group) -> bool:
    """Whether a group is as before its first request."""
    is_unused = group.state is GroupState.EMPTY and group.generation_id == 0
    return is_unused and not group.pending_joins and not group.pending_writes


def _nothing() -> None:
    """The group is already in the state that its record has."""


def retried_later(_error: ErrorCode) -> None:
    """No request waits for this deletion; what fails is deleted by the next expiry check."""


def _key_of(producer: TransactionalProducer) -> str:
    """With the epoch: a request of a fenced producer must not raise what is remembered of its successor."""
    return f"{producer.producer_id}/{producer.producer_epoch}"
