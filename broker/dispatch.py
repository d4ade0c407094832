"""From a request's bytes to its handler, and from the handler's answer to bytes.

This is the broker's one fence: wherever a handler fails, here it becomes an error code in that request's answer, or
the end of that connection, and nothing else notices. A lane (one API in one version) is found by the first four
bytes of the frame and keeps the compiled decoder and encoder, so that a request costs one dictionary look-up.

What is long is done in slices (`slices.py`), beside which other requests are served: a request of so many elements that
reading it takes long, what a handler returns as a generator of steps, and the answer to either. A short request is
answered at once, without a task or a future.

Requests nobody serves get Apache Kafka's own answer: an unknown API or version closes the connection, and an
ApiVersions request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import GeneratorType
from typing import Any, Final, NamedTuple, cast

from sordini.broker.network.ports import Log, Parts, Peer, Pending, release_parts
from sordini.broker.requests.chained_answers import hand_over
from sordini.broker.requests.error_responses import refused_in_steps
from sordini.broker.requests.slice_scheduler import Slices, Unfinished, Work, first_slice
from sordini.broker.requests.store_error_codes import StoreRefusals
from sordini.protocol import schema
from sordini.protocol.api import APIS, BETWEEN_BROKERS, Api, ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, MessageTooCostly, WireError
from sordini.protocol.headers import read_request_header, read_rest_of_header, request_header_version
from sordini.protocol.primitives import ROW_COST
from sordini.replication.ports import CoordinationError

KEY_AND_VERSION = struct.Struct(">hh")
LANE_NUMBER = struct.Struct(">I")
SIZE_AND_CORRELATION = struct.Struct(">ii")

COST_AT_ONCE: Final = 2_000 * ROW_COST
"""What the elements of a request may count for that is read in one go."""
COST_MAX: Final = 50_000 * ROW_COST
"""What they may count for in a request of up to COST_BYTES; in a larger one as much for each COST_BYTES."""
COST_BYTES: Final = 1 << 20
BETWEEN_BROKERS_FACTOR: Final = 2
"""Requests of the controller may count for so much more: their rows are cheap, and must not be refused."""

ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
"""No answer in rows is larger: as much as a request may have by default, and as clients of librdkafka read."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]


class Route(NamedTuple):
    """What serves one API.

    `handle(call)` returns the answer's message, a Pending, ready bytes (`Encoded`) or None for no answer at all; or a
    generator that yields the steps it has made and returns one of these. Between two steps other requests are served,
    and it may be closed when its connection dies.
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
        "work_off",
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
        self.work_off: Callable[[Call, Pending, Work[Any]], None] = _no_dispatcher
        """Answers a call by work that is done in slices; its dispatcher's."""


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
        return self._framed(out, slices)

    def frame_in_steps(self, message: Any) -> Work[Parts]:
        """As `frame`; raises BrokerError INVALID_REQUEST for an answer that is too large to be given."""
        if type(message) is Encoded:
            return self.frame(message)
        lane = self.lane
        out = bytearray(9 if lane.flexible_answer else 8)
        slices: list[tuple[int, Any]] = []
        try:
            for steps in schema.encoder_in_steps(lane.api.response, lane.version)(message, out, slices):
                if len(out) > ANSWER_BYTES_MAX:
                    raise BrokerError(
                        ErrorCode.INVALID_REQUEST, f"the answer has more than {ANSWER_BYTES_MAX} bytes: ask for less"
                    )
                yield steps
        except BaseException:
            release_parts([piece for _, piece in slices])
            raise
        return self._framed(out, slices)

    def complete(self, pending: Pending, message: Any) -> None:
        """Resolve a pending answer of this call."""
        pending.resolve(None if message is None else self.frame(message))

    def complete_by(self, pending: Pending, work: Work[Any]) -> None:
        """Resolve a pending answer of this call with the message that comes of some work, which is done in slices."""
        pending.holds = True
        self.lane.work_off(self, pending, work)

    def _framed(self, out: bytearray, slices: list[tuple[int, Any]]) -> Parts:
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


class LongCall(Call):
    """A request of many elements: its answer is always encoded in slices."""

    __slots__ = ()

    def complete(self, pending: Pending, message: Any) -> None:
        self.lane.work_off(self, pending, _given(message))


