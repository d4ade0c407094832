"""Runs of records of one size and shape, one after another, checked column by column.

    start                 start + size          start + 2 * size
    |length|.|time|offset|key|value|0|length|.|time|offset|key|value|0|length|...
      ^column: the same byte of every record, taken by one strided slice in C

A record costs what the copying of a few bytes costs: one byte for each column, of which a record without headers has
eight to ten. The first record is read number by number; that is most of the cost of a short run.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import HEADER_STEPS, UNBOUNDED, WorkBudget

# Finding a run costs about 7 µs, a column of it some 1 ns for each record (docs/evidence/record-checks.md).
RUN_RECORDS_MIN: Final = 24
"""A shorter run costs more to find than it saves."""
RUN_RECORDS_MAX: Final = 1024
"""Length of a run: bounds what is compared in vain when a run ends early."""

_ONE_BYTE_DELTAS = 64
_TWO_BYTE_DELTAS = 8192
_DELTAS = bytes(range(0, 128, 2))
_LOW_DELTAS = bytes(range(128, 256, 2)) * 128
_HIGH_DELTAS = b"".join(bytes([high]) * 64 for high in range(128))
_LAST_BYTES = bytes(range(128))
_MORE_BYTES = bytes(range(128, 256))
_EVEN_BYTES = bytes(range(0, 256, 2))
_ALL_BYTES = bytes(range(256))

Scanned = tuple[int, int, bool]
"""The result of a check: the least and the greatest timestamp delta, and whether a record has no key.

