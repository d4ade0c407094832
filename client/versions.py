"""Which versions of requests a broker serves, and in which one a request is sent (ApiVersions, KIP-35, KIP-511).

What takes an exchange of requests is written as steps: a generator that yields a `Step`, is sent the response message,
and returns its result. The `run` of a connection carries steps out; nothing here does any I/O.

Brokers among themselves send fixed versions (`inter.broker.protocol.version`), for which no negotiation is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final, TypeVar

from sordini import __version__
from sordini.client.errors import NotServed
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.served_apis import Api

T = TypeVar("T")

_FIRST_WITH_SOFTWARE_NAME: Final = 3
"""The first ApiVersions that names the client's software (Apache Kafka 2.4)."""


Step = tuple[Any, int]
"""A request to send, and in which version; the generator is resumed with its response message."""
Steps = Generator[Step, Any, T]


async def run_steps(steps: Steps[T], send: Callable[[Any, int], Awaitable[Any]]) -> T:
    """The result of the steps, with `send` to exchange a request in a version for its response message."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await send(*step))
    except StopIteration as end:
        result: T = end.value
        return result


class ServedVersions:
    """What one broker serves."""

    def __init__(self, ranges: Mapping[int, tuple[int, int]], broker: str = "the broker") -> None:
        """`ranges`: by API key, the oldest and the newest version; `broker` is its name in error texts."""
        self._ranges = ranges
        self._broker = broker

    def highest(self, api: Api, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that the broker serves and this client knows, within the bounds.

        Raises NotServed.
        """
        oldest, newest = self._ranges.get(api.key, (0, -1))
        version = min(newest, api.max_version, api.max_version if at_most is None else at_most)
        if version < max(oldest, api.min_version, at_least):
            raise NotServed(self._broker, api, oldest, newest)
        return version


def negotiate(broker: str = "the broker") -> Steps[ServedVersions]:
    """Request the versions that the broker serves; one too old for the request is sent it again in version 0."""
    request = ApiVersionsRequest(client_software_name="sordini", client_software_version=__version__)
    response: ApiVersionsResponse = yield request, _FIRST_WITH_SOFTWARE_NAME
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        response = yield request, 0
    return ServedVersions({row.api_key: (row.min_version, row.max_version) for row in response.api_keys}, broker)
