"""Writes the changes of one share partition in order: one write at a time, and what comes meanwhile with the next.

So a write never overtakes another of the same share partition, and a busy partition needs few. What waits is bounded by
the records in flight: a record is in one change at a time that is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.ports import OnStored, SharePartitionKey, StatePersister, StateWrite
from sordini.broker.shares.machine.record_states import DONE
from sordini.broker.shares.machine.share_partition import Change
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.replication.ports import CallLater
from sordini.system.named_tuple import NamedTuple


class Epochs(NamedTuple):
    """By which writes of former leaders, and of former states, are fenced."""

    state_epoch: int
    leader_epoch: LeaderEpoch


class StateWriter:
    """The changes of one share partition that are being written, and those that wait."""

    def __init__(
        self, key: SharePartitionKey, epochs: Epochs, persister: StatePersister, call_later: CallLater
    ) -> None:
        self._key = key
        self._epochs = epochs
        self._persister = persister
        self._call_later = call_later
        self._waiting: list[tuple[Change, int, OnStored]] = []
        self._is_writing = False

    @property
    def is_idle(self) -> bool:
        return not self._is_writing and not self._waiting

    def write(self, change: Change, done: int, on_stored: OnStored) -> None:
        """Write a change; `done` is the number of records behind the start offset that are done with it."""
        self._waiting.append((change, done, on_stored))
        if not self._is_writing:
            self._write_next()

    def _write_next(self) -> None:
        batch, self._waiting = self._waiting, []
        if not batch:
            self._is_writing = False
            return
        self._is_writing = True
        write = StateWrite(
            self._epochs.state_epoch,
            self._epochs.leader_epoch,
            Offset(batch[-1][0].start),
            batch[-1][1],
            _runs([change for change, _, _ in batch]),
        )
        self._persister.write(self._key, write, _once(batch, self._stored))

    def _stored(self, batch: Sequence[tuple[Change, int, OnStored]], error: ErrorCode) -> None:
        for _, _, on_stored in batch:
            on_stored(error)
        if self._waiting:
            # Not here: this may be the callback of a commit, in which nothing is appended.
            self._call_later(0, self._write_next)
        else:
            self._is_writing = False


def _once(
    batch: Sequence[tuple[Change, int, OnStored]],
    stored: Callable[[Sequence[tuple[Change, int, OnStored]], ErrorCode], None],
) -> OnStored:
    return lambda error: stored(batch, error)


def _runs(changes: Sequence[Change]) -> tuple[StateRun, ...]:
    """What is written: neighbours of equal state together, in the order of the changes."""
    runs: list[StateRun] = []
    for change in changes:
        for part in change.parts:
            assert part.after is not None
            run = StateRun(part.first, part.end, part.after, part.deliveries)
            if runs and runs[-1].end == run.first and runs[-1][2:] == run[2:]:
                runs[-1] = runs[-1]._replace(end=run.end)
            else:
                runs.append(run)
    return tuple(runs)


def done_by(change: Change) -> int:
    """How many records a change finishes."""
    return sum(part.end - part.first for part in change.parts if part.after in DONE)
