"""Where the records of batches begin.

A record says how long it is and the next one follows, so that the way through a batch is a chain. Two ways to be
faster than following it record by record:
  - *lanes*: many batches are followed at once, one numpy step for the next record of each, as long as all lengths
    have one or two bytes;
  - *runs*: records of one size follow each other at equal distances. A strided comparison of their first bytes shows
    a thousand of them at once: each record whose length is that of the one before begins where that one ends.
Only lengths are read here; `fields.py` checks the records.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sordini.pipeline.source.decode.varints import Bytes, Numbers
from sordini.protocol.records.varint import read_varint

LANES_MIN: Final = 48
"""With fewer batches a step for all of them costs more than a step for each."""
RECORD_BYTES_MIN: Final = 7
RUN_RECORDS_MIN: Final = 32
RUN_RECORDS_MAX: Final = 4096
WALKED_RECORDS_MIN: Final = 64
WALKED_RECORDS_MAX: Final = 2048
"""So many records are walked between two attempts at a run: more with each that failed."""


class Body(NamedTuple):
    """The records of one batch, expanded: where they lie in a buffer, and how many they should be."""

    start: int
    end: int
    records: int


def _steps() -> Numbers:
    """How far it is from record to record, by the first two bytes of its length (little-endian); 0 if those miss."""
    pairs = np.arange(1 << 16, dtype=np.int64)
    low, high = pairs & 0xFF, pairs >> 8
    steps = np.where(low < 0x80, (low >> 1) + 1, ((low & 0x7F | high << 7) >> 1) + 2)
    steps[(low & 1 == 1) | (low >= 0x80) & (high >= 0x80)] = 0
    return steps


_STEPS: Final = _steps()


def find_starts(buffer: Bytes, bodies: list[Body]) -> Numbers | None:
    """Where each record of all bodies begins; None when a chain leads out of the buffer, or a length is negative.

    Each body must have room for its count of records; that it has exactly so many is not checked.
    """
    starts = np.empty(sum(body.records for body in bodies), np.int64)
    # The longest first: those that have come to their end are always the last.
    counts = np.array([body.records for body in bodies], np.int64)
    order = np.argsort(-counts, kind="stable")
    positions = np.array([body.start for body in bodies], np.int64)[order]
    slots = (np.cumsum(counts) - counts)[order]
    counts = counts[order]
    done = _follow_lanes(buffer, positions, slots, counts, starts)
    view = buffer.data
    for position, slot, count in zip(positions.tolist(), slots.tolist(), counts.tolist(), strict=True):
        if count <= done:
            break
        if not _follow_one(buffer, view, position, starts[slot + done : slot + count]):
            return None
    return starts


def _follow_lanes(buffer: Bytes, positions: Numbers, slots: Numbers, counts: Numbers, starts: Numbers) -> int:
    """Follow all bodies while there are enough of them; how many records of each (that has so many) were found.

    `positions` are moved on. Ends early where a length has more than two bytes, or a chain leaves the buffer.
    """
    if len(counts) < LANES_MIN:
        return 0
    steps = int(counts[LANES_MIN - 1])
    # Two bytes at any position, without a copy; the last byte of the buffer begins no pair.
    pairs = np.ndarray((len(buffer) - 1,), "<u2", buffer, 0, (1,))
    active = np.searchsorted(-counts, -np.arange(steps), side="left").tolist()
    slots = slots.copy()
    for step, lanes in enumerate(active):
        at, slot = positions[:lanes], slots[:lanes]
        try:
            distances = _STEPS.take(pairs[at])
        except IndexError:
            return step
        if np.count_nonzero(distances) < lanes:
            return step
        starts[slot] = at
        at += distances
        slot += 1
    return steps


def _follow_one(buffer: Bytes, view: memoryview, position: int, starts: Numbers) -> bool:
    """Fill `starts` with the records from `position` on: runs where there are any, else one by one."""
    done, count, patience = 0, len(starts), WALKED_RECORDS_MIN
    while done < count:
        if count - done >= RUN_RECORDS_MIN:
            taken, size = _find_run(buffer, position, min(count - done, RUN_RECORDS_MAX))
            if taken >= RUN_RECORDS_MIN:
                starts[done : done + taken] = np.arange(position, position + taken * size, size)
                position += taken * size
                done += taken
                patience = WALKED_RECORDS_MIN
                continue
        found, position = _walk(view, position, min(count - done, patience))
        if position < 0:
            return False
        starts[done : done + len(found)] = found
        done += len(found)
        patience = min(2 * patience, WALKED_RECORDS_MAX)
    return True


def _find_run(buffer: Bytes, position: int, records_max: int) -> tuple[int, int]:
    """How many records from `position` on seem to have the size of the first, and that size."""
    if position + 2 > len(buffer):
        return 0, 0
    low, high = buffer[position], buffer[position + 1]
    size = int(_STEPS[int(low) | int(high) << 8])
    if size == 0:
        return 0, 0
    alike = buffer[position : position + records_max * size : size] == low
    if low >= 0x80:
        seconds = buffer[position + 1 : position + 1 + records_max * size : size] == high
        alike = alike[: len(seconds)] & seconds
    first_other = int(alike.argmin())
    return len(alike) if alike[first_other] else first_other, size


def _walk(view: memoryview, position: int, count: int) -> tuple[list[int], int]:
    """The positions of up to `count` records and the one after them; -1 for that where a length is negative or missing.

    The loop that all irregular records of large batches go through; hence a length of one or two bytes read in place.
    """
    found = [0] * count
    try:
        for index in range(count):
            found[index] = position
            low = view[position]
            if low < 0x80:
                position += (low >> 1) + 1
            else:
                high = view[position + 1]
                if high < 0x80:
                    position += (high << 6) + ((low & 0x7F) >> 1) + 2
                else:
                    length, after = read_varint(view, position)
                    position = after + length if length >= 0 else -1
    except (IndexError, ValueError):
        return found, -1
    return found, position
