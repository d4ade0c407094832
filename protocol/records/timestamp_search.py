"""Finds the first record of a batch at or after a timestamp, for ListOffsets.

A record's timestamp and offset are at its beginning, so the rest of it is skipped: reading keys, values and headers of
a whole batch for one offset took ten times as long. Earlier records of one size, one after another, are skipped by
columns: a strided slice takes the same byte of each, as in `record_scan`. A compressed batch is read while it expands,
and no more of it is kept than one step of output: it may expand to any size.

Where a batch cannot be read further (it is damaged, or the CPU time is used up), the result is the first offset that
was not read, with the batch's max timestamp. So a consumer that starts there misses no matching record.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.expansion import Expanded, expand
from sordini.protocol.records.legacy import read_any
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import UNBOUNDED, CpuTimeExceeded, WorkBudget

_BEGINNING_BYTES_MAX = 5 + 1 + VARLONG_BYTES_MAX + 5
"""Length, attributes, time and offset."""
_UNLIMITED = 2**63 - 1
# One by one, each record that is skipped costs three calls.
_RUN_RECORDS_MIN = 8
_RUN_RECORDS_MAX = 1024
_RUN_RECORDS_PER_STEP = 100
_RECORDS_BETWEEN_RUNS = 32
"""Read one by one where the records are of different sizes, before the next run is looked for."""
_THREE_BYTES = 0x4000
"""Two bytes of a number are below it, unless a third one follows."""
_LAST_BYTES = bytes(range(128))
_MORE_BYTES = bytes(range(128, 256))


def first_at_or_after(
    data: bytes, header: BatchHeader, timestamp: int, offset: int, budget: WorkBudget = UNBOUNDED
) -> tuple[int, int] | None:
    """(timestamp in ms, offset) of the first record at or after both, in the batch or message that begins `data`.

    Records before it are not checked. Raises BudgetExceeded when `budget` is spent, and BrokerError for a message of
    format 0 or 1 that cannot be read.
    """
    if header.magic != CURRENT_MAGIC:
        for record in read_any(data, header, budget=budget):
            if record.timestamp >= timestamp and record.offset >= offset:
                return record.timestamp, record.offset
        return None
    search = _Search(header, timestamp, offset, budget)
    try:
        if header.codec == NO_CODEC:
            search.take_all(data if len(data) <= header.size else data[: header.size], HEADER_SIZE)
        else:
            expand(header.codec, data[HEADER_SIZE : header.size], search)
        search.finish()
    except _Found:
        pass
    except (BrokerError, CpuTimeExceeded, IndexError, ValueError):
        search.found = max(header.max_timestamp, timestamp), max(search.next_offset, offset)
    return search.found


class _Found(Exception):
    """Raised to stop the expansion."""


class _Search(Expanded):
    """Reads the records of a batch step by step, and keeps the beginning of an incomplete record."""

    def __init__(self, header: BatchHeader, timestamp: int, offset: int, budget: WorkBudget) -> None:
        super().__init__(_UNLIMITED, budget)
        self._header = header
        self._timestamp = timestamp
        self._delta = 0 if header.is_log_append_time else timestamp - header.base_timestamp
        """Records with a smaller timestamp delta are earlier; 0 where that cannot be known from the deltas."""
        self._offset = offset
        self._rest = b""
        self._skip = 0
        self._left = header.record_count
        self.next_offset = header.base_offset
        """The offset after the last record that was read."""
        self.found: tuple[int, int] | None = None

    def take(self, part: bytes) -> None:
        if self._skip >= len(part):
            self._skip -= len(part)
            return
        data = self._rest + part[self._skip :] if self._skip else self._rest + part
        self._skip = 0
        self.take_all(data, 0)

    def take_all(self, data: bytes, position: int) -> None:
        """Read the records from `position` on, and keep the beginning of an incomplete one."""
        self._rest = data[self._read(data, position, len(data) - _BEGINNING_BYTES_MAX) :]

    def finish(self) -> None:
        """Read the records in the last bytes. Raises IndexError or ValueError when records are missing."""
        self._read(self._rest, 0, len(self._rest) - 1)
        if self._left > 0:
            raise ValueError(f"{self._left} records are missing")

    def _read(self, data: bytes, position: int, last: int) -> int:
        """Read the records that begin at `last` or before; returns the position of the next one."""
        while self._left > 0 and position <= last:
            count, size = _earlier_run(data, position, self._left, self._delta)
            if count < _RUN_RECORDS_MIN:
                position = self._read_some(data, position, last, _RECORDS_BETWEEN_RUNS)
                continue
            self.budget.spend(count // _RUN_RECORDS_PER_STEP)
            self._left -= count - 1
            # The last one is read, for its offset, and the next one, which may be the result.
            position = self._read_some(data, position + (count - 1) * size, last, 2)
        self._skip = max(position - len(data), 0)
        return position

    def _read_some(self, data: bytes, position: int, last: int, count: int) -> int:
        """As `_read`, at most `count` of them, one by one."""
        header, timestamp, offset = self._header, self._timestamp, self._offset
        base_time, base_offset = header.base_timestamp, header.base_offset
        set_by_log = header.max_timestamp if header.is_log_append_time else None
        inside = len(data) - _BEGINNING_BYTES_MAX
        left = min(self._left, count)
        self.budget.spend(left)
        while left > 0 and position <= last:
            byte, at = data[position], position + 1
            if byte >= 0x80:
                byte, at = byte & 0x7F | data[at] << 7, at + 1
            end = at + (byte >> 1)
            # Numbers of one or two bytes are read here: a call for each would cost as much again.
            if position <= inside and byte < _THREE_BYTES and byte and not byte & 1:
                time, at = data[at + 1], at + 2
                if time >= 0x80:
                    time, at = time & 0x7F | data[at] << 7, at + 1
                number = data[at]
                if number >= 0x80:
                    number = number & 0x7F | data[at + 1] << 7
                if time >= _THREE_BYTES or number >= _THREE_BYTES:
                    end, delta, offset_delta = _beginning(data, position)
                else:
                    delta, offset_delta = (time >> 1) ^ -(time & 1), (number >> 1) ^ -(number & 1)
            else:
                end, delta, offset_delta = _beginning(data, position)
            found = base_offset + offset_delta
            time_ms = base_time + delta if set_by_log is None else set_by_log
            if time_ms >= timestamp and found >= offset:
                self.found = time_ms, found
                raise _Found
            self.next_offset = found + 1
            position = end
            left -= 1
            self._left -= 1
        return position


def _beginning(data: bytes, position: int) -> tuple[int, int, int]:
    """The end of the record at `position`, its timestamp delta and its offset delta; raises IndexError, ValueError."""
    length, at = read_varint(data, position)
    if length <= 0:
        raise ValueError(f"a length of {length} at byte {position}")
    delta, offset_at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
    return at + length, delta, read_varint(data, offset_at)[0]


def _earlier_run(data: bytes, start: int, left: int, delta: int) -> tuple[int, int]:
    """How many of the next records have the size of the one at `start` and a timestamp delta below `delta`; their size.

    By induction: the next record starts where the first one ends and has the same length bytes, and so on. Fewer than
    there are, where numbers take other than one or two bytes.
    """
    length, at = read_varint(data, start)
    size = at - start + length
    count = min(left, (len(data) - _BEGINNING_BYTES_MAX - start) // size + 1, _RUN_RECORDS_MAX) if length > 0 else 0
    if count < _RUN_RECORDS_MIN or delta <= 0:
        return 0, size
    for column_at in range(start, at):
        column = data[column_at : column_at + count * size : size]
        count -= len(column.lstrip(column[:1]))
    time_at = at + 1
    # A number is twice the delta, or an odd one for a negative delta: smaller numbers are earlier times.
    if data[time_at] < 0x80:
        count = _leading(data, time_at, size, count, _LAST_BYTES[: 2 * delta])
        offset_at = time_at + 1
    else:
        count = _leading(data, time_at, size, count, _MORE_BYTES)
        upper = 2 * delta >> 7
        if data[time_at + 1] != upper:
            count = _leading(data, time_at + 1, size, count, _LAST_BYTES[:upper])
        else:
            count = _leading(data, time_at + 1, size, count, data[time_at + 1 : time_at + 2])
            count = _leading(data, time_at, size, count, _MORE_BYTES[: 2 * delta & 0x7F])
        offset_at = time_at + 2
    if data[offset_at] >= 0x80:
        count = _leading(data, offset_at, size, count, _MORE_BYTES)
        offset_at += 1
    return _leading(data, offset_at, size, count, _LAST_BYTES), size


def _leading(data: bytes, at: int, size: int, count: int, alike: bytes) -> int:
    """How many of `count` records have one of the bytes `alike` at `at`, up to the first that has not."""
    column = data[at : at + count * size : size][:count]
    return count - len(column.lstrip(alike))
