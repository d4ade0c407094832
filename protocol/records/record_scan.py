"""Whether the records of an expanded version 2 batch are what its header says, without building a record.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    key length varint, key | value length varint, value | header count varint, headers

`scan` follows every record: lengths chain exactly to the end with exactly `count` records; keys, values and
headers lie inside their record and fill it; the header count fits what is left; offset deltas count up from 0.
A length below 0 is null and the attributes are not looked at, as in Apache Kafka.

Three ways lead to the same answer, chosen by cost (docs/record-checks.md has the figures):
  - *runs*: records of one size and shape, one after another, are compared column by column: a strided slice
    takes the same byte of every record in C, so a record costs what a few bytes of copying cost;
  - *compiled*: many records without such shape go through aiokafka's compiled reader (`compiled_reader.py`);
  - *walk*: a loop in Python for few records, and the judge whenever the other two meet anything odd.
"""

from __future__ import annotations

from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import (
    COMPILED_RECORDS_PER_STEP,
    HEADER_STEPS,
    RECORD_STEPS,
    UNBOUNDED,
    Effort,
)

WALKED_RECORDS_MAX = 12
"""Up to here the walk costs less than setting up anything better."""
RUN_RECORDS_MIN = 24
"""A shorter run did not pay for finding it."""
RUN_RECORDS_MAX = 1024
"""So far a run looks ahead: what it compares in vain when it breaks off early stays bounded."""
RECORDS_PER_SHORT_RUN = 64
"""One short run is allowed, and one more for so many records already taken; then the batch counts as shapeless."""

_ONE_BYTE_DELTAS = 64
_TWO_BYTE_DELTAS = 8192
_DELTAS = bytes(range(0, 128, 2))
_LOW_DELTAS = bytes(range(128, 256, 2)) * 128
_HIGH_DELTAS = b"".join(bytes([high]) * 64 for high in range(128))
_LAST_BYTES = bytes(range(128))
_MORE_BYTES = bytes(range(128, 256))
_EVEN_BYTES = bytes(range(0, 256, 2))


Scanned = tuple[int, int, bool]
"""What a scan learnt: the least and the greatest timestamp delta, and whether a record has no key.

A bare tuple: making a named one costs a third of what a batch of one record may.
"""


class _Shape(NamedTuple):
    """Where one record keeps its numbers, by distance from its first byte."""

    size: int
    fixed: tuple[int, ...]
    """Bytes that must be the same in every record of this shape: lengths, counts, the time's upper bytes but two."""
    time_at: int
    time_size: int
    time_rest: int
    """The raw timestamp delta without its lowest fourteen bits."""
    offset_at: int
    offset_size: int
    has_key: bool


def scan(body: bytes, count: int, *, want_keys: bool = False, effort: Effort = UNBOUNDED) -> Scanned:
    """Check the expanded records of a batch; raises BrokerError INVALID_RECORD with the record's number.

    Whether a key is null is only to be relied on with `want_keys`. Raises TooLong when `effort` is spent; runs, and
    batches of a few records without headers, are not charged.
    """
    # Seven bytes are the least a record takes, so a count that cannot fit is refused before anything is done.
    if count <= 0 or count * 7 > len(body):
        raise _invalid(f"{count} records in {len(body)} bytes")
    if count <= WALKED_RECORDS_MAX:
        return _walk(body, 0, 0, count, effort)
    seen = _NOTHING
    position = first = short_runs = 0
    while first < count:
        taken, end, run = _find_run(body, position, first, count - first, effort)
        if taken < RUN_RECORDS_MIN:
            short_runs += 1
            if taken == 0 or short_runs > 1 + first // RECORDS_PER_SHORT_RUN:
                rest = _shapeless(body, position, first, count, effort, want_keys=want_keys)
                return _both(seen, rest)
        seen = _both(seen, run)
        position = end
        first += taken
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes follow the last record")
    return seen


_NOTHING: Scanned = (2**63 - 1, -(2**63), False)


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def _both(one: Scanned, other: Scanned) -> Scanned:
    return min(one[0], other[0]), max(one[1], other[1]), one[2] or other[2]


