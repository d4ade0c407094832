"""The fields of records, column by column: the numbers, and where keys, values and headers lie.

    length varint | attributes int8 | timestamp delta varlong | offset delta varint
    key length varint, key | value length varint, value | header count varint, headers

Every field follows the one before it, with a length that is not negative. So a record is valid in all its parts if its
fields end exactly where its length says, which is where the next record begins: that is checked for each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sordini.pipeline.source.decode.framing import Body
from sordini.pipeline.source.decode.record_headers import HeaderTable, read_headers
from sordini.pipeline.source.decode.spans import Span, read_spans
from sordini.pipeline.source.decode.varints import Bytes, Numbers, read_varints, read_varlongs
from sordini.protocol.records.batch import BatchHeader

Types = npt.NDArray[np.int32]
HALF: Final = 2**62


class Fields(NamedTuple):
    """The columns of records. Positions are those of the buffer they were read from."""

    offset: Numbers
    timestamp: Numbers
    """In ms."""
    timestamp_type: Types
    key: Span
    value: Span
    headers: HeaderTable

    def cut(self, rows: slice) -> Fields:
        """Consecutive records."""
        return Fields(
            self.offset[rows],
            self.timestamp[rows],
            self.timestamp_type[rows],
            self.key.cut(rows),
            self.value.cut(rows),
            self.headers.cut(rows),
        )


def read_fields(buffer: Bytes, bodies: list[Body], batches: list[BatchHeader], starts: Numbers) -> Fields | None:
    """The fields of the records that begin at `starts`, those of each body one after another.

    None when the records are invalid: fields do not fill their record, records do not fill their body, offsets do not
    rise or are outside their batch, or a time is beyond 64 bits.
    """
    length, position, is_length_right = read_varints(buffer, starts)
    end = position + length
    if not is_length_right or not _fill_their_bodies(bodies, starts, end):
        return None
    time_delta, position, is_time_right = read_varlongs(buffer, position + 1)
    offset_delta, position, is_offset_right = read_varints(buffer, position)
    if not is_time_right or not is_offset_right:
        return None
    key = read_spans(buffer, position)
    value = None if key is None else read_spans(buffer, key[1])
    headers = None if value is None else read_headers(buffer, value[1], end)
    if key is None or value is None or headers is None:
        return None
    counts = np.array([body.records for body in bodies], np.int64)
    offset = _offsets(batches, counts, offset_delta)
    times = _timestamps(batches, counts, time_delta)
    if offset is None or times is None:
        return None
    return Fields(offset, *times, key[0], value[0], headers)


def _fill_their_bodies(bodies: list[Body], starts: Numbers, ends: Numbers) -> bool:
    """Whether each record ends where the next one begins, and the last of a body with the body."""
    following = np.empty_like(starts)
    following[:-1] = starts[1:]
    following[np.cumsum([body.records for body in bodies]) - 1] = [body.end for body in bodies]
    return bool((ends == following).all())


def _offsets(batches: list[BatchHeader], counts: Numbers, deltas: Numbers) -> Numbers | None:
    """The records' offsets; None unless they rise, and within what their batch spans."""
    last = np.repeat(np.array([batch.last_offset_delta for batch in batches], np.int64), counts)
    if (deltas < 0).any() or (deltas > last).any():
        return None
    offsets: Numbers = deltas + np.repeat(np.array([batch.base_offset for batch in batches], np.int64), counts)
    return offsets if (offsets[1:] > offsets[:-1]).all() else None


def _timestamps(batches: list[BatchHeader], counts: Numbers, deltas: Numbers) -> tuple[Numbers, Types] | None:
    """The records' times in ms, and 1 for each that is the log's; None where one is beyond 64 bits."""
    of_log = [batch.is_log_append_time for batch in batches]
    based_on = [batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp for batch in batches]
    types = np.repeat(np.array(of_log, np.int32), counts)
    if any(of_log):
        deltas = np.where(types, 0, deltas)
    base = np.repeat(np.array(based_on, np.int64), counts)
    times: Numbers = base + deltas
    # Numbers of 62 bits have sums of 63; else one is wrong when its sign is that of neither part.
    is_small = max(map(abs, based_on)) < HALF and deltas.min() > -HALF and deltas.max() < HALF
    if not is_small and ((times ^ base) & (times ^ deltas) < 0).any():
        return None
    return times, types