A bare tuple: a named one would cost a third of the whole check of a batch of one record.
"""
NO_RECORDS: Scanned = (2**63 - 1, -(2**63), False)

_Run = tuple[int, int, Scanned]


def find_run(body: bytes, start: int, first: int, count: int, budget: WorkBudget = UNBOUNDED) -> _Run:
    """How many of the next `count` records have the shape of the one at `start`, where they end, and their result.

    Correct by induction: the first record's length is checked against its content, the next record starts where it
    ends and has the same length bytes, and so on; every byte that matters for the check is compared. 0 records where
    the one at `start` is invalid, or is encoded in a way that a run does not compare.
    """
    try:
        # The first record is parsed once. Three times, a batch of 100-byte records took half as long again.
        length, at = read_varint(body, start)
        size = at - start + length
        # A cheap guess before the real work: the next records seem to have the length of this one.
        column = body[start : start + size * RUN_RECORDS_MIN : size] if size >= 7 else b""
        if not column or column != column[:1] * len(column):
            return 0, start, NO_RECORDS
        time, time_end = read_varint(body, at + 1, VARLONG_BYTES_MAX)
        delta, offset_end = read_varint(body, time_end)
        fixed = [*range(start, at), *range(at + 3, time_end)]
        has_key = add_content_lengths(body, offset_end, start + size, fixed, budget)
    except (IndexError, ValueError):
        return 0, start, NO_RECORDS  # The walk finds it again and reports why.
    offset_size = offset_end - time_end
    limit = _ONE_BYTE_DELTAS if offset_size == 1 else _TWO_BYTE_DELTAS
    if delta != first or offset_size > 2 or (offset_size == 2 and first < _ONE_BYTE_DELTAS):
        return 0, start, NO_RECORDS
    taken = min(count, (len(body) - start) // size, limit - first, RUN_RECORDS_MAX)
    for fixed_at in fixed:
        column = body[fixed_at : start + taken * size : size]
        if column != column[:1] * taken:
            taken -= len(column.lstrip(column[:1]))
    taken, times = _time_columns(body, start, at + 1, size, taken, time_end - at - 1)
    if not _offsets_count_up(body, time_end, offset_size, size, first, taken):
        return 0, start, NO_RECORDS
    rest = (time << 1 if time >= 0 else ~(time << 1)) >> 14
    least, greatest = _time_range(rest, [column[:taken] for column in times])
    return taken, start + taken * size, (least, greatest, not has_key)


def add_content_lengths(body: bytes, position: int, end: int, fixed: list[int], budget: WorkBudget = UNBOUNDED) -> bool:
    """Read the lengths from the key's on, and add their positions to `fixed`; returns whether there is a key.

    Raises IndexError or ValueError when they do not fill the record up to `end`.
    """
    key, at = read_varint(body, position)
    value_at = at + key if key > 0 else at
    value, value_start = read_varint(body, value_at)
    headers_at = value_start + value if value > 0 else value_start
    headers, end_of_content = read_varint(body, headers_at)
    fixed += range(position, at)
    fixed += range(value_at, value_start)
    fixed += range(headers_at, end_of_content)
    # A header takes at least two bytes: a count that cannot fit is refused before the loop.
    if headers < 0 or headers > (end - end_of_content) // 2:
        raise ValueError(f"{headers} headers in {end - end_of_content} bytes")
    budget.spend(headers * HEADER_STEPS)
    for number in range(2 * headers):
        length, at = read_varint(body, end_of_content)
        if length < 0 and number % 2 == 0:
            raise ValueError("a header without a key")
        fixed += range(end_of_content, at)
        end_of_content = at + length if length > 0 else at
    if end_of_content != end:
        raise ValueError(f"it ends at byte {end_of_content}, its length says {end}")
    return key >= 0


def _time_columns(
    body: bytes, start: int, time_at: int, size: int, taken: int, time_size: int
) -> tuple[int, list[bytes]]:
    """The lowest one or two bytes of each timestamp delta, and how many records have deltas of this size."""
    columns = []
    for index in range(min(time_size, 2)):
        column = body[time_at + index : start + taken * size : size]
        alike = _MORE_BYTES if index + 1 < time_size else _LAST_BYTES
        if column.translate(None, alike):
            taken -= len(column.lstrip(alike))
        columns.append(column)
    return taken, columns


def _time_range(rest: int, columns: list[bytes]) -> tuple[int, int]:
    """The least and greatest timestamp delta of a run, of which the two lowest bytes of each are `columns`.

    `rest` is the raw delta without its lowest fourteen bits.
    """
    low = columns[0]
    if len(columns) == 1:
        raws = _extremes(low)
    else:
        raws = []
        for start, end in _stretches(columns[1], low):
            upper = (rest << 7 | columns[1][start] & 0x7F) << 7
            raws += [upper | byte & 0x7F for byte in _extremes(low[start:end])]
    deltas = [(raw >> 1) ^ -(raw & 1) for raw in raws]
    return min(deltas), max(deltas)


def _stretches(second: bytes, low: bytes) -> list[tuple[int, int]]:
    """Ranges of records with the same second byte that include the least and the greatest delta.

    Timestamps advance slowly, so one byte is the same for stretches of records. Where no delta is negative and no
    byte between the first and the last stretch is outside of theirs, these two are enough.
    """
    size = len(second)
    head, tail = size - len(second.lstrip(second[:1])), len(second.rstrip(second[-1:]))
    if head == size:
        return [(0, size)]
    between = _ALL_BYTES[second[0] + 1 : second[-1]]
    if not second[head:tail].translate(None, between) and not low.translate(None, _EVEN_BYTES):
        return [(0, head), (tail, size)]
    found = []
    start = 0
    while start < size:
        end = size - len(second[start:].lstrip(second[start : start + 1]))
        found.append((start, end))
        start = end
    return found


def _extremes(low: bytes) -> list[int]:
    """The lowest bytes that include those of the least and the greatest number (an odd number is negative)."""
    first, last = low[0], low[-1]
    # Timestamps rarely decrease: then no byte is odd or outside the range from the first to the last.
    between = _EVEN_BYTES[first + 1 >> 1 : (last >> 1) + 1]
    return list(set(low)) if low.translate(None, between) else [first, last]


def _offsets_count_up(body: bytes, at: int, offset_size: int, size: int, first: int, taken: int) -> bool:
    last = first + taken
    end = at + (taken - 1) * size + 1
    if offset_size == 1:
        return body[at:end:size] == _DELTAS[first:last]
    return body[at:end:size] == _LOW_DELTAS[first:last] and body[at + 1 : end + 1 : size] == _HIGH_DELTAS[first:last]