class Dispatcher:
    """The service that the processors call, once per request."""

    def __init__(self, spawn: Spawn, log: Log) -> None:
        self._routes: dict[int, Route] = {}
        self._spawn = spawn
        self._log = log
        self._lanes: dict[int, Lane] = {}
        self.slices = Slices()
        self.store_refusals = StoreRefusals(log)

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
        try:
            body, _ = lane.decode(frame, position, COST_AT_ONCE)
        except MessageTooCostly:
            pending = Pending()
            pending.holds = True
            return self._in_slices(
                pending, self._long(lane, peer, correlation_id, client_id, frame[position:], pending)
            )
        lane.requests += 1
        call = Call(lane, peer, correlation_id, client_id, body)
        try:
            answer = lane.route.handle(call)
            kind = type(answer)
            if kind is GeneratorType:
                answer = self._begun(call, answer)
                kind = type(answer)
            if answer is None or kind is Pending:
                return cast("Pending | None", answer)
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
            parts = None if message is None else await self.slices.through(call.frame_in_steps(message))
        except AssertionError:
            raise
        except WireError as error:
            pending.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - the fence, for answers that come later.
            parts = await self.slices.through(self._refused(call, error))
        pending.holds = False
        pending.resolve(parts)

    def _begun(self, call: Call, work: Work[Any]) -> Any:
        """What a handler's work returns, or, when it is more than a slice, the promise of that."""
        try:
            return first_slice(work)
        except Unfinished:
            pending = Pending()
            pending.holds = True
            return self._in_slices(pending, self._answered(call, work, pending))

    def _long(
        self, lane: Lane, peer: Peer, correlation_id: int, client_id: str | None, body: memoryview, pending: Pending
    ) -> Work[None]:
        """A request with many elements, from its first byte to its answer."""
        bound = bound_of(lane.api) * max(len(body), COST_BYTES) // COST_BYTES
        try:
            message, _ = yield from schema.decoder_in_steps(lane.api.request, lane.version)(body, 0, bound)
        except MessageTooCostly as error:
            raise MessageTooCostly(
                f"{error}: {bound_of(lane.api) // ROW_COST} rows are allowed for each {COST_BYTES} bytes"
            ) from None
        lane.requests += 1
        call = LongCall(lane, peer, correlation_id, client_id, message)
        yield from self._answered(call, _handled(lane.route, call), pending)

    def _answered(self, call: Call, work: Work[Any], pending: Pending) -> Work[None]:
        """Finish a handler's work, and write its answer."""
        try:
            answer = yield from work
            if type(answer) is Pending:
                hand_over(answer, pending)
                return
            parts = None if answer is None else (yield from call.frame_in_steps(answer))
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence, for what is done in slices.
            parts = yield from self._refused(call, error)
        pending.resolve(parts)

    def _work_off(self, call: Call, pending: Pending, work: Work[Any]) -> None:
        self._in_slices(pending, self._answered(call, work, pending))

    def _in_slices(self, pending: Pending, work: Work[None]) -> Pending:
        """Do the work by which a pending answer is resolved; none of it any more when the connection dies."""
        pending.on_abandon = self.slices.add(work, _nothing, pending.fail).cancel
        return pending

    def _refused(self, call: Call, error: Exception) -> Work[Parts]:
        code = self._code_of(call, error)
        message = yield from refused_in_steps(call.lane.route.refuse, call.body, code)
        return (yield from call.frame_in_steps(message))

    def _refusal(self, call: Call, error: Exception) -> Any:
        return call.lane.route.refuse(call.body, self._code_of(call, error))

    def _code_of(self, call: Call, error: Exception) -> ErrorCode:
        lane = call.lane
        lane.errors += 1
        if isinstance(error, BrokerError):
            return error.code
        if isinstance(error, CoordinationError):
            return self.store_refusals.code(lane.api.key, error)
        self._log.error(
            "request failed", api=lane.api.key.name, version=lane.version, peer=str(call.peer), exc_info=error
        )
        return ErrorCode.UNKNOWN_SERVER_ERROR

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
        lane.work_off = self._work_off
        return lane


def bound_of(api: Api) -> int:
    """What the elements of a request of up to COST_BYTES may count for."""
    return COST_MAX * (BETWEEN_BROKERS_FACTOR if api.key in BETWEEN_BROKERS else 1)


def _no_dispatcher(_call: Call, _pending: Pending, work: Work[Any]) -> None:
    """Nothing is done for a lane by itself."""
    work.close()


def _handled(route: Route, call: Call) -> Work[Any]:
    """What a handler returns, in steps or at once."""
    answer = route.handle(call)
    return (yield from answer) if type(answer) is GeneratorType else answer


def _given(message: Any) -> Work[Any]:
    """A message that is there already."""
    yield 0
    return message


def _nothing(_result: None) -> None:
    """The work has resolved its answer itself."""
