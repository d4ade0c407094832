"""The first record of a batch that is late enough: what a look-up by time asks.

A record's time and offset stand at its beginning, so the rest of it is stepped over: to read keys, values and headers
of a whole batch for one offset took ten times as long. A compressed batch is read while it expands, and no more of it
is kept than one step of output: it may expand to any size.

Where a batch cannot be read on (it is damaged, or the processor time is used up), the first offset that was not read
counts as found, with the batch's largest time. So a reader that goes there misses no record that it asked for.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader
from sordini.protocol.records.compression import NO_CODEC, Expanded, expand
from sordini.protocol.records.legacy import read_any
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import UNBOUNDED, Effort, OutOfTime

_BEGINNING_BYTES_MAX = 5 + 1 + VARLONG_BYTES_MAX + 5
"""Length, attributes, time and offset."""
_UNLIMITED = 2**63 - 1


def first_from(
    data: bytes, header: BatchHeader, timestamp: int, offset: int, effort: Effort = UNBOUNDED
) -> tuple[int, int] | None:
    """(timestamp in ms, offset) of the first record at or after both, in the batch or message that begins `data`.

    Records before it are not checked. Raises TooLong when `effort` is spent, and BrokerError for a message of format 0
    or 1 that cannot be read.
    """
    if header.magic != CURRENT_MAGIC:
        for record in read_any(data, header, effort=effort):
            if record.timestamp >= timestamp and record.offset >= offset:
                return record.timestamp, record.offset
        return None
    search = _Search(header, timestamp, offset, effort)
    try:
        if header.codec == NO_CODEC:
            search.take(data[HEADER_SIZE : header.size])
        else:
            expand(header.codec, data[HEADER_SIZE : header.size], search)
        search.finish()
    except _Found:
        pass
    except (BrokerError, OutOfTime, IndexError, ValueError):
        search.found = max(header.max_timestamp, timestamp), max(search.next_offset, offset)
    return search.found


class _Found(Exception):
    """Nothing more needs to be expanded."""


class _Search(Expanded):
    """Takes the records of a batch step by step, and keeps what is left of a record that is not whole."""

    def __init__(self, header: BatchHeader, timestamp: int, offset: int, effort: Effort) -> None:
        super().__init__(_UNLIMITED, effort)
        self._header = header
        self._timestamp = timestamp
        self._offset = offset
        self._rest = b""
        self._skip = 0
        self._left = header.record_count
        self.next_offset = header.base_offset
        """The offset behind the last record that was read."""
        self.found: tuple[int, int] | None = None

    def take(self, part: bytes) -> None:
        if self._skip >= len(part):
            self._skip -= len(part)
            return
        data = self._rest + part[self._skip :] if self._skip else self._rest + part
        self._skip = 0
        self._rest = data[self._read(data, len(data) - _BEGINNING_BYTES_MAX) :]

    def finish(self) -> None:
        """Read what the last bytes hold. Raises IndexError or ValueError when records are missing."""
        self._read(self._rest, len(self._rest) - 1)
        if self._left > 0:
            raise ValueError(f"{self._left} records are missing")

    def _read(self, data: bytes, last: int) -> int:
        """Read the records that begin at `last` or before; where the first one after them begins."""
        base, header = self._header.base_timestamp, self._header
        set_by_log = header.max_timestamp if header.is_log_append_time else None
        position, left, effort = 0, self._left, self.effort
        while left > 0 and position <= last:
            length, at = read_varint(data, position)
            if length <= 0:
                raise ValueError(f"a length of {length} at byte {position}")
            delta, offset_at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
            found = header.base_offset + read_varint(data, offset_at)[0]
            time_ms = base + delta if set_by_log is None else set_by_log
            if time_ms >= self._timestamp and found >= self._offset:
                self.found = time_ms, found
                raise _Found
            effort.spend(1)
            self.next_offset = found + 1
            position = at + length
            left -= 1
        self._left = left
        self._skip = max(position - len(data), 0)
        return position
