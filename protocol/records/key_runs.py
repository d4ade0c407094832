"""Runs of records of one size and shape in an expanded version 2 batch: their keys, their bytes, their greatest time.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    key length varint, key | value length varint, value | header count varint, headers

Many producers send records whose values have one size and whose keys have one length. Then a strided slice takes the
same byte of each record of a run in C, and a record costs a tenth of what reading it costs. Unlike `record_runs`, this
checks no offset: a compacted batch has gaps. It never raises: where records are not what a run can be, or damaged, the
callers read them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from struct import iter_unpack

from sordini.protocol.records.record_runs import add_content_lengths
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.system.named_tuple import NamedTuple

RECORDS_MIN = 128
"""In a batch with fewer records, finding runs costs more than it saves."""
_RUN_RECORDS_MIN = 16
"""A batch with shorter runs has no common shape, but its last run may be shorter."""
RUNS_MAX = 4
"""More would mean that the records have no common shape. Deltas that need a further byte start a new run."""
_LAST_BYTES = bytes(range(128))
_MORE_BYTES = bytes(range(128, 256))
_EVEN_BYTES = bytes(range(0, 256, 2))


class Run(NamedTuple):
    """`records` records from `start` on; the other positions are relative to a record's first byte."""

    start: int
    records: int
    size: int
    """Of each record, its length included."""
    time_at: int
    time_size: int
    key_at: int
    key_size: int
    """-1 for records without a key."""
    has_value: bool

    @property
    def end(self) -> int:
        return self.start + self.records * self.size


def find_runs(body: bytes, count: int) -> list[Run] | None:
    """The runs that all `count` records form, up to the end of `body`; None when they do not."""
    if count < RECORDS_MIN:
        return None
    runs: list[Run] = []
    position = 0
    while count:
        run = _run_at(body, position, count)
        if run is None or len(runs) == RUNS_MAX or (run.records < _RUN_RECORDS_MIN and run.records < count):
            return None
        runs.append(run)
        position = run.end
        count -= run.records
    return runs if position == len(body) else None


def keys_of(body: bytes, run: Run) -> Sequence[bytes | None]:
    """The key of each record."""
    if run.key_size < 0:
        return [None] * run.records
    rest = run.size - run.key_at - run.key_size
    records = memoryview(body)[run.start : run.end]
    return list(chain.from_iterable(iter_unpack(f"{run.key_at}x{run.key_size}s{rest}x", records)))


def picked(body: bytes, run: Run, keep: Sequence[int]) -> list[bytes]:
    """The whole records whose flag in `keep` is not 0."""
    size = run.size
    return [body[start : start + size] for start in compress(range(run.start, run.end, size), keep)]


def greatest_time(body: bytes, run: Run, keep: Sequence[int]) -> int | None:
    """The greatest timestamp delta of those records; None when one is negative. At least one must be kept."""
    columns = [
        bytes(compress(body[run.start + at : run.end : run.size], keep))
        for at in range(run.time_at, run.time_at + run.time_size)
    ]
    if columns[0].translate(None, _EVEN_BYTES):
        return None
    # Numbers of as many bytes are in the order of these, the last one first.
    greatest = max(zip(*reversed(columns), strict=True))
    return read_varint(bytes(reversed(greatest)), 0, VARLONG_BYTES_MAX)[0]


def _run_at(body: bytes, start: int, count: int) -> Run | None:
    """The longest run of up to `count` records from `start` on; None where no valid record begins.

    Correct by induction: the first record's numbers are checked against its length, the next record starts where it
    ends and has the same lengths, and so on.
    """
    try:
        first, fixed, numbers = _shape_at(body, start)
    except (IndexError, ValueError):
        return None
    size = first.size
    taken = min(count, (len(body) - start) // size)
    for at in fixed:
        column = body[start + at : start + taken * size : size]
        if column != column[:1] * taken:
            taken -= len(column.lstrip(column[:1]))
            if taken < _RUN_RECORDS_MIN:
                return None
    for begin, end in numbers:
        for at in range(begin, end):
            column = body[start + at : start + taken * size : size]
            alike = _MORE_BYTES if at + 1 < end else _LAST_BYTES
            if column.translate(None, alike):
                taken -= len(column.lstrip(alike))
    return first._replace(records=taken)


def _shape_at(body: bytes, start: int) -> tuple[Run, list[int], tuple[tuple[int, int], tuple[int, int]]]:
    """A run of the record at `start`, where its lengths and counts are, and where its two deltas begin and end.

    All relative to `start`. Raises IndexError or ValueError for a damaged record.
    """
    length, time_at = read_varint(body, start)
    end = time_at + length
    if end > len(body):
        raise ValueError("a length beyond the end")
    fixed = [*range(start, time_at)]
    time_at += 1
    offset_at = read_varint(body, time_at, VARLONG_BYTES_MAX)[1]
    key_length_at = read_varint(body, offset_at)[1]
    has_key = add_content_lengths(body, key_length_at, end, fixed)
    key_size, key_at = read_varint(body, key_length_at)
    value_size, _ = read_varint(body, key_at + max(key_size, 0))
    run = Run(
        start,
        1,
        end - start,
        time_at - start,
        offset_at - time_at,
        key_at - start,
        key_size if has_key else -1,
        value_size >= 0,
    )
    deltas = ((time_at - start, offset_at - start), (offset_at - start, key_length_at - start))
    return run, [at - start for at in fixed], deltas
