"""One share partition whose partition this broker leads: its machine, what is written of it, and what waits for it.

It is loaded once, when the first fetch of its group names it; fetches wait meanwhile. It ends with the leadership, with
its topic, and when its coordinator says that another leader or another state has taken its place.

An acknowledgement is in force, and answered, when it is written. Locks that end and sessions that close release their
records at once, as at Apache Kafka, and that is written behind: if it cannot be, the records are delivered again with a
number of deliveries that is too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import Final

from sordini.broker.share_state.ports import LeaderStates, OnStored, ReadState, SharePartitionKey
from sordini.broker.shares.dead_letters.archiving import Archiving
from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquired, Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import DONE, RecordState
from sordini.broker.shares.machine.share_partition import Change, SharePartition, StoredState
from sordini.broker.shares.ports import DeadLetterQueues, SettingsOf, ShareSettings, StartLookup
from sordini.broker.shares.state_writer import ENDING, Epochs, StateWriter
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import LeaderEpoch
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater, Clock
from sordini.replication.purgatory import DelayedOperation
from sordini.system.named_tuple import NamedTuple

CODES: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a member is sent for an error of the coordinator; UNKNOWN_SERVER_ERROR for all others."""
UNFINISHED: Final = frozenset({RecordState.ACQUIRED, RecordState.ARCHIVING})
"""States in which something is under way for a record."""


class Phase(Enum):
    """Where it is between its first fetch and its end."""

    LOADING = auto()
    LOADED = auto()
    ENDED = auto()


class Leadership:
    """Of one partition by this broker, in one leader epoch: all of its share partitions end with it, at once."""

    __slots__ = ("groups", "is_over")

    def __init__(self) -> None:
        self.groups: dict[str, LedSharePartition] = {}
        """By group id."""
        self.is_over = False


class ShareDeps(NamedTuple):
    """What all share partitions of a broker use."""

    persister: LeaderStates
    settings_of: SettingsOf
    starts: StartLookup
    clock: Clock
    call_later: CallLater
    dead_letters: DeadLetterQueues


