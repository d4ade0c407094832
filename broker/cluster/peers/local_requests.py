"""Requests of this broker to itself, when it is the controller.

A request goes through this broker's service as bytes. So there is one way in which it is served, refused and timed,
whichever broker sent it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service
from sordini.client.connection import API_OF, decode_response, encode_request
from sordini.protocol.errors import WireError
from sordini.replication.ports import Unreachable

_LENGTH_BYTES: Final = 4


class LocalRequests:
    """Serves request messages by this broker's service. `peer` is the sender that the service sees."""

    def __init__(self, service: Service, peer: Peer, client_id: str) -> None:
        self._service = service
        self._peer = peer
        self._client_id = client_id

    async def ask(self, request: Any, version: int) -> Any:
        """The response message. Raises Unreachable where another broker's connection would be closed."""
        api = API_OF[type(request)]
        frame = encode_request(api, version, 0, self._client_id, request)
        try:
            answer = self._service.serve(self._peer, memoryview(frame)[_LENGTH_BYTES:])
        except WireError as error:
            raise Unreachable(f"this broker does not serve {api.key.name} v{version}: {error}") from None
        parts = await _completed(answer) if isinstance(answer, DelayedResponse) else answer
        if parts is None:
            raise Unreachable(f"this broker does not serve {api.key.name} v{version}: there is no response")
        response = memoryview(b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview)))
        return decode_response(api, version, response[_LENGTH_BYTES:])


async def _completed(answer: DelayedResponse) -> Parts | None:
    if not answer.is_answered:
        completed = asyncio.Event()
        answer.attach(completed.set)
        try:
            await completed.wait()
        except asyncio.CancelledError:
            answer.abandon()
            raise
    return answer.parts
