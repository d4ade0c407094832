"""The bytes that a Produce request of one partition, and its response, have in common with all others of their shape.

    request    prefix | records length | records | three empty sets of tagged fields, in flexible versions
    response   length | correlation id | ... | error code | base offset | append time | log start offset | ...

Both are made by the compiled encoders, so they cannot differ from what the general way reads and writes.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.broker.dispatch import Call
from sordini.protocol import schema
from sordini.protocol.headers import request_header
from sordini.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TAGS_BYTES: Final = 3
"""The empty tagged fields of the partition, the topic and the request, in flexible versions."""

RECORDS_LENGTH: Final = struct.Struct(">i")
"""In classic versions; flexible ones have a varint."""

_LENGTH_AND_TAGS: Final = 4
"""Bytes of empty records: a length of four bytes, or one of a single byte and the tagged fields."""
_FROM_CORRELATION_ID: Final = 8
_CORRELATION_POSITION: Final = 4
_INT32: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")


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
    return (header + schema.encode(empty, call.version))[_FROM_CORRELATION_ID:-_LENGTH_AND_TAGS]


class AnswerTemplate:
    """The response to a request of one partition, in which three or four numbers are replaced."""

    __slots__ = ("_base_at", "_log_start_at", "_template")

    def __init__(self, call: Call) -> None:
        self._template = _framed(call, 0, 0)
        self._base_at = _first_difference(self._template, _framed(call, -1, 0))
        other = _framed(call, 0, -1)
        self._log_start_at = None if other == self._template else _first_difference(self._template, other)

    def pack(self, correlation_id: int, base_offset: int, log_start_offset: int, error_code: int = 0) -> bytearray:
        """A whole frame. The error code comes right before the base offset."""
        answer = bytearray(self._template)
        _INT32.pack_into(answer, _CORRELATION_POSITION, correlation_id)
        _INT64.pack_into(answer, self._base_at, base_offset)
        if self._log_start_at is not None:
            _INT64.pack_into(answer, self._log_start_at, log_start_offset)
        if error_code:
            _INT16.pack_into(answer, self._base_at - _INT16.size, error_code)
        return answer


def _framed(call: Call, base_offset: int, log_start_offset: int) -> bytes:
    (topic,) = call.body.topic_data
    (data,) = topic.partition_data
    row = PartitionProduceResponse(index=data.index, base_offset=base_offset, log_start_offset=log_start_offset)
    answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])
    (frame,) = call.frame(ProduceResponse(responses=[answered]))
    assert isinstance(frame, bytearray)
    return bytes(frame)


def _first_difference(one: bytes, other: bytes) -> int:
    assert len(one) == len(other), "numbers of a fixed width change no length"
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)
