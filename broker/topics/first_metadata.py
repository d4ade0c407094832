"""Requests that wait for the first metadata of a broker in a cluster.

A broker accepts connections as soon as it is registered, because the controller sends its commands over them. Until the
first metadata is received it knows neither brokers nor topics, and would say so:

    registered ──► accepts ──────────────────► metadata received, or the wait is over
                      Metadata, FindCoordinator ... ─┴─► answered

Clients believe it. librdkafka drops every broker that a Metadata response does not list, the one that sent it included,
and a member of a group whose topics are in none leaves its assignment and rejoins. An Apache Kafka broker in KRaft mode
processes no request before it has the metadata; one on ZooKeeper does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.finished_work import handled
from sordini.protocol.api_keys import ApiKey

DELAYED: Final = frozenset(
    {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
)
"""What describes the cluster. Requests for its records, groups and transactions are answered: not the leader, not the
coordinator, and clients refresh their metadata."""


class FirstMetadata:
    """Delays requests while the first metadata is awaited, which the server says."""

    def __init__(self) -> None:
        self._is_awaited = False
        self._delayed: dict[DelayedResponse, tuple[Route, Call]] = {}

    def start_waiting(self) -> None:
        """Delay requests from now on, until `finish`."""
        self._is_awaited = True

    def finish(self) -> None:
        """The metadata is received, or is waited for no longer: serve what was delayed, and all that follows."""
        self._is_awaited = False
        delayed, self._delayed = self._delayed, {}
        for pending, (route, call) in delayed.items():
            call.complete_by(pending, handled(route.handle, call))

    def in_front_of(self, routes: Iterable[Route]) -> list[Route]:
        """The same routes, those of `DELAYED` with the wait in front."""
        return [
            route._replace(handle=partial(self._handle, route)) if route.key in DELAYED else route for route in routes
        ]

    def _handle(self, route: Route, call: Call) -> Any:
        if not self._is_awaited:
            return route.handle(call)
        pending = DelayedResponse()
        pending.blocks_pipeline = True
        pending.on_abandon = partial(self._forget, pending)
        self._delayed[pending] = route, call
        return pending

    def _forget(self, pending: DelayedResponse) -> None:
        """Its connection has closed."""
        del self._delayed[pending]
