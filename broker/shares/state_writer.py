"""Writes the changes of one share partition in order: one write at a time, and what comes meanwhile with the next.

So a write never overtakes another of the same share partition, and a busy partition needs few. What waits is bounded by
the records in flight: changes of records that are done by now, and were in force without being written, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import LeaderStates, OnStored, SharePartitionKey, StateWrite
from sordini.broker.shares.machine.record_states import DONE
from sordini.broker.shares.machine.share_partition import Change, SharePartition
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.replication.ports import CallLater
from sordini.system.named_tuple import NamedTuple

WAITING_MIN: Final = 1_000
"""Changes that wait before it is looked for such as are not to be written any more."""
ENDING: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,  # There is no state: the group was deleted.
    }
)
"""After these of a write nothing that the leader knows is true any more, and nothing more is written."""


class Epochs(NamedTuple):
    """By which writes of former leaders, and of former states, are fenced."""

    state_epoch: int
    leader_epoch: LeaderEpoch


class PendingWrite:
    """A change that is being written, or waits for it."""

    __slots__ = ("change", "is_in_force", "on_stored")

    def __init__(self, change: Change, on_stored: OnStored) -> None:
        self.change = change
        self.on_stored = on_stored
        self.is_in_force = False
        """Set for one that does not wait for its write."""

    def matters(self, start: int) -> bool:
        """Whether it is to be written, though all before `start` are done."""
        return not self.is_in_force or any(part.end > start for part in self.change.parts[-1:])


class StateWriter:
    """The changes of one share partition that are being written, and those that wait."""

    def __init__(
        self,
        key: SharePartitionKey,
        epochs: Epochs,
        machine: SharePartition,
        persister: LeaderStates,
        call_later: CallLater,
        on_idle: Callable[[], None],
    ) -> None:
        """`on_idle` is called when all is written."""
        self._key = key
        self._epochs = epochs
        self._machine = machine
        self._persister = persister
        self._call_later = call_later
        self._on_idle = on_idle
        self._waiting: list[PendingWrite] = []
        self._waiting_max = WAITING_MIN
        self._is_writing = False
        self._start_written = machine.start

    @property
    def is_idle(self) -> bool:
        return not self._is_writing and not self._waiting

    def write(self, change: Change, on_stored: OnStored) -> PendingWrite:
        """Write a change; `on_stored` is perhaps called before this returns."""
        pending = PendingWrite(change, on_stored)
        self._waiting.append(pending)
        if not self._is_writing:
            self._write_next()
        elif len(self._waiting) > self._waiting_max:
            start = self._machine.start
            self._waiting = [one for one in self._waiting if one.matters(start)]
            self._waiting_max = max(2 * len(self._waiting), WAITING_MIN)
        return pending

    def write_start(self, on_stored: OnStored) -> None:
        """Write the start offset, if it has moved since the last write."""
        if self._machine.start > self._start_written:
            self.write(Change(self._machine.start, ()), on_stored)

    def _write_next(self) -> None:
        batch, self._waiting = self._waiting, []
        self._is_writing = bool(batch)
        if not batch:
            return
        start = self._start_written = self._machine.start
        done = self._machine.done + sum(_done_by(one.change, start) for one in batch if not one.is_in_force)
        runs = _runs([one.change for one in batch], start)
        write = StateWrite(self._epochs.state_epoch, self._epochs.leader_epoch, Offset(start), done, runs)
        self._persister.write(self._key, write, partial(self._stored, batch))

    def _stored(self, batch: Sequence[PendingWrite], error: ErrorCode) -> None:
        for one in batch:
            one.on_stored(error)
        if error in ENDING:
            refused, self._waiting = self._waiting, []
            for one in refused:
                one.on_stored(error)
        if self._waiting:
            # Not here: this may be the callback of a commit, in which nothing is appended.
            self._call_later(0, self._write_next)
        else:
            self._is_writing = False
            self._on_idle()


def _runs(changes: Sequence[Change], start: int) -> tuple[StateRun, ...]:
    """What is written from the start offset on: neighbours of equal state together, in the order of the changes."""
    runs: list[StateRun] = []
    for change in changes:
        for part in change.parts:
            assert part.after is not None
            if part.end <= start:
                continue
            run = StateRun(part.first, part.end, part.after, part.deliveries)
            if runs and runs[-1].end == run.first and runs[-1][2:] == run[2:]:
                runs[-1] = runs[-1]._replace(end=run.end)
            else:
                runs.append(run)
    return tuple(runs)


def _done_by(change: Change, start: int) -> int:
    """How many records from the start offset on a change finishes."""
    return sum(max(part.end - max(part.first, start), 0) for part in change.parts if part.after in DONE)
