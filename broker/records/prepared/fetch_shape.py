"""The bytes that a Fetch request of one partition has in common with all others of its shape."""

from __future__ import annotations

import struct
from typing import Any, Final

from sordini.broker.requests.call import Call
from sordini.broker.requests.prepared_requests import BODY_POSITION
from sordini.protocol import codecs
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.records.enclosing import first_difference
from sordini.system.named_tuple import NamedTuple

WITH_EPOCH_VERSION: Final = 12
"""From here on the position has the epoch of the last fetched record."""

_INT32: Final = struct.Struct(">i")
_POSITION: Final = struct.Struct(">qq")
_POSITION_WITH_EPOCH: Final = struct.Struct(">qiq")
unpack_int32 = _INT32.unpack_from


class FetchShape(NamedTuple):
    """Where in a request's frame its numbers are, and the bytes around them."""

    prefix: bytes
    """From the client id to the session id."""
    epoch_end: int
    """Where the session epoch ends."""
    middle: bytes
    position_at: int
    """Where the fetch offset is, and behind it the last fetched epoch and the log start offset."""
    position_end: int
    position: struct.Struct
    rest: bytes

    @classmethod
    def of(cls, call: Call) -> FetchShape:
        """The shape of a request of one topic with one partition, from version 7 on."""
        request: FetchRequest = call.body
        ((requested,),) = (topic.partitions for topic in request.topics)
        header = request_header(call.versioned_api.api, call.version, 0, call.client_id)
        frame = header + codecs.encode(request, call.version)

        def where(holder: Any, name: str) -> int:
            value = getattr(holder, name)
            setattr(holder, name, 0)
            zero = codecs.encode(request, call.version)
            setattr(holder, name, -1)
            other = codecs.encode(request, call.version)
            setattr(holder, name, value)
            return len(header) + first_difference(zero, other)

        epoch_at, position_at = where(request, "session_epoch"), where(requested, "fetch_offset")
        position = _POSITION_WITH_EPOCH if call.version >= WITH_EPOCH_VERSION else _POSITION
        epoch_end, position_end = epoch_at + _INT32.size, position_at + position.size
        return cls(
            frame[BODY_POSITION:epoch_at],
            epoch_end,
            frame[epoch_end:position_at],
            position_at,
            position_end,
            position,
            frame[position_end:],
        )
