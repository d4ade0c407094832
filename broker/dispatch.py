"""From a request's bytes to its handler, and from the handler's answer to bytes.

This is the broker's one fence: wherever a handler fails, here it becomes an error code in that request's answer, or
the end of that connection, and nothing else notices. A lane (one API in one version) is found by the first four
bytes of the frame and keeps the compiled decoder and encoder, so that a request costs one dictionary look-up.

Requests nobody serves get Apache Kafka's own answer: an unknown API or version closes the connection, and an
ApiVersions request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, NamedTuple

from sordini.broker.network.ports import Log, Parts, Peer, Pending, release_parts
from sordini.protocol import schema
from sordini.protocol.api import APIS, Api, ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.headers import read_request_header, read_rest_of_header, request_header_version

KEY_AND_VERSION = struct.Struct(">hh")
LANE_NUMBER = struct.Struct(">I")
SIZE_AND_CORRELATION = struct.Struct(">ii")

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Route(NamedTuple):
    """What serves one API.

    `handle(call)` returns the answer's message, a Pending, ready bytes (`Encoded`) or None for no answer at all.
    `refuse(body, code)` makes the answer that says the whole request failed.
    """

    key: ApiKey
    handle: Callable[[Call], Any]
    refuse: Callable[[Any, ErrorCode], Any]


class Encoded(bytes):
    """A whole answer's body that was encoded before."""

    __slots__ = ()


class Lane:
    """One API in one version: compiled functions, the handler, and plain counters that the exporter reads."""

    __slots__ = (
        "api",
        "decode",
        "encode",
        "errors",
        "flexible_answer",
        "header_version",
        "is_fallback",
        "requests",
        "route",
        "version",
    )

    def __init__(self, api: Api, version: int, route: Route, *, is_fallback: bool = False) -> None:
        """`is_fallback`: it stands for a version from the future, whose requests are answered in this one."""
        self.api = api
        self.version = version
        self.route = route
        self.decode = schema.decoder(api.request, version)
        self.encode = schema.encoder(api.response, version)
        # The answer to ApiVersions is read before the client knows what we speak: its header never has tags.
        self.flexible_answer = version >= api.flexible_from and api.key != ApiKey.API_VERSIONS
        self.header_version = request_header_version(api, version)
        self.is_fallback = is_fallback
        self.requests = 0
        self.errors = 0


class Call:
    """One request on its way through a handler."""

    __slots__ = ("body", "client_id", "correlation_id", "lane", "peer", "version")

    def __init__(self, lane: Lane, peer: Peer, correlation_id: int, client_id: str | None, body: Any) -> None:
        self.lane = lane
        self.peer = peer
        self.version = lane.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body

    def frame(self, message: Any) -> Parts:
        """Encode an answer into a whole frame: its size, its header, its body, and slices of files in between."""
        lane = self.lane
        out = bytearray(9 if lane.flexible_answer else 8)
        slices: list[tuple[int, Any]] = []
        if type(message) is Encoded:
            out += message
        else:
            try:
                lane.encode(message, out, slices)
            except BaseException:
                release_parts([piece for _, piece in slices])
                raise
        if not slices:
            SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, self.correlation_id)
            return [out]
        size = len(out) - 4 + sum(piece.size for _, piece in slices)
        SIZE_AND_CORRELATION.pack_into(out, 0, size, self.correlation_id)
        view = memoryview(out)
        parts: Parts = []
        done = 0
        for position, piece in slices:
            parts += (view[done:position], piece)
            done = position
        if done < len(out):
            parts.append(view[done:])
        return parts


class Dispatcher:
    """The service that the processors call, once per request."""

    def __init__(self, spawn: Spawn, log: Log) -> None:
        self._routes: dict[int, Route] = {}
        self._spawn = spawn
        self._log = log
        self._lanes: dict[int, Lane] = {}

    def add(self, routes: Iterable[Route]) -> None:
        """Serve these APIs, too."""
        self._routes.update({int(route.key): route for route in routes})

    @property
    def lanes(self) -> Iterable[Lane]:
        """Every (API, version) that was asked for so far."""
        return self._lanes.values()

    def serve(self, peer: Peer, frame: memoryview) -> Parts | Pending | None:
        """Answer one request. Raises WireError when the connection must be closed."""
        try:
            lane = self._lanes[LANE_NUMBER.unpack_from(frame)[0]]
        except (struct.error, KeyError):
            lane = self._lane_of(frame)
            if lane.is_fallback:
                # An ApiVersions request from the future: its body cannot be read, and need not be.
                header, _ = read_request_header(frame)
                call = Call(lane, peer, header.correlation_id, header.client_id, None)
                return call.frame(lane.route.refuse(None, ErrorCode.UNSUPPORTED_VERSION))
        correlation_id, client_id, position = read_rest_of_header(frame, lane.header_version)
        body, _ = lane.decode(frame, position)
        lane.requests += 1
        call = Call(lane, peer, correlation_id, client_id, body)
        try:
            answer = lane.route.handle(call)
            if answer is None or type(answer) is Pending:
                return answer
            return call.frame(answer)
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence.
            return call.frame(self._refusal(call, error))

    def later(self, call: Call, work: Awaitable[Any], *, holds: bool = False) -> Pending:
        """Answer a call when `work`, which runs as a task of the broker's, has its message; None is no answer.

        With `holds` no request of the connection starts before `let_go` is called, or the answer is there.
        """
        pending = Pending()
        pending.holds = holds
        self._spawn(self._finish(call, work, pending))
        return pending

    async def _finish(self, call: Call, work: Awaitable[Any], pending: Pending) -> None:
        try:
            message = await work
            parts = None if message is None else call.frame(message)
        except AssertionError:
            raise
        except WireError as error:
            pending.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - the fence, for answers that come later.
            parts = call.frame(self._refusal(call, error))
        pending.holds = False
        pending.resolve(parts)

    def _refusal(self, call: Call, error: Exception) -> Any:
        lane = call.lane
        lane.errors += 1
        if isinstance(error, BrokerError):
            code = error.code
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._log.error(
                "request failed", api=lane.api.key.name, version=lane.version, peer=str(call.peer), exc_info=error
            )
        return lane.route.refuse(call.body, code)

    def _lane_of(self, frame: memoryview) -> Lane:
        """The lane of a request that is the first of its kind, or of no kind that is served."""
        if len(frame) < KEY_AND_VERSION.size:
            raise WireError(f"a request of {len(frame)} bytes is shorter than any request header")
        key, version = KEY_AND_VERSION.unpack_from(frame)
        api, route = APIS.get(key), self._routes.get(key)
        if api is None or route is None:
            raise WireError(f"API key {key} (version {version}) is not served")
        if not api.min_version <= version <= api.max_version:
            if api.key != ApiKey.API_VERSIONS:
                raise WireError(
                    f"{api.key.name} version {version} is not served: {api.min_version} to {api.max_version} are"
                )
            return Lane(
                api, 0, route, is_fallback=True
            )  # Not kept: a peer must not fill the table with versions it made up.
        lane = self._lanes[(key << 16) | version] = Lane(api, version, route)
        return lane
