"""Who may ask what only brokers ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from sordini.broker.dispatch import Call, Route
from sordini.protocol.errors import BrokerError, ErrorCode


def check_between_brokers(call: Call, inter_broker_listener: str) -> None:
    """Let a request pass that came in on the listener that brokers use among themselves (CVE-2018-1288).

    Raises BrokerError CLUSTER_AUTHORIZATION_FAILED for any other. Where clients share that listener they may do all
    that a broker may, as in Apache Kafka without an authorizer.
    """
    if call.peer.listener != inter_broker_listener:
        raise BrokerError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{call.lane.api.key.name} by a broker comes in on {inter_broker_listener}, not on {call.peer.listener}",
        )


def guarded(routes: Iterable[Route], check: Callable[[Call], None]) -> list[Route]:
    """The same routes for those alone whom `check` lets pass; it raises BrokerError for the others."""
    return [route._replace(handle=partial(_checked, check, route.handle)) for route in routes]


def _checked(check: Callable[[Call], None], handle: Callable[[Call], Any], call: Call) -> Any:
    check(call)
    return handle(call)
