"""A broker's way to the controller of the moment, as the metadata cache names it.

When that is the broker itself it is asked without the network. Otherwise over a link of its own, which is given up as
soon as another broker is named: an old controller that hangs must not keep a request from the new one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from sordini import __version__
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api import ApiKey
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.types import BrokerId
from sordini.replication.ports import BrokerLink, Links, Unreachable

ANSWER_TIMEOUT_MS: Final = 30_000
"""`controller.socket.timeout.ms`, where nothing else is said."""
RETRY_PAUSE_MS: Final = 50
"""Between one request to the controller and its repetition, as Apache Kafka's brokers."""

_API_VERSIONS_VERSION: Final = 3  # Every controller of a cluster where brokers ask for versions knows it.

ServeLocally = Callable[[Any, int], Awaitable[Any]]
"""Serves a request message, made for a version, as if it had come from another broker; the response message."""
Make = Callable[[int], Any]
"""Makes the request message for a version."""


class ControllerClient:
    """One caller's way to the controller: one request after another."""

    def __init__(
        self,
        broker_id: BrokerId,
        metadata: MetadataCache,
        links: Links,
        serve_locally: ServeLocally,
        *,
        timeout_ms: int = ANSWER_TIMEOUT_MS,
    ) -> None:
        """`timeout_ms` is for each answer: controller.socket.timeout.ms."""
        self._broker_id = broker_id
        self._metadata = metadata
        self._links = links
        self._serve_locally = serve_locally
        self._timeout_ms = timeout_ms
        self._link: BrokerLink | None = None
        self._linked = BrokerId(-1)
        self._served: dict[int, tuple[int, int]] | None = None
        """What the controller at the other end of the link serves; None while it was not asked."""
        metadata.on_change(self._look_again)

    async def ask(self, key: ApiKey, newest: int, make: Make) -> Any:
        """Ask in this very version, as releases did that did not negotiate. Raises Unreachable."""
        return await self._ask(key, newest, make, negotiates=False)

    async def ask_highest(self, key: ApiKey, newest: int, make: Make) -> Any:
        """Ask in the highest version up to `newest` that the controller serves. Raises Unreachable."""
        return await self._ask(key, newest, make, negotiates=True)

    def close(self) -> None:
        """Hang up; a request under way raises Unreachable. It may be used again."""
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
        if link is None:  # A link to another broker was given up when the cache learned of this one.
            self._linked = controller
            self._link = link = self._links.link(controller, str(self._broker_id))
        return link

    async def _version(self, link: BrokerLink, key: ApiKey, newest: int) -> int:
        served = self._served
        if served is None:
            request = ApiVersionsRequest(client_software_name="sordini", client_software_version=__version__)
            answer: ApiVersionsResponse = await link.ask(request, _API_VERSIONS_VERSION, self._timeout_ms)
            served = self._served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        lowest, highest = served.get(key, (0, -1))
        if not lowest <= min(newest, highest):
            raise Unreachable(f"controller {self._linked} does not serve {key.name} up to version {newest}")
        return min(newest, highest)

    def _look_again(self) -> None:
        if self._link is not None and self._linked != self._metadata.controller_id:
            self.close()
