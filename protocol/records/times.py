"""The first record of a batch that is late enough: what a look-up by time asks.

A record's time and offset stand at its beginning, so the rest of it is stepped over: to read keys, values and headers
of a whole batch for one offset took ten times as long.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader
from sordini.protocol.records.compression import EXPANDED_BYTES_MAX, NO_CODEC, decompress
from sordini.protocol.records.legacy import read_any
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint


def first_from(data: bytes, header: BatchHeader, timestamp: int, offset: int) -> tuple[int, int] | None:
    """(timestamp in ms, offset) of the first record at or after both, in the batch or message that begins `data`.

    Records before it are not checked. Raises BrokerError where bytes make no sense on the way, and as `decompress`.
    """
    if header.magic != CURRENT_MAGIC:
        for record in read_any(data, header):
            if record.timestamp >= timestamp and record.offset >= offset:
                return record.timestamp, record.offset
        return None
    body = data[HEADER_SIZE : header.size]
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, EXPANDED_BYTES_MAX)
    base = header.base_timestamp
    set_by_log = header.max_timestamp if header.is_log_append_time else None
    position = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(body, position)
            delta, offset_at = read_varint(body, at + 1, VARLONG_BYTES_MAX)
            time_ms = base + delta if set_by_log is None else set_by_log
            if time_ms >= timestamp:
                found = header.base_offset + read_varint(body, offset_at)[0]
                if found >= offset:
                    return time_ms, found
            if length <= 0:
                raise ValueError(f"a length of {length} at byte {position}")
            position = at + length
    except (IndexError, ValueError) as error:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"a record is damaged: {error}") from None
    return None
