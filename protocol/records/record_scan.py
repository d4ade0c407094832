"""Checks the records of an expanded version 2 batch against its header, without building a record.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    key length varint, key | value length varint, value | header count varint, headers

`scan` follows every record: lengths chain exactly to the end with exactly `count` records; keys, values and
headers lie inside their record and fill it; the header count fits what is left; offset deltas count up from 0.
A length below 0 is null and the attributes are ignored, as in Apache Kafka.

Three algorithms give the same result, chosen by cost (docs/evidence/record-checks.md has the figures):
  - *runs*: records of one size and shape, one after another, are compared column by column (`record_runs.py`);
  - *compiled*: many records without such shape go through aiokafka's compiled reader (`compiled_reader.py`);
  - *walk*: a loop in Python for few records, and for the final result when the other two find anything unusual.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.record_runs import NO_RECORDS, RUN_RECORDS_MIN, Scanned, find_run
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import (
    COMPILED_RECORDS_PER_STEP,
    HEADER_STEPS,
    RECORD_STEPS,
    UNBOUNDED,
    WorkBudget,
)

# The loop reads 12 keyed records in 7 µs, which is what finding a run costs before it has saved anything.
WALKED_RECORDS_MAX = 12
"""Up to this number the walk costs less than the set-up of the others."""
RECORDS_PER_SHORT_RUN = 64
"""One short run is allowed, and one more for each so many records taken; then the batch is irregular."""


def scan(body: bytes, count: int, *, want_keys: bool = False, budget: WorkBudget = UNBOUNDED) -> Scanned:
    """Check the expanded records of a batch; raises BrokerError INVALID_RECORD with the record's number.

    Whether a key is null is only exact with `want_keys`. Raises BudgetExceeded when `budget` is spent; runs,
    and batches of a few records without headers, are not charged.
    """
    # A record takes at least seven bytes: a count that cannot fit is refused first.
    if count <= 0 or count * 7 > len(body):
        raise _invalid(f"{count} records in {len(body)} bytes")
    if count <= WALKED_RECORDS_MAX:
        return _walk(body, 0, 0, count, budget)
    seen = NO_RECORDS
    position = first = short_runs = 0
    while first < count:
        taken, end, run = find_run(body, position, first, count - first, budget)
        if taken < RUN_RECORDS_MIN:
            short_runs += 1
            if taken == 0 or short_runs > 1 + first // RECORDS_PER_SHORT_RUN:
                rest = _irregular(body, position, first, count, budget, want_keys=want_keys)
                return _both(seen, rest)
        seen = _both(seen, run) if first else run
        position = end
        first += taken
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes follow the last record")
    return seen


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def _both(former: Scanned, other: Scanned) -> Scanned:
    return min(former[0], other[0]), max(former[1], other[1]), former[2] or other[2]


def _irregular(body: bytes, position: int, first: int, count: int, budget: WorkBudget, *, want_keys: bool) -> Scanned:
    if count - first > WALKED_RECORDS_MAX:
        budget.spend(count // COMPILED_RECORDS_PER_STEP)
        # 0.21 to 0.48 µs a record, where the loop takes 0.68 to 3.4; its first use imports 26 MB in some 70 ms.
        seen = compiled_reader.scan(body, count, want_keys=want_keys)
        if seen is not None:
            return seen
        # Charged again: the worst case is paid twice. 1 MiB of the smallest records (116,000) takes 0.14 s when all are
        # right, 0.5 s when only the last one is wrong.
        budget.spend((count - first) * RECORD_STEPS)
    return _walk(body, position, first, count, budget)


def _walk(body: bytes, position: int, first: int, count: int, budget: WorkBudget = UNBOUNDED) -> Scanned:
    """Follow records `first` to `count` one by one, the last of which must end with the body."""
    try:
        return _walk_fast(body, position, first, count, budget)
    except IndexError:
        # Misread by the fast walk, or truncated: the exact walk decides.
        return _walk_exactly(body, position, first, count, budget)


def _walk_fast(body: bytes, position: int, first: int, count: int, budget: WorkBudget = UNBOUNDED) -> Scanned:
    """Read every number as one or two bytes; any other record goes to `_check_record`.

    Raises IndexError when the body ends early.
    """
    time_min, time_max, has_null_key = NO_RECORDS
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
        # An odd number is negative: 1 is a null key or value, others need the exact check; so do headers.
        if (
            position + 1 != end
            or body[position]
            or offset != delta + delta
            or key >= 0x80
            or byte & 1
            or (key & 1 and key != 1)
            or (value & 1 and value != 1)
        ):
            time, has_key, end = _check_record(body, start, delta, budget)
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


def _walk_exactly(body: bytes, position: int, first: int, count: int, budget: WorkBudget = UNBOUNDED) -> Scanned:
    time_min, time_max, has_null_key = NO_RECORDS
    for delta in range(first, count):
        time, has_key, position = _check_record(body, position, delta, budget)
        time_min, time_max = min(time_min, time), max(time_max, time)
        has_null_key = has_null_key or not has_key
    if position != len(body):
        raise _invalid(f"{len(body) - position} bytes follow the last record")
    return time_min, time_max, has_null_key


def _check_record(body: bytes, start: int, delta: int, budget: WorkBudget = UNBOUNDED) -> tuple[int, bool, int]:
    """Check one record exactly; returns its timestamp delta, whether it has a key, and where it ends."""
    try:
        length, position = read_varint(body, start)
        end = position + length
        if end > len(body):
            raise ValueError(f"a length of {length} with {len(body) - position} bytes left")
        time, position = read_varint(body, position + 1, VARLONG_BYTES_MAX)
        offset, position = read_varint(body, position)
        if offset != delta:
            raise ValueError(f"its offset delta is {offset}")
        has_key, position = _skip_bytes(body, position, end)
        position = _skip_bytes(body, position, end)[1]
        headers, position = read_varint(body, position)
        # A header takes at least two bytes: a count that cannot fit is refused before the loop.
        if headers < 0 or headers > (end - position) // 2:
            raise ValueError(f"{headers} headers in {end - position} bytes")
        budget.spend(headers * HEADER_STEPS)
        for _ in range(headers):
            is_there, position = _skip_bytes(body, position, end)
            if not is_there:
                raise ValueError("a header without a key")
            position = _skip_bytes(body, position, end)[1]
        if position != end:
            raise ValueError(f"it has {position - start} bytes, its length says {end - start}")
    except (IndexError, ValueError) as error:
        raise _invalid(f"record {delta} is damaged: {error}") from None
    return time, has_key, end


def _skip_bytes(body: bytes, position: int, end: int) -> tuple[bool, int]:
    """Skip one byte string; returns whether it is not null (a length below 0 is null), and where it ends."""
    length, position = read_varint(body, position)
    if length < 0:
        return False, position
    if length > end - position:
        raise ValueError(f"a length of {length} with {end - position} bytes left")
    return True, position + length
