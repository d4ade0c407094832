"""One share partition on the leader of its partition: what is in flight, and what a change of it needs. Pure.

A change (acknowledgement, release, expiry) marks its parts first, is then written to `__share_group_state`, and is in
force when that has been answered; if it cannot be written it has not happened. Acquiring changes nothing that is
stored: a leader that fails has delivered once more than it is written that it has.

Invariants: batches do not overlap and lie between `start` and `end`; `done` is the number of their records that are
done; nothing below `hint` is available; every lock is in `locks` with its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from sordini.broker.shares.machine.in_flight import InFlightBatch, InFlightBatches, Part
from sordini.broker.shares.machine.record_states import RecordState
from sordini.system.named_tuple import NamedTuple


class ShareLimits(NamedTuple):
    """Settings of a group."""

    delivery_count_max: int
    """share.delivery.count.limit"""
    in_flight_max: int
    """share.partition.max.record.locks"""
    lock_ms: int
    """share.record.lock.duration.ms"""


class StoredState(NamedTuple):
    """As `__share_group_state` has it; `end_offset` of each part is exclusive here."""

    start: int
    parts: tuple[Part, ...]


class Change(NamedTuple):
    """What has to be written before it is in force; `parts` have the state that they will have in `after`."""

    start: int
    parts: tuple[Part, ...]


class SharePartition:
    """All that is known of it between two requests."""

    def __init__(self, stored: StoredState, limits: ShareLimits) -> None:
        self.limits = limits
        self.batches = InFlightBatches()
        self.start = stored.start
        self.end = stored.start
        self.done = 0
        self.hint = stored.start
        self._locks: list[tuple[int, int, int]] = []
        """Deadline, first, end; some are no longer true."""
        for part in stored.parts:
            if part.end > stored.start:
                self.add(InFlightBatch([part._replace(first=max(part.first, stored.start))]))
        self.advance()

    @property
    def in_flight(self) -> int:
        """Records that are limited, those that are done behind others included."""
        return self.end - self.start

    def add(self, batch: InFlightBatch) -> None:
        """A batch whose records were not in flight."""
        self.batches.add(batch)
        self.end = max(self.end, batch.end)
        self.done += sum(part.end - part.first for part in batch.parts if part.is_done)

    def next_offset(self) -> int:
        """Where a fetch begins: at the first record that is available, or behind all in flight."""
        for batch in self.batches.overlapping(self.hint, self.end):
            if batch.first > self.hint and self.hint >= self.start and not self._is_covered(self.hint):
                return self.hint
            for part in batch.parts:
                if part.end > self.hint and part.is_available:
                    self.hint = max(part.first, self.hint)
                    return self.hint
            self.hint = batch.end
        self.hint = self.end
        return self.end

    def _is_covered(self, offset: int) -> bool:
        return bool(self.batches.overlapping(offset, offset + 1))

    def lock(self, part: Part) -> None:
        """Note a lock."""
        heappush(self._locks, (part.deadline_ms, part.first, part.end))

    def renew(self, part: Part, now_ms: int) -> None:
        """The lock of records that are held has its whole duration again."""
        renewed = part._replace(deadline_ms=now_ms + self.limits.lock_ms)
        self._put(renewed)
        self.lock(renewed)

    def next_deadline_ms(self) -> int | None:
        """When the first lock ends; at the earliest, as locks that were given back may still be noted."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int) -> Change | None:
        """Release records whose locks have ended."""
        ended: list[Part] = []
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, end = heappop(self._locks)
            for batch in self.batches.overlapping(first, end):
                due = [part for part in batch.within(first, end) if _is_held(part) and part.deadline_ms <= now_ms]
                ended += self._released(due)
        return Change(self.start, tuple(ended)) if ended else None

    def release(self, member: str) -> Change | None:
        """Release all that a member holds: its session is closed."""
        held = [part for batch in self.batches for part in batch.parts if _is_held(part) and part.member == member]
        return Change(self.start, tuple(self._released(held))) if held else None

    def _released(self, held: Sequence[Part]) -> list[Part]:
        return [self.begin(part, self.state_when_released(part)) for part in held]

    def state_when_released(self, part: Part) -> RecordState:
        """Available, or archived after the last delivery and below the start offset."""
        if part.deliveries >= self.limits.delivery_count_max:
            return RecordState.ARCHIVED
        return RecordState.AVAILABLE

    def begin(self, part: Part, state: RecordState) -> Part:
        """Mark records with the state that they will have."""
        marked = part._replace(after=state)
        self._put(marked)
        return marked

    def _put(self, part: Part) -> None:
        for batch in self.batches.overlapping(part.first, part.end):
            batch.put(part._replace(first=max(part.first, batch.first), end=min(part.end, batch.end)))

    def commit(self, change: Change) -> None:
        """A change has been written."""
        for part in self._present(change):
            assert part.after is not None
            changed = Part(part.first, part.end, part.after, part.deliveries)
            self._put(changed)
            if changed.is_done:
                self.done += changed.end - changed.first
            else:
                self.hint = min(self.hint, changed.first)
        self.advance()

    def roll_back(self, change: Change) -> None:
        """A change could not be written: its records are held as before."""
        for part in self._present(change):
            restored = part._replace(after=None)
            self._put(restored)
            self.lock(restored)

    def _present(self, change: Change) -> Iterator[Part]:
        """Its parts without what was forgotten meanwhile."""
        for part in change.parts:
            first = max(part.first, self.start)
            if first < part.end:
                yield part._replace(first=first)

    def advance(self) -> None:
        """Move the start offset behind records that are done."""
        start, passed = self.start, 0
        for batch in self.batches:
            start = max(start, batch.first)
            for part in batch.parts:
                if not part.is_done:
                    break
                passed += part.end - part.first
                start = part.end
            if start < batch.end:
                break
        if start == self.start:
            return
        self.start = start
        self.done -= passed
        self.hint = max(self.hint, start)
        self.batches.forget_before(start)


def _is_held(part: Part) -> bool:
    return part.state is RecordState.ACQUIRED and part.after is None
