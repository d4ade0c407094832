"""The groups of one partition of __consumer_offsets, for as long as this broker leads it.

Events go through the machine one at a time, in the order in which they came; its actions are carried out here: answers
to whoever asked, writes to the journal. Offsets are seen by readers once they are committed, not before.

A group is known here while it has members, a record, ids given out, or offsets; of anything else nothing is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from sordini.broker.configuration.group_keys import GroupSettings
from sordini.broker.coordinators.deadline_timer import DueTimer
from sordini.broker.coordinators.journal import Journal, KeyValue
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.purgatory import Parked
from sordini.broker.groups.machine import machine, records
from sordini.broker.groups.machine.events import (
    Action,
    Answer,
    Committing,
    Delete,
    Event,
    GroupLimits,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Now,
    OffsetsGone,
    Reply,
    Sync,
    Tick,
    Unload,
    Write,
    Written,
)
from sordini.broker.groups.machine.memory_limit import GroupMemory, ShardMemory
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import Caller, CommittedOffset, Group, GroupState
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition

TOMBSTONE_BYTES_MAX = 256 * 1024
"""Keys in one batch of tombstones: far below any max.message.bytes in use."""

COMMIT_NAMES_MAX = 16 * 1024 * 1024
"""Letters of the group id in all keys of one commit, one for each offset: no topic takes so large a batch."""

GROUP_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told when their group cannot be written, as by Apache Kafka."""
COMMIT_ERRORS = {
    **GROUP_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
"""And when offsets cannot."""

Asked = Join | Sync | Heartbeat | Leave | Committing | Delete
Done = Callable[[Any], None]
Ended = Callable[[ErrorCode], None]


class Setup(NamedTuple):
    """What all shards share."""

    ports: Ports
    config: GroupSettings
    limits: GroupLimits
    timer: DueTimer[tuple[int, str]]
    memory: GroupMemory


class Shard:
    """One partition's groups and offsets."""

    def __init__(self, partition: Partition, setup: Setup) -> None:
        self.partition = partition
        self.index = partition.name.partition
        self.groups: dict[str, Group] = {}
        self.tables: dict[str, OffsetTable] = {}
        self.is_loading = True
        self.deleted_meanwhile: set[TopicPartition] = set()
        """Partitions that went from the cluster while groups were read, which may have offsets of theirs."""
        self._setup = setup
        self._memory = ShardMemory(setup.memory)
        self._parked = Parked(setup.ports.call_later, setup.config.offsets_commit_timeout_ms)
        self._journal = Journal(
            partition,
            setup.ports,
            codec=setup.config.offsets_topic_compression_codec,
            timeout_ms=setup.config.offsets_commit_timeout_ms,
        )
        self._numbers = count(1)
        self._callers: dict[Caller, Done] = {}
        self._events: deque[tuple[str, Event]] = deque()
        self._is_busy = False

    # What happens.

    def ask(self, group_id: str, event: Asked, done: Done) -> None:
        """Tell a group what is asked of it; `done` is called once, with the answer, maybe before this returns."""
        caller = Caller(next(self._numbers))
        self._callers[caller] = done
        self.feed(group_id, event._replace(caller=caller))

    def feed(self, group_id: str, event: Event) -> None:
        """Tell a group what happened; events that an action brings about come after it."""
        self._events.append((group_id, event))
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                self._step(*self._events.popleft())
        finally:
            self._is_busy = False

    def commit(
        self, group_id: str, event: Committing, offsets: Mapping[TopicPartition, CommittedOffset], ended: Ended
    ) -> None:
        """Write offsets down if the group lets this member; `ended` is told NONE when they are committed."""
        if self.is_loading:
            self._parked.add(lambda: self.commit(group_id, event, offsets, ended), ended)
            return
        if group_id not in self.groups and event.generation_id >= 0:
            ended(ErrorCode.ILLEGAL_GENERATION)  # A member of a group that is forgotten by now.
            return

        def checked(answer: Answer) -> None:
            if answer.error or not offsets:
                ended(answer.error)
            else:
                self._write_offsets(group_id, offsets, ended)

        self.ask(group_id, event, checked)

    def forget_offsets(self, group_id: str, partitions: Iterable[TopicPartition], ended: Ended) -> None:
        """Delete offsets; an empty group goes with its last one."""
        gone = list(partitions)

        def apply() -> None:
            self._memory.delete(self._table(group_id), gone)

        def told(code: ErrorCode) -> None:
            ended(COMMIT_ERRORS.get(code, code))
            self._look_for_the_last(group_id)

        self._write(group_id, _tombstones(group_id, gone), gone, apply, told)

    def loaded(self) -> None:
        """All groups of the partition are here."""
        self.is_loading = False
        self._parked.resume()

    def settle(self) -> None:
        """The term changed: what was written may count by now."""
        self._journal.settle()

    def close(self) -> None:
        """End with the leadership: all who wait are told NOT_COORDINATOR."""
        for group_id in list(self.groups):
            self.feed(group_id, Unload())
        self._journal.close()
        self._parked.refuse(ErrorCode.NOT_COORDINATOR)
        self._memory.close()

    # What is known.

    def restore(self, group: Group) -> None:
        """Take a group that was read from the log; its offsets are here before it, and its sessions start now."""
        self._keep(group)

    def restore_offset(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._memory.commit(self._table(group_id), {partition: committed})

    def offsets(self, group_id: str) -> OffsetTable:
        """What a group has committed; nothing of one that is dead."""
        group = self.groups.get(group_id)
        is_there = group is not None and group.state is not GroupState.DEAD
        return self.tables.get(group_id, NO_OFFSETS) if is_there else NO_OFFSETS

    def now(self) -> Now:
        clock = self._setup.ports.clock
        return Now(clock.monotonic_ms(), clock.now_ms())

    def offsets_left(self, group_id: str) -> list[TopicPartition]:
        """Offsets that are there or on their way: what is deleted must not come back behind us."""
        return self.tables.get(group_id, NO_OFFSETS).known()

    def expire(self, group_id: str) -> None:
        """Delete what has been kept long enough; forget an empty group that has no offsets."""
        group = self.groups.get(group_id)
        if group is None:
            return
        retention_ms = self._setup.config.offsets_retention_minutes * 60_000
        gone = self.tables.get(group_id, NO_OFFSETS).expired(group, self.now().wall_ms, retention_ms)
        if gone:
            self.forget_offsets(group_id, gone, _nobody_asked)
        else:
            self._look_for_the_last(group_id)

    # How it is done.

    def _step(self, group_id: str, event: Event) -> None:
        group = self.groups.get(group_id)
        if group is None:
            if isinstance(event, Tick | Written | OffsetsGone | Unload):
                return  # It is over.
            group = Group(group_id)
        if isinstance(event, Join) and not self._memory.admits(self.groups.get(group_id), event):
            self._act(group_id, Reply(event.caller, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)))
            return
        group, actions = machine.step(group, event, self.now(), self._setup.limits)
        if group.state is GroupState.DEAD and not group.writing and not isinstance(event, Unload):
            left = self.offsets_left(group_id)
            if left:
                # It was never written itself (its generation is 0), so this is all there is of it.
                self._delete_unwritten(group, left, actions)
                return
        self._keep(group, event)
        for action in actions:
            self._act(group_id, action)

    def _keep(self, group: Group, event: Event | None = None) -> None:
        group_id, key = group.group_id, (self.index, group.group_id)
        if machine.is_over(group) or (_is_nothing(group) and self.tables.get(group_id, NO_OFFSETS).is_idle):
            self.groups.pop(group_id, None)
            self._memory.forgotten(group_id)
            self._setup.timer.forget(key)
            return
        self._memory.kept(self.groups.get(group_id), group, event)
        self.groups[group_id] = group
        due_ms = machine.next_due_ms(group)
        if due_ms is not None:
            self._setup.timer.enter(key, due_ms)

    def _act(self, group_id: str, action: Action) -> None:
        match action:
            case Reply(caller, answer):
                self._callers.pop(caller)(answer)
            case Write():
                self._write_group(group_id, action)

    def _write_group(self, group_id: str, write: Write) -> None:
        key = records.group_key(group_id)

        def ended(code: ErrorCode) -> None:
            self.feed(group_id, Written(write.generation_id, GROUP_ERRORS.get(code, code) or None, write.number))

        if write.value is not None:
            self._write(group_id, [(key, records.group_value(write.value))], (), _nothing, ended)
            return
        left = self.offsets_left(group_id)
        lines = [*_tombstones(group_id, left), (key, None)]
        self._write(group_id, lines, left, lambda: self._memory.delete(self._table(group_id), left), ended)

    def _delete_unwritten(self, group: Group, left: list[TopicPartition], actions: Sequence[Action]) -> None:
        """Delete the offsets of a group without a record; it is gone, and said to be, when they are."""
        replies = [action for action in actions if isinstance(action, Reply)]

        def ended(error: ErrorCode) -> None:
            if not error:
                self._keep(group)
            for caller, _ in replies:
                self._callers.pop(caller)(Answer(error))

        self.forget_offsets(group.group_id, left, ended)

    def _look_for_the_last(self, group_id: str) -> None:
        """An empty group ends with its last offset."""
        group = self.groups.get(group_id)
        if (
            group is not None
            and group.state is GroupState.EMPTY
            and not group.writing
            and self.tables.get(group_id, NO_OFFSETS).is_idle
        ):
            self.feed(group_id, OffsetsGone())

    def _write_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], ended: Ended) -> None:
        if len(group_id) * len(offsets) > COMMIT_NAMES_MAX:
            ended(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        table = self._table(group_id)
        growth = table.growth(offsets)
        if table.adds(offsets) and not self._memory.has_room(growth):
            self._drop_idle(group_id)
            ended(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
            return
        lines: list[KeyValue] = [
            (records.offset_key(group_id, *partition), records.offset_value(offset))
            for partition, offset in offsets.items()
        ]

        def apply() -> None:
            self._memory.change(-growth)  # It was counted when it was written.
            self._memory.commit(self._table(group_id), offsets)
            if group_id not in self.groups:
                self._keep(Group(group_id))

        def told(code: ErrorCode) -> None:
            ended(COMMIT_ERRORS.get(code, code))

        self._memory.change(growth)
        if not self._write(group_id, lines, tuple(offsets), apply, told):
            self._memory.change(-growth)

    def _write(
        self,
        group_id: str,
        lines: Sequence[KeyValue],
        partitions: Collection[TopicPartition],
        apply: Callable[[], object],
        ended: Ended,
    ) -> bool:
        """Append lines as one batch, or tombstones too many for one as several; `apply` when the last counts.

        Whether all of it was appended: if not, `apply` is never called.
        """
        table = self._table(group_id)
        table.begin(partitions)

        def counts() -> None:
            table.end(partitions)
            apply()
            self._drop_idle(group_id)

        *first, last = _batches(lines)
        codes: list[ErrorCode] = []
        for batch in first:
            if not self._journal.append(batch, _nothing, codes.append):
                table.end(partitions)
                ended(codes[-1])
                return False
        if not self._journal.append(last, counts, ended):
            table.end(partitions)
            self._drop_idle(group_id)
            return False
        return True

    def _table(self, group_id: str) -> OffsetTable:
        table = self.tables.get(group_id)
        if table is None:
            table = self.tables[group_id] = OffsetTable()
        return table

    def _drop_idle(self, group_id: str) -> None:
        table = self.tables.get(group_id)
        if table is not None and table.is_idle:
            del self.tables[group_id]


NO_OFFSETS = OffsetTable()
"""Of a group that has committed nothing; never written to."""


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[KeyValue]:
    return [(records.offset_key(group_id, *partition), None) for partition in partitions]


def _batches(lines: Sequence[KeyValue]) -> list[list[KeyValue]]:
    """Lines with values stay together, to count together or not at all; tombstones take as many batches as needed."""
    batches: list[list[KeyValue]] = [[]]
    size = 0
    for key, value in lines:
        if value is None and size + len(key) > TOMBSTONE_BYTES_MAX:
            batches.append([])
            size = 0
        batches[-1].append((key, value))
        size += len(key)
    return batches


def _is_nothing(group: Group) -> bool:
    """Whether a group is as if nobody had ever asked for it."""
    return group.state is GroupState.EMPTY and group.generation_id == 0 and not group.pending and not group.writing


def _nothing() -> None:
    """A group's own record changes nothing that is not known already."""


def _nobody_asked(_error: ErrorCode) -> None:
    """What could not be written now is found again by the next check."""
