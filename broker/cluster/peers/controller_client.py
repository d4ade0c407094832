"""A broker's requests to the active controller, as the metadata cache names it.

If the broker itself is the controller, no network is involved. Otherwise a connection to the controller is used, which
is closed as soon as the cache names another broker: a former controller that hangs must not keep a request from the new
one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.client.errors import NotServed
from sordini.client.versions import ServedVersions, negotiate, run_steps
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId
from sordini.replication.ports import BrokerLink, BrokerLinks, Unreachable

ANSWER_TIMEOUT_MS: Final = 30_000
"""The default of `controller.socket.timeout.ms`."""
RETRY_PAUSE_MS: Final = 50
"""Between a request to the controller and its retry, as Apache Kafka's brokers."""

ServeLocally = Callable[[Any, int], Awaitable[Any]]
"""Serves a request message, made for a version, as if another broker had sent it; the response message."""
Make = Callable[[int], Any]
"""Makes the request message for a version."""


class ControllerClient:
    """One caller's requests to the controller, one at a time."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: MetadataCache,
        links: BrokerLinks,
        serve_locally: ServeLocally,
        *,
        timeout_ms: int = ANSWER_TIMEOUT_MS,
    ) -> None:
        """`timeout_ms` is for each response: controller.socket.timeout.ms."""
        self._broker_id = broker_id
        self._metadata = metadata
        self._links = links
        self._serve_locally = serve_locally
        self._timeout_ms = timeout_ms
        self._link: BrokerLink | None = None
        self._linked = BrokerId(-1)
        self._served: ServedVersions | None = None
        """What the connected controller serves; None before negotiation."""
        metadata.on_change(self._close_if_changed)

    async def ask(self, key: ApiKey, newest: int, make: Make) -> Any:
        """Send a request in exactly this version, as releases without negotiation do. Raises Unreachable."""
        return await self._ask(key, newest, make, negotiates=False)

    async def ask_highest(self, key: ApiKey, newest: int, make: Make) -> Any:
        """Send a request in the highest version up to `newest` that the controller serves. Raises Unreachable."""
        return await self._ask(key, newest, make, negotiates=True)

    def close(self) -> None:
        """Close the connection; a request in flight raises Unreachable. The client may be used again."""
        link, self._link, self._served = self._link, None, None
        if link is not None:
            link.close()

    async def _ask(self, key: ApiKey, newest: int, make: Make, *, negotiates: bool) -> Any:
        controller = self._metadata.controller_id
        if controller == self._broker_id:
            return await self._serve_locally(make(newest), newest)
        if controller < 0:
            raise Unreachable("no controller is known")
        link = self._linked_to(controller)
        try:
            version = await self._version(link, key, newest) if negotiates else newest
            return await link.ask(make(version), version, self._timeout_ms)
        except BaseException:  # Raised again - another connection may lead to another release of the controller.
            self._served = None
            raise

    def _linked_to(self, controller: BrokerId) -> BrokerLink:
        link = self._link
        if link is None:  # A connection to another broker was closed when the cache learned of this one.
            self._linked = controller
            self._link = link = self._links.link(controller, str(self._broker_id))
        return link

    async def _version(self, link: BrokerLink, key: ApiKey, newest: int) -> int:
        served = self._served
        if served is None:

            async def send(request: Any, version: int) -> Any:
                return await link.ask(request, version, self._timeout_ms)

            served = self._served = await run_steps(negotiate(), send)
        try:
            return served.highest(APIS[key], at_most=newest)
        except NotServed:
            text = f"controller {self._linked} does not serve {key.name} up to version {newest}"
            raise Unreachable(text) from None

    def _close_if_changed(self) -> None:
        if self._link is not None and self._linked != self._metadata.controller_id:
            self.close()
