"""A proxy in front of a broker that counts the requests of each client by their API.

Clients are told apart by the client id of their requests. The broker advertises the proxy's address to clients, and
another listener to itself.

A state that no broker keeps, such as a group that is loading, is made here: `answers` says which error the answers to some
APIs have for clients whose id ends with a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header
from sordini.protocol.served_apis import APIS
from tests.outside.ports import free_port

_HEAD: Final = struct.Struct(">ihhih")
"""Size, API key, version, correlation id, length of the client id."""
_STOP_SECONDS_MAX: Final = 10
Answers = Mapping[str, Mapping[int, int]]
"""By the end of a client's id and the API: the error."""
Changed = dict[int, tuple[int, int, int]]
"""By correlation id: API, version and error of an answer that is due."""


class CountingProxy:
    """Listens from its creation to `close`; `behind` is the broker's port."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.port = free_port()
        self.behind = 0
        self._answers = answers or {}
        self._counts: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=256))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def counts(self) -> Counter[tuple[str, int]]:
        """Requests so far, by client id and API key."""
        with self._lock:
            return Counter(self._counts)

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS_MAX)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_STOP_SECONDS_MAX)

    async def _end(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.behind)
                try:
                    changed: Changed = {}
                    answers = asyncio.create_task(_forward(far_reader, writer, changed))
                    try:
                        await self._requests(reader, far_writer, changed)
                    finally:
                        answers.cancel()
                        await asyncio.gather(answers, return_exceptions=True)
                finally:
                    far_writer.close()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, changed: Changed) -> None:
        while True:
            head = await reader.readexactly(_HEAD.size)
            size, key, version, correlation_id, id_length = _HEAD.unpack(head)
            rest = await reader.readexactly(size + 4 - _HEAD.size)
            client = rest[: max(id_length, 0)].decode(errors="replace")
            with self._lock:
                self._counts[client, key] += 1
            for state, errors in self._answers.items():
                if client.endswith(state) and key in errors:
                    changed[correlation_id] = key, version, errors[key]
            writer.write(head + rest)
            await writer.drain()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, changed: Changed) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readexactly(8)
            size, correlation_id = struct.unpack(">ii", head)
            frame = head[4:] + await reader.readexactly(size - 4)
            if (change := changed.pop(correlation_id, None)) is not None:
                frame = with_error(frame, *change)
            writer.write(len(frame).to_bytes(4, "big") + frame)
            await writer.drain()
    writer.close()


def with_error(frame: bytes, key: int, version: int, code: int) -> bytes:
    """The same answer, but that each of its elements has this error."""
    api = APIS[ApiKey(key)]
    _, position = read_response_header(api, version, memoryview(frame))
    message, _ = codecs.decode(api.response, version, memoryview(frame), position)
    _set_error(message, code)
    return frame[:position] + codecs.encode(message, version)


def _set_error(message: Any, code: int) -> None:
    for name in dir(message):
        value = None if name.startswith("_") else getattr(message, name)
        if name == "error_code":
            message.error_code = code
        elif isinstance(value, list):
            for row in value:
                if hasattr(row, "__slots__"):
                    _set_error(row, code)
