"""Which requests are slow, how many of them become spans, and what is kept of each until then. Pure.

    received ── handled ──────── waited ─────────► response complete
             serve() ran         a delayed response, with no code of this request running in between

A Fetch waits for as long as its client requests (`max_wait_ms`): that wait is not slow, whatever its length.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_request_header
from sordini.system.named_tuple import NamedTuple

HEAD_BYTES_MAX: Final = 16 * 1024
"""Kept of a request's frame: more than a Fetch of four hundred partitions."""
ANSWER_BYTES_MAX: Final = 64 * 1024
"""Kept of a response, without its records in files; a larger response is not kept."""

NANOSECONDS: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000
_INT32: Final = struct.Struct(">i")
_REPLICA_ID_UNTIL: Final = 14
"""Up to this version of Fetch a replica's id comes before the longest wait."""

Pieces = tuple[bytes | int, ...]
"""A response in order: its bytes, and how many bytes of a file follow."""


class Origin(NamedTuple):
    """From where a request came, and whose it was."""

    address: str
    port: int
    connection_id: str
    listener: str
    principal: str
    software: str


class Times(NamedTuple):
    """When a request was received, in nanoseconds since 1970, and the durations of its steps in nanoseconds."""

    began_ns: int
    handled_ns: int
    waited_ns: int
    """From then on until its response was complete; 0 for a response at once."""
    sliced_ns: int = 0
    """Of the wait, what slices of its own work have taken."""

    @property
    def duration_ns(self) -> int:
        return self.handled_ns + self.waited_ns


class SlowRequest(NamedTuple):
    """One slow request, until its spans are made."""

    times: Times
    was_blocking: bool
    """Whether it had records to append when its wait began: no request behind it could start."""
    head: bytes
    """The first HEAD_BYTES_MAX bytes of its frame."""
    request_bytes: int
    answer: Pieces | None
    """None where there was no response, or one that is too large to be kept."""
    answer_bytes: int
    origin: Origin


def slow_part_ns(head: bytes, times: Times) -> int:
    """The duration of a request without the wait that its client requested."""
    if times.waited_ns and head[:2] == _FETCH:
        requested_ns = max(requested_wait_ms(head), 0) * MILLISECOND
        return times.duration_ns - min(requested_ns, times.waited_ns)
    return times.duration_ns


_FETCH: Final = int(ApiKey.FETCH).to_bytes(2, "big")


def requested_wait_ms(head: bytes) -> int:
    """The longest wait that a Fetch requests; 0 where its frame cannot be read."""
    try:
        header, position = read_request_header(memoryview(head))
        if header.api_version <= _REPLICA_ID_UNTIL:
            position += _INT32.size
        found: int = _INT32.unpack_from(head, position)[0]
    except (WireError, struct.error):
        return 0
    return found


class RequestRate:
    """A token bucket: `per_second` requests a second, and as many at once."""

    __slots__ = ("_per_second", "_tokens", "_updated_ns")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._tokens = float(per_second)
        self._updated_ns: int | None = None

    def admits(self, now_ns: int) -> bool:
        """Whether one more request may be kept now; `now_ns` is of a monotonic clock."""
        if self._updated_ns is not None:
            earned = (now_ns - self._updated_ns) * self._per_second / NANOSECONDS
            self._tokens = min(self._tokens + earned, float(self._per_second))
        self._updated_ns = now_ns
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
