"""A change that another registry of the group writes: the request is sent there, and its answer returned.

The request keeps its login, which the other one checks again. It is sent once: a second attempt of a change whose
outcome is not known is the client's to make. A header keeps it from being forwarded again, so that registries that
take one another for the writer send no request in a circle.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import urlsplit

from sordini.registry.http.responses import REGISTRY_JSON, Answer
from sordini.registry.state.refusals import Refusal

FORWARDED: Final = "x-forward"
"""`X-Forward: false`, as other registries have it."""
FORWARD_S: Final = 35.0
"""A little more than the writer takes at most."""
AT_ONCE_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_KEPT: Final = ("accept", "content-type", "authorization", "confluent-accept-unknown-properties")


class Forwarder:
    """Sends requests to the registry that writes."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        """`tls` checks the certificate of a writer that has HTTPS; None: with the authorities of this machine."""
        self._tls = tls
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        # Of its own: the loop's has a few threads, which other work waits for.
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX, "forwarding")
        self.count = 0

    async def forward(self, writer: str, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The writer's answer. Raises Refusal."""
        if headers.get(FORWARDED, "").lower() == "false":
            raise Refusal(50003, "Error while forwarding the request to the primary: it was forwarded once already")
        self.count += 1
        sent = {name: headers[name] for name in _KEPT if name in headers} | {FORWARDED: "false"}
        try:
            async with asyncio.timeout(FORWARD_S):
                await self._slots.acquire()
        except TimeoutError:
            text = f"{AT_ONCE_MAX} others are under way, to a primary that does not answer: try again later"
            raise Refusal(50003, f"Error while forwarding the request to the primary: {text}") from None
        try:
            # In a thread, which waits for the network only.
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._exchange, writer, method, target, sent, body)
        finally:
            self._slots.release()

    def _exchange(self, writer: str, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        address = urlsplit(writer)
        assert address.hostname is not None
        connection: http.client.HTTPConnection
        if address.scheme == "https":
            context = self._tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=FORWARD_S, context=context)
        else:
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=FORWARD_S)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            answer = response.read(ANSWER_BYTES_MAX)
            return Answer(response.status, answer, response.getheader("content-type") or REGISTRY_JSON)
        except (OSError, http.client.HTTPException) as error:
            raise Refusal(50003, f"Error while forwarding the request to the primary at {writer}: {error}") from None
        finally:
            connection.close()
