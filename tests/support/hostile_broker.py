"""A broker that answers everything, with hostile text in every string field."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from sordini.protocol import codecs, primitives
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import ArrayOf, Kind, Struct, fields_of
from sordini.protocol.headers import read_rest_of_header, request_header_version
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.find_coordinator import FindCoordinatorResponse
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.served_apis import ALL_APIS, Api
from tests.support.response_headers import response_header

HOSTILE = "a\x1b]0;b\x07\x08\x7f\x9b31m\u202e\u2066\u2028\rforged\nsordini is well"
"""Sets a window's title, rings, goes back, changes colours and direction, and begins a line of its own."""


class HostileBroker:
    """`code` is the error of every part of an answer, but for what leads to the broker itself.

    Every text is `text`, and every array has `rows` elements.
    """

    def __init__(self) -> None:
        self.code = 0
        self.text = HOSTILE
        self.rows = 1
        self.port = 0
        self.served = ALL_APIS
        self.asked: set[ApiKey] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                key, version = struct.unpack_from(">hh", frame)
                api = ALL_APIS[ApiKey(key)]
                self.asked.add(api.key)
                correlation_id, _, _ = read_rest_of_header(frame, request_header_version(api, version))
                body = response_header(api, version, correlation_id) + codecs.encode(
                    self._answer(api, version), version
                )
                writer.write(struct.pack(">i", len(body)) + body)
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(self, api: Api, version: int) -> Any:
        if api.key == ApiKey.API_VERSIONS:
            rows = [
                ApiVersion(api_key=one.key, min_version=one.min_version, max_version=one.max_version)
                for one in self.served.values()
            ]
            return ApiVersionsResponse(api_keys=rows)
        answer = self._filled(api.response, version)
        if isinstance(answer, MetadataResponse | FindCoordinatorResponse):
            for row in [answer, *getattr(answer, "brokers", []), *getattr(answer, "coordinators", [])]:
                for name, real in (("host", "127.0.0.1"), ("port", self.port), ("error_code", 0)):
                    if hasattr(row, name):
                        setattr(row, name, real)
        return answer

    def _filled(self, cls: type, version: int) -> Any:
        made = cls()
        for field in fields_of(cls):
            if field.spec.is_in(version):
                setattr(made, field.name, self._value(field.kind, field.name, version))
        return made

    def _value(self, kind: Kind, name: str, version: int) -> Any:
        if isinstance(kind, Struct):
            return self._filled(kind.cls, version)
        if isinstance(kind, ArrayOf):
            rows = 1 if name == "brokers" else self.rows
            return [self._value(kind.element, name, version)] * rows
        if isinstance(kind, primitives.Text):
            return self.text
        if isinstance(kind, primitives.Fixed):
            named = {"error_code": self.code, "config_source": 1, "resource_type": 2, "remembered_max": 1}
            special = {"?": False, "16s": bytes(15) + b"\1"}
            return special.get(kind.letter, named.get(name, 0))
        return b""
