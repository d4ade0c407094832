"""A TCP proxy before a broker that writes down every conversation about groups, in the order it passes here.

Clients reach the broker through it because the broker advertises its address. Bytes pass unchanged. Requests of
the group APIs are noted before they go on to the broker and answers before they go on to the client, so where
an answer stands before a request here, the broker had decided the one before it saw the other. Bodies are
decoded with the definitions out of the kafka-clients jar: the recorder shares no code with our broker.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from tests.compat.situations.definitions import Definitions, Values

GROUP_APIS = {
    8: "OffsetCommit",
    9: "OffsetFetch",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
}


class Exchange(NamedTuple):
    """A request with its answer. `asked` and `answered` count all that passed; `asked_at_s` is monotonic time."""

    api: str
    asked: int
    answered: int
    asked_at_s: float
    answered_at_s: float
    request: Values
    answer: Values


class Unanswered(NamedTuple):
    """A request whose connection ended before its answer came past: the broker may have done it, or not."""

    api: str
    asked: int
    request: Values


class _Asked(NamedTuple):
    api: str
    version: int
    order: int
    at_s: float
    request: Values


class Recorder:
    """The proxy on a thread of its own: `with Recorder(port, to_port, definitions) as recorder`."""

    def __init__(self, port: int, broker_port: int, definitions: Definitions) -> None:
        self.port = port
        self._broker_port = broker_port
        self._definitions = definitions
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._started = threading.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._passed = 0
        self._exchanges: list[Exchange] = []
        self._unanswered: list[Unanswered] = []
        self.errors: list[str] = []

    def exchanges(self) -> list[Exchange]:
        """All answered so far, in the order of the answers."""
        assert not self.errors, "\n".join(self.errors)
        return list(self._exchanges)

    def unanswered(self) -> list[Unanswered]:
        """What was on its way on connections that have ended."""
        return list(self._unanswered)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10), "the recorder does not listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=200)
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError):
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
                asked: dict[int, _Asked] = {}
                ways = [
                    asyncio.ensure_future(self._pass(reader, there_writer, lambda frame: self._request(frame, asked))),
                    asyncio.ensure_future(self._pass(there_reader, writer, lambda frame: self._answer(frame, asked))),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)  # Either end closing closes both.
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
                    there_writer.close()
                    self._unanswered += [Unanswered(one.api, one.order, one.request) for one in asked.values()]
        except asyncio.CancelledError:
            pass  # The recorder is being stopped.
        finally:
            writer.close()
            self._connections.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", head)[0])
                self._passed += 1
                try:
                    note(frame)
                except Exception as error:  # noqa: BLE001 - what cannot be decoded fails the test, not the traffic.
                    self.errors.append(f"{error!r} in {frame[:200]!r}")
                writer.write(head + frame)
                await writer.drain()

    def _request(self, frame: bytes, asked: dict[int, _Asked]) -> None:
        key, version, correlation_id, name_size = struct.unpack_from(">hhih", frame)
        if key not in GROUP_APIS:
            return
        api = GROUP_APIS[key]
        start = 10 + max(name_size, 0)
        if self._definitions.messages[f"{api}Request"].is_flexible(version):
            assert frame[start] == 0, "a tagged field in a request's header"
            start += 1
        request = self._definitions.decode(f"{api}Request", version, frame[start:])
        asked[correlation_id] = _Asked(api, version, self._passed, time.monotonic(), request)

    def _answer(self, frame: bytes, asked: dict[int, _Asked]) -> None:
        found = asked.pop(struct.unpack_from(">i", frame)[0], None)
        if found is None:
            return
        start = 5 if self._definitions.messages[f"{found.api}Response"].is_flexible(found.version) else 4
        answer = self._definitions.decode(f"{found.api}Response", found.version, frame[start:])
        self._exchanges.append(
            Exchange(found.api, found.order, self._passed, found.at_s, time.monotonic(), found.request, answer)
        )
