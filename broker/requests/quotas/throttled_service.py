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
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.requests.quotas.throttle_time import FETCHES, finish_request
from sordini.broker.requests.quotas.throttled_fetches import bound_fetch, is_followers
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import INTER_BROKER_APIS
from sordini.replication.ports import Clock

_HEADER: Final = struct.Struct(">hhih")
"""API key, version, correlation id and the length of the client id."""
_CLIENT_AT: Final = _HEADER.size
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
        if key in FETCHES and meters.fetched is not None:
            bound_fetch(frame, key, version, meters.fetched)
        began_ns = now_ns()
        answer = serve(peer, frame)
        finish = partial(finish_request, peer, key, version, size, meters, now_ms, counts)
        if not isinstance(answer, DelayedResponse):
            return finish(now_ns() - began_ns, answer)
        spent_ns = now_ns() - began_ns
        if answer.is_answered:
            answer.answer = finish(spent_ns, answer.answer)
        else:
            answer.amend = lambda parts: finish(spent_ns + (answer.time_ns() if answer.time_ns else 0), parts)
        return answer

    return throttled
