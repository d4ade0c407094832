"""What a quota needs to know of a Fetch and of a ShareFetch, read from their frames. Pure.

A follower's Fetch is under the quota of replication, not of clients. A consumer's is bounded before it is served, so
that one response cannot take the quota of minutes; so is a ShareFetch. Apache Kafka throttles a ShareFetch by an empty
response, whose records stay locked for a member that never sees them: here they are sent, with the time to wait.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.broker.requests.quotas.client_quotas import Meter
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_rest_of_header, request_header_version
from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.primitives import read_varint
from sordini.protocol.served_apis import ALL_APIS

_CLIENT_ID: Final = 10
"""Where the client id of a request's header begins."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
INT32_MAX: Final = 2**31 - 1
_REPLICA_STATE_SINCE: Final = 15
"""From this version of Fetch on a follower says who it is in a tagged field."""
_BYTES_MAX_SINCE: Final = 3
_REPLICA_STATE: Final = b"\x01\x0d"
"""Tag and size of that field: replica id, epoch, and no further tags. It is the last one."""
_REPLICA_STATE_FROM_END: Final = 15


def is_followers(frame: memoryview, version: int) -> bool:
    """Whether a Fetch is of a follower: its quota is that of replication. A frame that cannot be read is not."""
    if version >= _REPLICA_STATE_SINCE:
        at = len(frame) - _REPLICA_STATE_FROM_END
        if bytes(frame[at : at + len(_REPLICA_STATE)]) != _REPLICA_STATE:
            return False
        return _has_replica_state(frame, version)
    body = _body_at(frame, is_flexible=version >= ALL_APIS[ApiKey.FETCH].flexible_from)
    return body is not None and _INT32.unpack_from(frame, body)[0] >= 0


def _has_replica_state(frame: memoryview, version: int) -> bool:
    """Decode it: a consumer may send a field of its own that ends with the same bytes."""
    try:
        _, _, position = read_rest_of_header(frame, request_header_version(ALL_APIS[ApiKey.FETCH], version))
        request = codecs.decode(FetchRequest, version, frame, position)[0]
    except (WireError, struct.error):
        return False
    return request.replica_state is not None and request.replica_state.replica_id >= 0


def bound_fetch(frame: memoryview, key: int, version: int, meter: Meter) -> None:
    """Let one response have no more than the quota of all windows but one, as in Apache Kafka."""
    at = _share_bytes_max_at(frame) if key == ApiKey.SHARE_FETCH else _bytes_max_at(frame, version)
    if at is None:
        return
    count, window_ms = meter.rate.length
    allowed = min(int(meter.bound * max(count - 1, 1) * window_ms / 1000), INT32_MAX)
    if at + _INT32.size <= len(frame) and _INT32.unpack_from(frame, at)[0] > allowed:
        _INT32.pack_into(frame, at, max(allowed, 1))


def _bytes_max_at(frame: memoryview, version: int) -> int | None:
    """Where `max_bytes` of a Fetch is."""
    body = _body_at(frame, is_flexible=version >= ALL_APIS[ApiKey.FETCH].flexible_from)
    if version < _BYTES_MAX_SINCE or body is None:
        return None
    return body + (8 if version >= _REPLICA_STATE_SINCE else 12)


def _share_bytes_max_at(frame: memoryview) -> int | None:
    """Where `max_bytes` of a ShareFetch is: behind the ids of group and member, and three numbers."""
    at = _body_at(frame, is_flexible=True)
    if at is None:
        return None
    try:
        for _ in range(2):
            length, at = read_varint(frame, at)
            at += max(length - 1, 0)
    except (WireError, IndexError):
        return None
    return at + 3 * _INT32.size


def _body_at(frame: memoryview, *, is_flexible: bool) -> int | None:
    """Where the body begins; None behind a header with tagged fields, which no known client sends, and cut off."""
    (length,) = _INT16.unpack_from(frame, _CLIENT_ID - _INT16.size)
    at = _CLIENT_ID + max(length, 0)
    if is_flexible:
        if at >= len(frame) or frame[at]:
            return None
        at += 1
    return at if at + _INT32.size <= len(frame) else None
