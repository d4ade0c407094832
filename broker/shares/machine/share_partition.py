"""One share partition on the leader of its partition: what is in flight, and what a change of it needs. Pure.

A change (acknowledgement, release, expiry) marks its parts first, is then written to `__share_group_state`, and is in
force when that has been answered; if it cannot be written it has not happened. Acquiring changes nothing that is
stored: a leader that fails has delivered once more than it is written that it has.

Records that are not delivered any more are archived or, in a group with dead letters, archiving until these are written
(KIP-1191): `take_dead_letters`, then `archive`. A leader that fails in between leaves them archiving, and the next one
writes their dead letters again.

Invariants: batches do not overlap and lie between `start` and `end`; `done` is the number of their records that are
done; nothing below `hint` is available; every lock is in `locks` with its deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from sordini.broker.shares.machine.in_flight import InFlightBatch, InFlightBatches, Part
from sordini.broker.shares.machine.record_states import DeathReason, RecordState
from sordini.system.named_tuple import NamedTuple

EXPIRED_AT_ONCE: Final = 1_000
"""Locks: about ten milliseconds."""
LOCKS_MIN: Final = 100
"""Locks that are noted before it is looked for such as are no longer true."""


class ShareLimits(NamedTuple):
    """Settings of a group."""

    delivery_count_max: int
    """share.delivery.count.limit"""
    in_flight_max: int
    """share.partition.max.record.locks"""
    lock_ms: int
    """share.record.lock.duration.ms"""
    has_dead_letters: bool = False
    """Whether errors.deadletterqueue.topic.name is set."""


class StoredState(NamedTuple):
    """As `__share_group_state` has it; `end_offset` of each part is exclusive here."""

    start: int
    parts: tuple[Part, ...]


class Change(NamedTuple):
    """What has to be written before it is in force; `parts` have the state that they will have in `after`."""

    start: int
    parts: tuple[Part, ...]


class DeadLetters(NamedTuple):
    """Records on their way to the dead letters; offsets are half-open."""

    first: int
    end: int
    deliveries: int
    reason: DeathReason


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
        self._locks_max = LOCKS_MIN
        self._dead_letters: list[DeadLetters] = []
        for part in stored.parts:
            if part.end > stored.start:
                self._add_stored(part._replace(first=max(part.first, stored.start)))
        self.advance()

    def _add_stored(self, part: Part) -> None:
        """What a former leader left archiving is continued; why it died is not stored."""
        if part.state is RecordState.ARCHIVING:
            is_exceeded = part.deliveries >= self.limits.delivery_count_max
            part = part._replace(reason=DeathReason.DELIVERIES_EXCEEDED if is_exceeded else DeathReason.REJECTED)
            self._die(part)
        self.add(InFlightBatch([part]))

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

    def reach(self, count: int) -> int:
        """An offset up to which so many records can be acquired, from `next_offset()` on: more need not be read."""
        at = self.next_offset()
        for batch in self.batches.overlapping(at, self.end):
            count -= max(batch.first - at, 0)
            for part in batch.parts:
                if count <= 0:
                    return max(part.first, at)
                if part.is_available:
                    count -= part.end - max(part.first, at)
            at = batch.end
        return max(at, self.end) + max(count, 0)

    @property
    def is_full(self) -> bool:
        """Whether no more records can be in flight; those that are may become available again."""
        return self.in_flight >= self.limits.in_flight_max

    def can_acquire(self, readable_end: int) -> bool:
        """Whether there is something for a member, if records are readable up to an offset."""
        start = self.next_offset()
        return start < readable_end and (start < self.end or not self.is_full)

    def pass_over(self, first: int, end: int) -> None:
        """Archive records that no member gets, such as aborted ones: at once, as any leader finds them again.

        As at Apache Kafka the start offset follows with the next change, or else when no more could be in flight.
        """
        for batch in self.batches.overlapping(first, end):
            for part in list(batch.within(first, end)):
                if not part.is_done and part.after is None:
                    self._put(Part(part.first, part.end, RecordState.ARCHIVED, part.deliveries))
                    self.done += part.end - part.first
        if self.is_full:
            self.advance()

    def fill(self, first: int, end: int) -> None:
        """There are no records at these offsets, as after compaction: where nothing is in flight they are done."""
        at = max(first, self.start)
        for batch in [*self.batches.overlapping(at, end), None]:
            upto = end if batch is None else min(batch.first, end)
            if at < upto:
                self.add(InFlightBatch([Part(at, upto, RecordState.ARCHIVED, 0)]))
            at = end if batch is None else max(at, batch.end)
        self.advance()

    def move_start(self, offset: int) -> None:
        """The log begins there now: records before it are forgotten, those that members hold included."""
        if offset <= self.start:
            return
        self.done -= sum(
            part.end - part.first
            for batch in self.batches.overlapping(self.start, offset)
            for part in batch.within(self.start, offset)
            if part.is_done
        )
        self.start = offset
        self.end = max(self.end, offset)
        self.hint = max(self.hint, offset)
        self.batches.forget_before(offset)
        self.advance()

    def _is_covered(self, offset: int) -> bool:
        return bool(self.batches.overlapping(offset, offset + 1))

    def lock(self, part: Part) -> None:
        """Note a lock; those that are no longer true are forgotten before they are more than the others."""
        heappush(self._locks, (part.deadline_ms, part.first, part.end))
        if len(self._locks) > self._locks_max:
            held = (part for batch in self.batches for part in batch.parts if _is_held(part))
            self._locks = sorted((part.deadline_ms, part.first, part.end) for part in held)
            self._locks_max = max(2 * len(self._locks), LOCKS_MIN)

    def renew(self, part: Part, now_ms: int) -> None:
        """The lock of records that are held has its whole duration again."""
        renewed = part._replace(deadline_ms=now_ms + self.limits.lock_ms)
        self._put(renewed)
        self.lock(renewed)

    def next_deadline_ms(self) -> int | None:
        """When the first lock ends; at the earliest, as locks that were given back may still be noted."""
        return self._locks[0][0] if self._locks else None

    def expire(self, now_ms: int, locks_max: int = EXPIRED_AT_ONCE) -> Change | None:
        """Release records whose locks have ended, of so many locks; others are still due."""
        ended: list[Part] = []
        for _ in range(locks_max):
            if not self._locks or self._locks[0][0] > now_ms:
                break
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
        return [self.begin_release(part) for part in held]

    def begin_release(self, part: Part) -> Part:
        """Mark records as available, or after their last delivery as ended."""
        if part.deliveries >= self.limits.delivery_count_max:
            return self.begin_end(part, DeathReason.DELIVERIES_EXCEEDED)
        return self.begin(part, RecordState.AVAILABLE)

    def begin_end(self, part: Part, reason: DeathReason) -> Part:
        """Mark records that are not delivered any more as archived, or as archiving if they become dead letters."""
        if self.limits.has_dead_letters:
            return self.begin(part, RecordState.ARCHIVING, reason)
        return self.begin(part, RecordState.ARCHIVED)

    def begin(self, part: Part, state: RecordState, reason: DeathReason | None = None) -> Part:
        """Mark records with the state that they will have."""
        marked = part._replace(after=state, reason=reason)
        self._put(marked)
        return marked

    def _put(self, part: Part) -> None:
        for batch in self.batches.overlapping(part.first, part.end):
            first, end = max(part.first, batch.first), min(part.end, batch.end)
            batch.put(part if (first, end) == part[:2] else part._replace(first=first, end=end))

    def commit(self, change: Change) -> None:
        """A change has been written."""
        for part in self._present(change):
            assert part.after is not None
            changed = Part(part.first, part.end, part.after, part.deliveries)
            if part.after is RecordState.ARCHIVING:
                changed = changed._replace(reason=part.reason)
                self._die(changed)
            self._put(changed)
            if changed.is_done:
                self.done += changed.end - changed.first
            elif changed.is_available:
                self.hint = min(self.hint, changed.first)
        self.advance()

    def _die(self, part: Part) -> None:
        assert part.reason is not None
        self._dead_letters.append(DeadLetters(part.first, part.end, part.deliveries, part.reason))

    def take_dead_letters(self) -> list[DeadLetters]:
        """The dead letters to write, each once: those since the last call, and first those that were stored."""
        taken, self._dead_letters = self._dead_letters, []
        return taken

    def archive(self, first: int, end: int) -> Change | None:
        """Archive records whose dead letters are written, or are not to be; None if there are none at these offsets."""
        archiving = [
            part
            for batch in self.batches.overlapping(first, end)
            for part in batch.within(first, end)
            if part.state is RecordState.ARCHIVING and part.after is None
        ]
        marked = tuple([self.begin(part, RecordState.ARCHIVED, part.reason) for part in archiving])
        return Change(self.start, marked) if marked else None

    def roll_back(self, change: Change) -> None:
        """A change could not be written: its records are held, or archiving, as before."""
        for part in self._present(change):
            is_archiving = part.state is RecordState.ARCHIVING
            restored = part._replace(after=None, reason=part.reason if is_archiving else None)
            self._put(restored)
            if not is_archiving:
                self.lock(restored)

    def _present(self, change: Change) -> Iterator[Part]:
        """Its parts without what was forgotten meanwhile."""
        for part in change.parts:
            if part.first >= self.start:
                yield part
            elif part.end > self.start:
                yield part._replace(first=self.start)

    def advance(self) -> None:
        """Move the start offset behind records that are done."""
        start, passed = self.start, 0
        for batch in self.batches:
            if batch.first > start:
                break  # What is between was not read yet, by this leader.
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
