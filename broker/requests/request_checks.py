"""Checks that handlers of several APIs make before they serve a request.

`InterBrokerGuard` and `guarded` refuse requests that only brokers may send. `check_name_repeats` refuses requests that
name one resource again and again: a few bytes each, answered with everything that is known of the resource each time.
Apache Kafka answers every mention; a megabyte of them would be gigabytes of response.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from sordini.broker.network.ports import Peer
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.errors import BrokerError, ErrorCode

NAME_REPEATS_MAX = 10
NAMES_PER_STEP = 10
LETTERS_PER_STEP = 256
"""Of a group id: its partition is found by hashing each letter."""


class InterBrokerGuard:
    """Accepts requests that another broker may have sent, or this broker itself (CVE-2018-1288).

    They must arrive on the inter-broker listener. Where clients share that listener, they may send whatever a broker
    may send, as in Apache Kafka without an authorizer. A standalone broker has no peers: it refuses requests of
    brokers on every listener.
    """

    def __init__(self, listener: str, itself: Peer, *, is_clustered: bool) -> None:
        """`itself` is the peer of this broker's own requests to itself; `is_clustered`: other brokers may exist."""
        self.listener = listener
        self.is_clustered = is_clustered
        self._itself = itself

    def check(self, call: Call) -> None:
        """Raise BrokerError CLUSTER_AUTHORIZATION_FAILED for a request that no broker can have sent."""
        if call.peer is self._itself:
            return
        name = call.versioned_api.api.key.name
        if not self.is_clustered:
            raise BrokerError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{name}: this broker is standalone, it has no peers"
            )
        self.check_listener(call)

    def check_listener(self, call: Call) -> None:
        """As `check`, for a request that gives data to assigned replicas only: a standalone broker has none."""
        if call.peer.listener != self.listener:
            raise BrokerError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{call.versioned_api.api.key.name} of a broker must arrive on {self.listener}, "
                f"not on {call.peer.listener}",
            )


def guarded(routes: Iterable[Route], check: Callable[[Call], None]) -> list[Route]:
    """The same routes with `check` in front of their handlers; it raises BrokerError to refuse a request."""
    return [route._replace(handle=partial(_checked, check, route.handle)) for route in routes]


def _checked(check: Callable[[Call], None], handle: Callable[[Call], Any], call: Call) -> Any:
    check(call)
    return handle(call)


def check_name_repeats(names: Iterable[Hashable]) -> Work[None]:
    """Raise BrokerError INVALID_REQUEST when a name occurs more than NAME_REPEATS_MAX times."""
    counts: dict[Hashable, int] = {}
    for index, name in enumerate(names):
        count = counts[name] = counts.get(name, 0) + 1
        if count > NAME_REPEATS_MAX:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, f"one request may name each thing {NAME_REPEATS_MAX} times at most"
            )
        if not index % NAMES_PER_STEP:
            yield 1
