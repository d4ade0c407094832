"""A service in front of the dispatcher that measures each client, and throttles those above their quotas (KIP-219).

    frame -> whose meters? -> dispatcher -> response: throttle_time_ms set -> sent at once; then no request is read
                                                                              from the connection for that time

It is put in place only while there are quotas: a broker without them pays nothing. It stands outside the dispatcher, so
the prepared way is measured as the general way is, and no handler knows of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service
from sordini.broker.quotas.client_quotas import ClientMeters, ClientQuotas, Meter, Throttled
from sordini.broker.quotas.throttle_time import set_throttle_time
from sordini.protocol import schema
from sordini.protocol.api import ALL_APIS, INTER_BROKER_APIS, ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_rest_of_header, request_header_version
from sordini.protocol.messages.fetch import FetchRequest
from sordini.replication.ports import Clock

_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id and the length of the client id."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
INT32_MAX: Final = 2**31 - 1
_CLIENT_AT: Final = _HEADER.size
_REPLICA_STATE_SINCE: Final = 15
"""From this version of Fetch on a follower says who it is in a tagged field."""
_BYTES_MAX_SINCE: Final = 3
_REPLICA_STATE: Final = b"\x01\x0d"
"""Tag and size of that field: replica id, epoch, and no further tags. It is the last one."""
_REPLICA_STATE_FROM_END: Final = 15
_EXEMPT: Final = frozenset(map(int, INTER_BROKER_APIS))


class ThrottledService:
    """Serves as another service does, and throttles."""

    __slots__ = ("serve",)

    def __init__(self, service: Service, quotas: ClientQuotas, clock: Clock, now_ns: Callable[[], int]) -> None:
        self.serve = _throttled(service.serve, quotas, clock.monotonic_ms, now_ns)


def _throttled(
    serve: Callable[[Peer, memoryview], Parts | DelayedResponse | None],
    quotas: ClientQuotas,
    now_ms: Callable[[], int],
    now_ns: Callable[[], int],
) -> Callable[[Peer, memoryview], Parts | DelayedResponse | None]:
    meters_of, counts = quotas.meters, quotas.throttled

    def throttled(peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        if len(frame) < _CLIENT_AT:
            return serve(peer, frame)
        key, version, _, length = _HEADER.unpack_from(frame)
        if key in _EXEMPT:
            return serve(peer, frame)
        meters = meters_of(peer.principal.name, bytes(frame[_CLIENT_AT : _CLIENT_AT + length]) if length > 0 else b"")
        if meters is None or (key == ApiKey.FETCH and is_followers(frame, version)):
            return serve(peer, frame)
        size = len(frame)
        if key == ApiKey.FETCH and meters.fetched is not None:
            _bound_fetch(frame, version, meters.fetched)
        began_ns = now_ns()
        answer = serve(peer, frame)
        finish = partial(_finish, peer, key, version, size, meters, now_ms, counts)
        if not isinstance(answer, DelayedResponse):
            return finish(now_ns() - began_ns, answer)
        spent_ns = now_ns() - began_ns
        if answer.is_answered:
            answer.answer = finish(spent_ns, answer.answer)
        else:
            answer.amend = lambda parts: finish(spent_ns + (answer.time_ns() if answer.time_ns else 0), parts)
        return answer

    return throttled


def _finish(
    peer: Peer,
    key: int,
    version: int,
    size: int,
    meters: ClientMeters,
    now_ms: Callable[[], int],
    counts: Throttled,
    spent_ns: int,
    parts: Parts | None,
) -> Parts | None:
    """Measure a request and its response, and throttle the client if that was too much."""
    at_ms = now_ms()
    wait_ms = 0
    if key == ApiKey.PRODUCE and meters.produced is not None:
        wait_ms = _used(meters.produced, size, at_ms)
    elif key == ApiKey.FETCH and meters.fetched is not None and parts is not None:
        wait_ms = _used(meters.fetched, sum(map(_size, parts)), at_ms)
    if meters.request_time is not None:
        # One window at most, as in Apache Kafka: a request's time is known only when it is spent.
        windows = meters.request_time.rate.length
        wait_ms = max(wait_ms, min(_used(meters.request_time, spent_ns / 1e7, at_ms), windows.ms))
    if not wait_ms:
        return parts
    counts.responses += 1
    counts.milliseconds += wait_ms
    peer.mute(wait_ms)
    return None if parts is None else set_throttle_time(ALL_APIS[key], version, parts, wait_ms)


def _used(meter: Meter, units: float, now_ms: int) -> int:
    """How long to wait after so many more units."""
    meter.rate.record(units, now_ms)
    return meter.rate.throttle_ms(meter.bound, now_ms)


def _size(part: object) -> int:
    return part.nbytes if isinstance(part, memoryview) else getattr(part, "size", None) or len(part)  # type: ignore[arg-type]


def is_followers(frame: memoryview, version: int) -> bool:
    """Whether a Fetch is of a follower: its quota is that of replication. A frame that cannot be read is not."""
    if version >= _REPLICA_STATE_SINCE:
        at = len(frame) - _REPLICA_STATE_FROM_END
        if bytes(frame[at : at + len(_REPLICA_STATE)]) != _REPLICA_STATE:
            return False
        return _has_replica_state(frame, version)
    body = _fetch_body_at(frame, version)
    return body is not None and _INT32.unpack_from(frame, body)[0] >= 0


def _has_replica_state(frame: memoryview, version: int) -> bool:
    """Decode it: a consumer may send a field of its own that ends with the same bytes."""
    try:
        _, _, position = read_rest_of_header(frame, request_header_version(ALL_APIS[ApiKey.FETCH], version))
        request = schema.decode(FetchRequest, version, frame, position)[0]
    except (WireError, struct.error):
        return False
    return request.replica_state is not None and request.replica_state.replica_id >= 0


def _bound_fetch(frame: memoryview, version: int, meter: Meter) -> None:
    """Let one response have no more than the quota of all windows but one, as in Apache Kafka."""
    body = _fetch_body_at(frame, version)
    if version < _BYTES_MAX_SINCE or body is None:
        return
    at = body + (8 if version >= _REPLICA_STATE_SINCE else 12)
    count, window_ms = meter.rate.length
    allowed = min(int(meter.bound * max(count - 1, 1) * window_ms / 1000), INT32_MAX)
    if at + _INT32.size <= len(frame) and _INT32.unpack_from(frame, at)[0] > allowed:
        _INT32.pack_into(frame, at, max(allowed, 1))


def _fetch_body_at(frame: memoryview, version: int) -> int | None:
    """Where the body begins; None behind a header with tagged fields, which no known client sends, and cut off."""
    (length,) = _INT16.unpack_from(frame, _CLIENT_AT - _INT16.size)
    at = _CLIENT_AT + max(length, 0)
    if version >= ALL_APIS[ApiKey.FETCH].flexible_from:
        if at >= len(frame) or frame[at]:
            return None
        at += 1
    return at if at + _INT32.size <= len(frame) else None
