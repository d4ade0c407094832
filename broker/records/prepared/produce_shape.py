"""The bytes that a Produce request of one partition, and its response, have in common with all others of their shape.

    request    prefix | records length | records | three empty sets of tagged fields, in flexible versions
    response   length | correlation id | ... | error code | base offset | append time | log start offset | ...

Both are made by the compiled encoders, so they cannot differ from what the general way reads and writes.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.broker.requests.call import Call
from sordini.protocol import codecs
from sordini.protocol.headers import request_header
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from sordini.protocol.records.enclosing import EMPTY_RECORDS_BYTES, first_difference
from sordini.system.named_tuple import NamedTuple

_FROM_CORRELATION_ID: Final = 8
CORRELATION_POSITION: Final = 4
"""Of a response's frame, its length included."""
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
pack_int16, pack_int32, pack_int64 = _INT16.pack_into, _INT32.pack_into, _INT64.pack_into


def prefix_of(call: Call) -> bytes:
    """The canonical bytes of a request of one partition between its correlation id and the length of its records."""
    request: ProduceRequest = call.body
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    empty = ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[PartitionProduceData(index=data.index, records=memoryview(b""))],
            )
        ],
    )
    header = request_header(call.versioned_api.api, call.version, 0, call.client_id)
    return (header + codecs.encode(empty, call.version))[_FROM_CORRELATION_ID:-EMPTY_RECORDS_BYTES]


class AnswerTemplate(NamedTuple):
    """The response to a request of one partition, in which a few numbers are replaced."""

    frame: bytes
    base_at: int
    """Where the base offset is. The error code comes right before it."""
    log_start_at: int
    """Where the log start offset is; 0 in versions without it."""

    def pack(self, correlation_id: int, base_offset: int, log_start_offset: int, error_code: int) -> bytearray:
        """A whole frame."""
        answer = bytearray(self.frame)
        pack_int32(answer, CORRELATION_POSITION, correlation_id)
        pack_int16(answer, self.base_at - _INT16.size, error_code)
        pack_int64(answer, self.base_at, base_offset)
        if self.log_start_at:
            pack_int64(answer, self.log_start_at, log_start_offset)
        return answer


def answer_template(call: Call) -> AnswerTemplate:
    """The template of the responses to requests like this one."""
    frame = _framed(call, 0, 0)
    other = _framed(call, 0, -1)
    return AnswerTemplate(
        frame,
        first_difference(frame, _framed(call, -1, 0)),
        0 if other == frame else first_difference(frame, other),
    )


def _framed(call: Call, base_offset: int, log_start_offset: int) -> bytes:
    (topic,) = call.body.topic_data
    (data,) = topic.partition_data
    row = PartitionProduceResponse(index=data.index, base_offset=base_offset, log_start_offset=log_start_offset)
    answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])
    (frame,) = call.frame(ProduceResponse(responses=[answered]))
    assert isinstance(frame, bytearray)
    return bytes(frame)
