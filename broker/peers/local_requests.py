"""Asking this very broker as another broker would, when it is the controller itself.

The request goes through the broker's own service as bytes, so that there is one way in which it is served, refused and
timed, whoever asks.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service
from sordini.protocol import schema
from sordini.protocol.api import APIS
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_response_header, request_header
from sordini.replication.ports import Unreachable

_API_OF: Final = {api.request: api for api in APIS.values()}
_LENGTH_BYTES: Final = 4


class LocalRequests:
    """Serves request messages by the broker's own service. `peer` is who they seem to come from."""

    def __init__(self, service: Service, peer: Peer, client_id: str) -> None:
        self._service = service
        self._peer = peer
        self._client_id = client_id

    async def ask(self, request: Any, version: int) -> Any:
        """The response message. Raises Unreachable where another broker's connection would be closed."""
        api = _API_OF[type(request)]
        frame = bytearray(request_header(api, version, 0, self._client_id) + schema.encode(request, version))
        try:
            answer = self._service.serve(self._peer, memoryview(frame))
        except WireError as error:
            raise Unreachable(f"this broker does not serve {api.key.name} v{version}: {error}") from None
        parts = await _completed(answer) if isinstance(answer, DelayedResponse) else answer
        if parts is None:
            raise Unreachable(f"this broker does not serve {api.key.name} v{version}: there is no answer")
        response = memoryview(
            b"".join(part for part in parts or () if isinstance(part, bytes | bytearray | memoryview))
        )
        _, position = read_response_header(api, version, response[_LENGTH_BYTES:])
        return schema.decode(api.response, version, response, _LENGTH_BYTES + position)[0]


async def _completed(answer: DelayedResponse) -> Parts | None:
    if not answer.is_answered:
        told = asyncio.Event()
        answer.attach(told.set)
        try:
            await told.wait()
        except asyncio.CancelledError:
            answer.abandon()
            raise
    return answer.parts
