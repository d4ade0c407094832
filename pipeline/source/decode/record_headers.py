"""The headers of records, which are lists: read header by header, each for all the records that have so many."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from sordini.pipeline.source.decode.spans import Span, read_spans
from sordini.pipeline.source.decode.varints import Bytes, Numbers, read_varints
from sordini.protocol.records.varint import read_varint

RECORDS_MIN: Final = 16
"""With fewer records left a step for all of them costs more than a step for each."""


class HeaderTable(NamedTuple):
    """The headers of all records one after another."""

    first: Numbers
    """Where those of each record begin among all of them, and at last how many there are."""
    key: Span
    value: Span

    def cut(self, rows: slice) -> HeaderTable:
        """Those of some records, one after another."""
        first = self.first[rows.start : rows.stop + 1]
        headers = slice(int(first[0]), int(first[-1]))
        return HeaderTable(first - first[0], self.key.cut(headers), self.value.cut(headers))


def read_headers(buffer: Bytes, at: Numbers, end: Numbers) -> HeaderTable | None:
    """The headers of the records whose header counts stand at `at`; None unless they fill each record up to its end."""
    count, position, is_right = read_varints(buffer, at)
    # Two bytes are the least a header takes, so a count that cannot fit is refused before room is made for it.
    if not is_right or (count < 0).any() or (count * 2 > end - position).any():
        return None
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(count)))
    table = HeaderTable(first, *(Span(*np.empty((2, int(first[-1])), np.int64)) for _ in range(2)))
    records = np.flatnonzero(count)
    for step in range(int(count.max(initial=0))):
        records = records[count[records] > step]
        if len(records) < RECORDS_MIN:
            if not all(_read_rest(buffer, table, record, step, position) for record in records.tolist()):
                return None
            break
        moved = _read_one(buffer, table, first[records] + step, position[records])
        if moved is None:
            return None
        position[records] = moved
    if (position != end).any() or table.key.is_null.any():
        return None
    return table


def _read_one(buffer: Bytes, table: HeaderTable, slots: Numbers, at: Numbers) -> Numbers | None:
    """One header of each record into its slot; the positions after them."""
    for column in (table.key, table.value):
        found = read_spans(buffer, at)
        if found is None:
            return None
        (column.start[slots], column.end[slots]), at = found
    return at


def _read_rest(buffer: Bytes, table: HeaderTable, record: int, step: int, positions: Numbers) -> bool:
    """The headers of one record from number `step` on, each by itself."""
    view = buffer.data
    position = int(positions[record])
    try:
        for slot in range(int(table.first[record]) + step, int(table.first[record + 1])):
            for column in (table.key, table.value):
                length, position = read_varint(view, position)
                column.start[slot], column.end[slot] = position, position + length
                position += max(length, 0)
    except (IndexError, ValueError):
        return False
    positions[record] = position
    return True