def _shapeless(body: bytes, position: int, first: int, count: int, effort: Effort, *, want_keys: bool) -> Scanned:
    if count - first > WALKED_RECORDS_MAX:
        effort.spend(count // COMPILED_RECORDS_PER_STEP)
        seen = compiled_reader.scan(body, count, want_keys=want_keys)
        if seen is not None:
            return seen
        effort.spend((count - first) * RECORD_STEPS)
    return _walk(body, position, first, count, effort)


# -- runs


def _find_run(body: bytes, start: int, first: int, count: int, effort: Effort = UNBOUNDED) -> tuple[int, int, Scanned]:
    """How many of the next `count` records have the shape of the one at `start`, where they end, what they hold.

    Induction makes it sound: the first record's length is checked against its content, the next record starts
    where it ends, and has the same length bytes, and so on; all that decides about a record is compared.
    0 records where the one at `start` is wrong, or is written in a way that a run does not compare.
    """
    if not _looks_alike(body, start):
        return 0, start, _NOTHING
    shape = _shape_of(body, start, first, effort)
    if shape is None:
        return 0, start, _NOTHING
    size = shape.size
    limit = _ONE_BYTE_DELTAS if shape.offset_size == 1 else _TWO_BYTE_DELTAS
    taken = min(count, (len(body) - start) // size, limit - first, RUN_RECORDS_MAX)
    for at in shape.fixed:
        column = body[start + at : start + taken * size : size]
        if column != column[:1] * taken:
            taken -= len(column.lstrip(column[:1]))
    time_columns = []
    for index in range(min(shape.time_size, 2)):
        at = start + shape.time_at + index
        column = body[at : start + taken * size : size]
        alike = _MORE_BYTES if index + 1 < shape.time_size else _LAST_BYTES
        if column.translate(None, alike):
            taken -= len(column.lstrip(alike))
        time_columns.append(column)
    if not _offsets_count_up(body, start + shape.offset_at, shape, first, taken):
        return 0, start, _NOTHING
    time_min, time_max = _time_range(shape, [column[:taken] for column in time_columns])
    return taken, start + taken * size, (time_min, time_max, not shape.has_key)


def _looks_alike(body: bytes, start: int) -> bool:
    """Whether the next few records begin with the length of this one: a cheap guess before the real work."""
    try:
        length, after = read_varint(body, start)
    except (IndexError, ValueError):
        return False
    size = after - start + length
    if size < 7:
        return False
    column = body[start : start + size * RUN_RECORDS_MIN : size]
    return column.count(column[:1]) == len(column)


def _time_range(shape: _Shape, columns: list[bytes]) -> tuple[int, int]:
    """The least and greatest timestamp delta of a run, of which the two lowest bytes of each are `columns`."""
    low = columns[0]
    if len(columns) == 1:
        raws = _extremes(low)
    else:
        raws = []
        # Time goes on slowly: the second byte stays the same for stretches of records.
        second = columns[1]
        while second:
            stretch = len(second) - len(second.lstrip(second[:1]))
            upper = (shape.time_rest << 7 | second[0] & 0x7F) << 7
            raws += [upper | byte & 0x7F for byte in _extremes(low[:stretch])]
            second, low = second[stretch:], low[stretch:]
    deltas = [(raw >> 1) ^ -(raw & 1) for raw in raws]
    return min(deltas), max(deltas)


def _extremes(low: bytes) -> list[int]:
    """Those lowest bytes among which the least and the greatest number are (an odd number is negative)."""
    first, last = low[0], low[-1]
    # Nearly always time does not go back: then no byte is odd or lies outside the first and the last.
    between = _EVEN_BYTES[first + 1 >> 1 : (last >> 1) + 1]
    return list(set(low)) if low.translate(None, between) else [first, last]


def _offsets_count_up(body: bytes, at: int, shape: _Shape, first: int, taken: int) -> bool:
    last = first + taken
    end = at + (taken - 1) * shape.size + 1
    if shape.offset_size == 1:
        return body[at : end : shape.size] == _DELTAS[first:last]
    return (
        body[at : end : shape.size] == _LOW_DELTAS[first:last]
        and body[at + 1 : end + 1 : shape.size] == _HIGH_DELTAS[first:last]
    )


def _shape_of(body: bytes, start: int, delta: int, effort: Effort) -> _Shape | None:
    """The shape of the record at `start`, or None when it is wrong or beyond what a run can compare."""
    try:
        time, has_key, end = _look_closely(body, start, delta, effort)
    except BrokerError:
        return None  # The walk will find it again and say what is wrong with it.
    time_at = read_varint(body, start)[1] + 1
    offset_at = read_varint(body, time_at, VARLONG_BYTES_MAX)[1]
    position = read_varint(body, offset_at)[1]
    offset_size = position - offset_at
    if offset_size != (1 if delta < _ONE_BYTE_DELTAS else 2) or delta >= _TWO_BYTE_DELTAS:
        return None
    fixed = [*range(start, time_at - 1), *range(time_at + 2, offset_at)]
    # Two strings and the header count, then two strings for each header.
    strings, is_counted = 2, False
    while strings:
        length, after = read_varint(body, position)
        fixed += range(position, after)
        position = after + max(length, 0)
        strings -= 1
        if not strings and not is_counted:
            headers, after = read_varint(body, position)
            fixed += range(position, after)
            position, strings, is_counted = after, headers * 2, True
    raw = time << 1 if time >= 0 else ~(time << 1)
    return _Shape(
        size=end - start,
        fixed=tuple(at - start for at in fixed),
        time_at=time_at - start,
        time_size=offset_at - time_at,
        time_rest=raw >> 14,
        offset_at=offset_at - start,
        offset_size=offset_size,
        has_key=has_key,
    )


# -- walk


def _walk(body: bytes, position: int, first: int, count: int, effort: Effort = UNBOUNDED) -> Scanned:
    """Follow records `first` to `count` one by one, the last of which must end with the body."""
    try:
        return _walk_fast(body, position, first, count, effort)
    except IndexError:
        # Misread on the fast way, or cut short: the close look tells.
        return _walk_closely(body, position, first, count, effort)


def _walk_fast(body: bytes, position: int, first: int, count: int, effort: Effort = UNBOUNDED) -> Scanned:
    """Read every number as one or two bytes; a record where that cannot be all goes to `_look_closely`.

    Raises IndexError when the body ends early.
    """
    time_min, time_max, has_null_key = _NOTHING
    for delta in range(first, count):
        start = position
        byte = body[position]
        if byte < 0x80:
            end = position + 1 + (byte >> 1)
            position += 2
        else:
            high = body[position + 1]
            end = position + 2 + ((byte & 0x7F | high << 7) >> 1) if high < 0x80 else -1
            position += 3
        time = body[position]
        position += 1
        if time >= 0x80:
            high = body[position]
            position += 1
            time = time & 0x7F | high << 7
            if high >= 0x80:
                end = -1
        offset = body[position]
        position += 1
        if offset >= 0x80:
            offset = offset & 0x7F | body[position] << 7
            position += 1
        key = body[position]
        position += 1 + (key >> 1)
        value = body[position]
        if value < 0x80:
            position += 1 + (value >> 1)
        else:
            high = body[position + 1]
            position += 2 + ((value & 0x7F | high << 7) >> 1)
            if high >= 0x80:
                end = -1
        # An odd number is negative: as a key or a value 1 is null, all else wants a closer look; so do headers.
        if (
            position + 1 != end
            or body[position]
            or offset != delta + delta
            or key >= 0x80
            or byte & 1
            or (key & 1 and key != 1)
            or (value & 1 and value != 1)
        ):
            time, has_key, end = _look_closely(body, start, delta, effort)
            has_null_key = has_null_key or not has_key
        else:
            time = (time >> 1) ^ -(time & 1)
            if key == 1:
                has_null_key = True
        position = end
        if time < time_min:  # noqa: PLR1730 - a call to min() costs as much as ten lines here
            time_min = time
        if time > time_max:  # noqa: PLR1730
            time_max = time
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes follow the last record")
    return time_min, time_max, has_null_key


def _walk_closely(body: bytes, position: int, first: int, count: int, effort: Effort = UNBOUNDED) -> Scanned:
    time_min, time_max, has_null_key = _NOTHING
    for delta in range(first, count):
        time, has_key, position = _look_closely(body, position, delta, effort)
        time_min, time_max = min(time_min, time), max(time_max, time)
        has_null_key = has_null_key or not has_key
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes follow the last record")
    return time_min, time_max, has_null_key


def _look_closely(body: bytes, start: int, delta: int, effort: Effort = UNBOUNDED) -> tuple[int, bool, int]:
    """Check one record by the letter: its timestamp delta, whether it has a key, and where it ends."""
    try:
        length, position = read_varint(body, start)
        end = position + length
        if end > len(body):
            raise ValueError(f"a length of {length} with {len(body) - position} bytes left")
        time, position = read_varint(body, position + 1, VARLONG_BYTES_MAX)
        offset, position = read_varint(body, position)
        if offset != delta:
            raise ValueError(f"its offset delta is {offset}")
        has_key, position = _pass_bytes(body, position, end)
        position = _pass_bytes(body, position, end)[1]
        headers, position = read_varint(body, position)
        # Two bytes are the least a header takes, so a count that cannot fit is refused before the loop.
        if headers < 0 or headers > (end - position) // 2:
            raise ValueError(f"{headers} headers in {end - position} bytes")
        effort.spend(headers * HEADER_STEPS)
        for _ in range(headers):
            is_there, position = _pass_bytes(body, position, end)
            if not is_there:
                raise ValueError("a header without a key")
            position = _pass_bytes(body, position, end)[1]
        if position != end:
            raise ValueError(f"it has {position - start} bytes, its length says {end - start}")
    except (IndexError, ValueError) as error:
        raise _invalid(f"record {delta} is damaged: {error}") from None
    return time, has_key, end


def _pass_bytes(body: bytes, position: int, end: int) -> tuple[bool, int]:
    """Step over one byte string: whether it is there (a length below 0 is null), and where it ends."""
    length, position = read_varint(body, position)
    if length < 0:
        return False, position
    if length > end - position:
        raise ValueError(f"a length of {length} with {end - position} bytes left")
    return True, position + length
