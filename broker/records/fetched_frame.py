"""A whole response frame to Fetch with one row, packed into a template that the compiled encoder made.

length | correlation id | ... session id | one topic, one row ... watermarks ... | records length | records [ tags ]
`---- replaced -----'        `- replaced '           `-------- replaced --------'  `-------- appended ---------'
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.broker.records.fetch_sessions import SessionPartition
from sordini.broker.requests.call import Call
from sordini.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from sordini.protocol.primitives import varint
from sordini.protocol.records.enclosing import EMPTY_RECORDS_BYTES, NO_TAGS, first_difference

FIRST_VERSION: Final = 7
"""From here on a response has a session id, at a fixed position, and three watermarks side by side."""

_INT32: Final = struct.Struct(">i")
_LENGTH_AND_CORRELATION: Final = struct.Struct(">ii")
_WATERMARKS: Final = struct.Struct(">qqq")
_CORRELATION_POSITION: Final = 4
_SESSION_POSITION: Final = 14
"""In classic versions; the header of a flexible response has one byte more."""


class FetchedFrame:
    """The template for the responses of one session with one partition."""

    __slots__ = ("_is_flexible", "_template", "_watermarks_at", "version")

    def __init__(self, call: Call, target: SessionPartition) -> None:
        self.version = call.version
        self._is_flexible = call.versioned_api.flexible_answer
        first, second = (_framed(call, target, high_watermark) for high_watermark in (0, -1))
        self._template = first[:-EMPTY_RECORDS_BYTES]
        self._watermarks_at = first_difference(first, second)

    def pack(self, call: Call, session_id: int, watermarks: tuple[int, int, int], records: bytes) -> bytearray:
        """A frame; `watermarks` are the high watermark, the last stable offset and the log start offset."""
        frame = bytearray(self._template)
        _WATERMARKS.pack_into(frame, self._watermarks_at, *watermarks)
        _INT32.pack_into(frame, _SESSION_POSITION + self._is_flexible, session_id)
        if self._is_flexible:
            frame += varint(len(records) + 1)
            frame += records
            frame += NO_TAGS
        else:
            frame += _INT32.pack(len(records))
            frame += records
        _LENGTH_AND_CORRELATION.pack_into(frame, 0, len(frame) - _INT32.size, call.correlation_id)
        return frame


def repacked(frame: bytearray, call: Call, session_id: int) -> bytearray:
    """The same response to another fetch in the same version."""
    copy = bytearray(frame)
    _INT32.pack_into(copy, _CORRELATION_POSITION, call.correlation_id)
    _INT32.pack_into(copy, _SESSION_POSITION + call.versioned_api.flexible_answer, session_id)
    return copy


def _framed(call: Call, target: SessionPartition, high_watermark: int) -> bytes:
    row = PartitionData(
        partition_index=target.requested.partition,
        high_watermark=high_watermark,
        last_stable_offset=0,
        log_start_offset=0,
        aborted_transactions=None,
        records=b"",
    )
    topic = FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id, partitions=[row])
    (frame,) = call.frame(FetchResponse(responses=[topic]))
    assert isinstance(frame, bytearray)
    return bytes(frame)