class LedSharePartition:
    """One group's view of one partition."""

    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        leadership: Leadership,
        deps: ShareDeps,
        schedule: Callable[[SharePartitionKey, int], None],
        on_ended: Callable[[LedSharePartition], None],
    ) -> None:
        """`schedule` has `expire` called at a time; `on_ended` removes it from where it is found."""
        self.key = key
        self.partition = partition
        self.leadership = leadership
        self._phase = Phase.LOADING
        self._error = ErrorCode.NONE
        self.purgatory: dict[DelayedOperation, None] = {}
        """Fetches that wait for records which become available, in their order."""
        self.is_retiring = False
        """Whether no member fetches it: it ends when all is written."""
        self._deps = deps
        self._schedule = schedule
        self._on_ended = on_ended
        self._epochs = Epochs(0, LeaderEpoch(partition.leader_epoch))
        self._machine: SharePartition | None = None
        self._writer: StateWriter | None = None
        self._archiving: Archiving | None = None

    # Begin and end.

    @property
    def phase(self) -> Phase:
        return Phase.ENDED if self.leadership.is_over else self._phase

    @property
    def error(self) -> ErrorCode:
        """Why it has ended."""
        return self._error or (ErrorCode.NOT_LEADER_OR_FOLLOWER if self.leadership.is_over else ErrorCode.NONE)

    def load(self) -> None:
        self._deps.persister.read(self.key, self._epochs.leader_epoch, self._on_read)

    def _on_read(self, state: ReadState) -> None:
        if self.phase is not Phase.LOADING:
            return
        if state.error != ErrorCode.NONE:
            self.end(CODES.get(state.error, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self._epochs = self._epochs._replace(state_epoch=state.state_epoch)
        if state.start is not None:
            self._loaded(state, state.start)
            return
        self._deps.starts.find(self.key.group_id, self.partition, partial(self._on_start, state))

    def _on_start(self, state: ReadState, found: int | ErrorCode) -> None:
        if self.phase is not Phase.LOADING:
            return
        if isinstance(found, ErrorCode):
            self.end(found)
        else:
            self._loaded(state, found)

    def _loaded(self, state: ReadState, start: int) -> None:
        parts = tuple(Part(run.first, run.end, RecordState(run.state), run.deliveries) for run in state.runs)
        self._machine = SharePartition(StoredState(start, parts), self.settings.limits)
        deps = self._deps
        self._writer = StateWriter(
            self.key, self._epochs, self._machine, deps.persister, deps.call_later, self._end_if_retiring
        )
        self._archiving = Archiving(self._machine, deps.dead_letters, self._write, self._archived, deps.call_later)
        self._phase = Phase.LOADED
        self._archiving.send(self.key, self.partition)
        self.notify()
        self._end_if_retiring()

    def retire(self) -> None:
        """No member fetches it: end as soon as nothing waits to be written, and be loaded again when one does.

        The start offset is written, which otherwise follows with the next change: there is none to follow with.
        """
        if self._writer is not None and self.phase is Phase.LOADED:
            self._writer.write_start(self._released)
        self.is_retiring = True
        self._end_if_retiring()

    def _end_if_retiring(self) -> None:
        if self.is_retiring and self._writer is not None and self._writer.is_idle and not self._has_dead_letters():
            self.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _has_dead_letters(self) -> bool:
        """Whether there are some to write: no member has to come back for that."""
        return any(part.state is RecordState.ARCHIVING for batch in self.machine.batches for part in batch.parts)

    def resume(self) -> bool:
        """A member fetches it. False if it only waits for dead letters: its group may have been reset meanwhile."""
        if self.is_retiring and self._writer is not None and self._writer.is_idle:
            return False
        self.is_retiring = False
        return True

    def end(self, error: ErrorCode) -> None:
        """It is here no longer: what waits for it is answered with that error."""
        if self._phase is Phase.ENDED:
            return
        self._phase, self._error = Phase.ENDED, error
        if self._archiving is not None:
            self._archiving.end(self.key)
        self._on_ended(self)
        self.notify()

    @property
    def machine(self) -> SharePartition:
        """Of one that is loaded."""
        assert self._machine is not None
        return self._machine

    @property
    def settings(self) -> ShareSettings:
        """Those of its group now."""
        return self._deps.settings_of(self.key.group_id)

    @property
    def is_unused(self) -> bool:
        """Whether it may be forgotten: nothing is held, written or waited for, and all else is stored."""
        machine, writer = self._machine, self._writer
        if machine is None or writer is None or self.purgatory or not writer.is_idle:
            return False
        return all(part.state not in UNFINISHED for batch in machine.batches for part in batch.parts)

    # What members do.

    def begin_fetch(self) -> SharePartition:
        """The machine by the settings and the log as they are now; raises BrokerError for one that has ended."""
        if self.phase is Phase.ENDED:
            raise BrokerError(self.error, f"the share partition {self.key} has ended")
        machine = self.machine
        machine.limits = self.settings.limits
        machine.move_start(self.partition.log.log_start_offset)
        return machine

    def acquire(self, request: AcquisitionRequest, read: Sequence[Extent], skipped: Sequence[Extent]) -> list[Acquired]:
        """Lock records that were read for a member. Those in `skipped` are archived instead: they are aborted."""
        machine, now_ms = self.machine, self._deps.clock.monotonic_ms()
        acquired = Acquisition(machine, request, now_ms).of(read)
        for extent in skipped:
            for first, end in _within(machine, extent, request.member):
                machine.pass_over(first, end)
        self._schedule_expiry()
        return list(_outside(acquired, skipped))

    def acknowledge(self, member: str, said: Sequence[Acknowledgement], on_done: OnStored) -> None:
        """Carry out what a member says of its records; `on_done` gets a code when that is written, or at once."""
        if self.phase is not Phase.LOADED:
            code = ErrorCode.INVALID_RECORD_STATE if self.phase is Phase.LOADING else self.error
            on_done(code)
            return
        machine = self.machine
        machine.limits = self.settings.limits
        try:
            change = acknowledge(machine, member, said, self._deps.clock.monotonic_ms())
        except BrokerError as error:
            on_done(error.code)
            return
        self._schedule_expiry()
        if change is None:
            on_done(ErrorCode.NONE)
        else:
            self._write(change, partial(self._acknowledged, change, on_done))

    def _acknowledged(self, change: Change, on_done: OnStored, error: ErrorCode) -> None:
        if error == ErrorCode.NONE:
            self._put_in_force(change)
            on_done(error)
            return
        self.machine.roll_back(change)
        self._schedule_expiry()
        self._not_written(error)
        on_done(CODES.get(error, ErrorCode.UNKNOWN_SERVER_ERROR))

    def release(self, member: str) -> int:
        """Release all that a member holds: its session is closed. Returns how many parts that are."""
        return self._release(self.machine.release(member)) if self.phase is Phase.LOADED else 0

    def expire(self) -> int:
        """Release records whose locks have ended; due at the time of `schedule`. Returns how many parts that are."""
        if self.phase is not Phase.LOADED:
            return 0
        self.machine.limits = self.settings.limits
        released = self._release(self.machine.expire(self._deps.clock.monotonic_ms()))
        self._schedule_expiry()
        return released

    def _release(self, change: Change | None) -> int:
        """In force at once, and written behind."""
        if change is None:
            return 0
        assert self._writer is not None
        pending = self._writer.write(change, self._released)
        pending.is_in_force = True
        self._put_in_force(change)
        return len(change.parts)

    def _released(self, error: ErrorCode) -> None:
        if error != ErrorCode.NONE:
            self._not_written(error)

    def _write(self, change: Change, on_stored: OnStored) -> None:
        assert self._writer is not None
        self._writer.write(change, on_stored)

    def _not_written(self, error: ErrorCode) -> None:
        if error in ENDING:
            self.end(CODES.get(error, ErrorCode.UNKNOWN_SERVER_ERROR))

    def _put_in_force(self, change: Change) -> None:
        """The one place where records become available again, or are done: acknowledged, or archived for a reason."""
        self.machine.commit(change)
        if self._archiving is not None:
            self._archiving.send(self.key, self.partition)
        self.notify()

    def _archived(self, change: Change, error: ErrorCode) -> bool:
        """Whether records whose dead letters are written are to be archived once more."""
        if error == ErrorCode.NONE:
            self._put_in_force(change)
            return False
        self.machine.roll_back(change)
        self._not_written(error)
        return True

    def _schedule_expiry(self) -> None:
        due_ms = self.machine.next_deadline_ms()
        if due_ms is not None:
            self._schedule(self.key, due_ms)

    # What waits.

    def can_acquire(self) -> bool:
        """Whether a fetch would find something, or an error."""
        if self.phase is not Phase.LOADED:
            return self.phase is Phase.ENDED
        try:
            end = self.partition.readable_end(committed_only=self.settings.is_committed_only)
        except BrokerError:
            return True
        return self.machine.can_acquire(end)

    def notify(self) -> None:
        """Have the fetches that wait try again, in their order, as long as there is something for them."""
        for operation in list(self.purgatory):
            if not self.can_acquire():
                return
            operation.complete()


def _outside(acquired: Sequence[Acquired], skipped: Sequence[Extent]) -> Iterator[Acquired]:
    """The ranges without those that are skipped; both are in order."""
    behind = 0
    for one in acquired:
        while behind < len(skipped) and skipped[behind].end <= one.first:
            behind += 1
        first = one.first
        for extent in skipped[behind:]:
            if extent.first >= one.end:
                break
            if first < extent.first:
                yield one._replace(first=first, end=extent.first)
            first = extent.end
        if first < one.end:
            yield one._replace(first=first)


def _within(machine: SharePartition, extent: Extent, member: str) -> list[tuple[int, int]]:
    """The records of an extent that a member holds."""
    return [
        (part.first, part.end)
        for batch in machine.batches.overlapping(extent.first, extent.end)
        for part in batch.within(extent.first, extent.end)
        if part.state is RecordState.ACQUIRED and part.member == member and part.state not in DONE
    ]
