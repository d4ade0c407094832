"""Who may ask what only brokers ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from sordini.broker.dispatch import Call, Route
from sordini.broker.network.ports import Peer
from sordini.protocol.errors import BrokerError, ErrorCode


class BetweenBrokers:
    """Lets requests pass that another broker may have sent, or this broker itself (CVE-2018-1288).

    They come in on the listener that brokers use among themselves. Where clients share that listener they may do all
    that a broker may, as in Apache Kafka without an authorizer. A broker that is alone has no other to listen to: what
    comes over the network as a broker's is refused on every listener.
    """

    def __init__(self, listener: str, itself: Peer, *, is_clustered: bool) -> None:
        """`itself` is what this broker's own requests to itself come from; `is_clustered`: others may be there."""
        self.listener = listener
        self.is_clustered = is_clustered
        self._itself = itself

    def check(self, call: Call) -> None:
        """Raise BrokerError CLUSTER_AUTHORIZATION_FAILED for a request that cannot be a broker's."""
        if call.peer is self._itself:
            return
        name = call.lane.api.key.name
        if not self.is_clustered:
            raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{name}: this broker is alone, no other may ask")
        self.check_listener(call)

    def check_listener(self, call: Call) -> None:
        """The same for a request by which nothing but an assigned replica gets anything: alone, there is none."""
        if call.peer.listener != self.listener:
            raise BrokerError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{call.lane.api.key.name} by a broker comes in on {self.listener}, not on {call.peer.listener}",
            )


def guarded(routes: Iterable[Route], check: Callable[[Call], None]) -> list[Route]:
    """The same routes for those alone whom `check` lets pass; it raises BrokerError for the others."""
    return [route._replace(handle=partial(_checked, check, route.handle)) for route in routes]


def _checked(check: Callable[[Call], None], handle: Callable[[Call], Any], call: Call) -> Any:
    check(call)
    return handle(call)
