"""From a request's bytes to its handler, and from the handler's response to bytes.

This is the broker's one fence: an exception of a handler becomes an error code in the response of that request, or
the end of that connection, and affects no other request. A `VersionedApi` (one API in one version) is found by the
first four bytes of the frame and keeps the compiled decoder and encoder, so a request costs one dictionary look-up.

Long work is done in slices (`slice_scheduler.py`), between which other requests are served: decoding a request of many
elements, a handler that is a generator of steps, and encoding the response of either. A short request is answered at
once, without a task or a future.

Requests that are not served get Apache Kafka's own response: an unknown API or version closes the connection, and an
ApiVersions request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterable
from types import GeneratorType
from typing import Any, NamedTuple, Protocol, cast

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, release_parts
from sordini.broker.prepared.table import BODY_POSITION, Declined, PreparedRequests, Preparer
from sordini.broker.requests.decoding_costs import ANSWER_BYTES_MAX, COST_AT_ONCE, COST_BYTES, cost_max_of
from sordini.broker.requests.error_responses import error_response_in_steps
from sordini.broker.requests.finished_work import finished, no_result
from sordini.broker.requests.slice_scheduler import SliceExhausted, SliceScheduler, Work, first_slice
from sordini.broker.requests.store_error_codes import StoreErrorCodes
from sordini.protocol import schema
from sordini.protocol.api import ALL_APIS, Api, ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, MessageTooCostly, WireError
from sordini.protocol.headers import read_request_header, read_rest_of_header, request_header_version
from sordini.protocol.primitives import ROW_COST
from sordini.replication.ports import CoordinationError, Logger, Spawn

KEY_AND_VERSION = struct.Struct(">hh")
NUMBER_AND_CORRELATION = struct.Struct(">Ii")
"""API key and version as one number, the key of `Dispatcher`'s table; and the correlation id."""
SIZE_AND_CORRELATION = struct.Struct(">ii")


class RespondLater(Protocol):
    """`Dispatcher.respond_later`, as handlers use it."""

    def __call__(self, call: Call, work: Awaitable[Any], *, blocks_pipeline: bool = False) -> DelayedResponse: ...


class Route(NamedTuple):
    """The handler of one API.

    `handle(call)` returns the response message, a DelayedResponse, bytes encoded before (`EncodedBody`) or None for no
    response at all; or a generator that yields the steps it has made and returns one of these. Between two steps
    other requests are served, and the generator may be closed when its connection closes.
    `error_response(body, code)` makes the response that reports `code` for the whole request.
    """

    key: ApiKey
    handle: Callable[[Call], Any]
    error_response: Callable[[Any, ErrorCode], Any]


class EncodedBody(bytes):
    """The whole body of a response, encoded before."""

    __slots__ = ()


class VersionedApi:
    """One API in one version: compiled functions, the handler, and plain counters that the exporter reads."""

    __slots__ = (
        "api",
        "decode",
        "encode",
        "errors",
        "flexible_answer",
        "header_version",
        "is_fallback",
        "number",
        "preparer",
        "requests",
        "route",
        "version",
        "work_off",
    )

    def __init__(self, api: Api, version: int, route: Route, *, is_fallback: bool = False) -> None:
        """`is_fallback`: requests of a version newer than any served are answered in this one."""
        self.api = api
        self.version = version
        self.route = route
        self.decode = schema.decoder(api.request, version)
        self.encode = schema.encoder(api.response, version)
        # A client reads the response to ApiVersions before it knows the broker's versions: its header has no tags.
        self.flexible_answer = version >= api.flexible_from and api.key != ApiKey.API_VERSIONS
        self.header_version = request_header_version(api, version)
        self.is_fallback = is_fallback
        self.number = (api.key << 16) | version
        self.preparer: Preparer | None = None
        self.requests = 0
        self.errors = 0
        self.work_off: Callable[[Call, DelayedResponse, Work[Any]], None] = _no_dispatcher
        """Completes a call's response by work done in slices; set by the dispatcher."""


class Call:
    """One request, as its handler gets it."""

    __slots__ = ("amend", "body", "client_id", "correlation_id", "peer", "version", "versioned_api")

    def __init__(
        self, versioned_api: VersionedApi, peer: Peer, correlation_id: int, client_id: str | None, body: Any
    ) -> None:
        self.versioned_api = versioned_api
        self.peer = peer
        self.version = versioned_api.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.amend: Callable[[Any], Any] | None = None  # Adds rows to the response for what was refused before.

    def frame(self, message: Any) -> Parts:
        """Encode a response into a whole frame: its size, its header, its body, and slices of files in between."""
        message = message if self.amend is None else self.amend(message)
        versioned = self.versioned_api
        out = bytearray(9 if versioned.flexible_answer else 8)
        slices: list[tuple[int, Any]] = []
        if type(message) is EncodedBody:
            out += message
        else:
            try:
                versioned.encode(message, out, slices)
            except BaseException:
                release_parts([piece for _, piece in slices])
                raise
        if not slices:
            SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, self.correlation_id)
            return [out]
        return self._framed(out, slices)

    def frame_in_steps(self, message: Any) -> Work[Parts]:
        """As `frame`; raises BrokerError INVALID_REQUEST for a response that is too large to be sent."""
        if type(message) is EncodedBody:
            return self.frame(message)
        message = message if self.amend is None else self.amend(message)
        versioned = self.versioned_api
        out = bytearray(9 if versioned.flexible_answer else 8)
        slices: list[tuple[int, Any]] = []
        try:
            for steps in schema.encoder_in_steps(versioned.api.response, versioned.version)(message, out, slices):
                if len(out) > ANSWER_BYTES_MAX:
                    raise BrokerError(
                        ErrorCode.INVALID_REQUEST, f"the response has more than {ANSWER_BYTES_MAX} bytes: request less"
                    )
                yield steps
        except BaseException:
            release_parts([piece for _, piece in slices])
            raise
        return self._framed(out, slices)

    def complete(self, pending: DelayedResponse, message: Any) -> None:
        """Complete a delayed response of this call."""
        pending.resolve(None if message is None else self.frame(message))

    def complete_by(self, pending: DelayedResponse, work: Work[Any]) -> None:
        """Complete a delayed response of this call with the message that `work`, done in slices, returns."""
        pending.blocks_pipeline = True
        self.versioned_api.work_off(self, pending, work)

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
    """A request of many elements: its response is always encoded in slices."""

    __slots__ = ()

    def complete(self, pending: DelayedResponse, message: Any) -> None:
        self.versioned_api.work_off(self, pending, finished(message))


class Dispatcher:
    """The service that the processors call, once per request."""

    def __init__(self, spawn: Spawn, log: Logger) -> None:
        self._routes: dict[int, Route] = {}
        self._spawn = spawn
        self._log = log
        self._versioned_apis: dict[int, VersionedApi] = {}
        self.slices = SliceScheduler()
        self.prepared = PreparedRequests()
        self.store_error_codes = StoreErrorCodes(log)

    def add(self, routes: Iterable[Route]) -> None:
        """Serve these APIs, too."""
        self._routes.update({int(route.key): route for route in routes})

    @property
    def versioned_apis(self) -> Iterable[VersionedApi]:
        """Every API and version requested so far."""
        return self._versioned_apis.values()

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        """Answer one request. Raises WireError when the connection must be closed."""
        try:
            number, correlation_id = NUMBER_AND_CORRELATION.unpack_from(frame)
            versioned = self._versioned_apis[number]
        except (struct.error, KeyError):
            versioned = self._versioned_api_of(frame)
            if versioned.is_fallback:
                # An ApiVersions request of an unknown version: its body cannot be read, and need not be.
                header, _ = read_request_header(frame)
                call = Call(versioned, peer, header.correlation_id, header.client_id, None)
                return call.frame(versioned.route.error_response(None, ErrorCode.UNSUPPORTED_VERSION))
        preparer = versioned.preparer
        if preparer is not None:
            for end in peer.prefix_ends:
                prepared = self.prepared.by_prefix.get((versioned.number, bytes(frame[BODY_POSITION:end])))
                if prepared is not None:
                    served = prepared.serve(peer, frame, correlation_id)
                    if not isinstance(served, Declined):
                        return served
                    if served is Declined.UNUSUAL:
                        preparer = None  # It is prepared already.
                    break
        correlation_id, client_id, position = read_rest_of_header(frame, versioned.header_version)
        try:
            body, _ = versioned.decode(frame, position, COST_AT_ONCE)
        except MessageTooCostly:
            pending = DelayedResponse()
            pending.blocks_pipeline = True
            return self._in_slices(
                pending, self._long(versioned, peer, correlation_id, client_id, frame[position:], pending)
            )
        versioned.requests += 1
        call = Call(versioned, peer, correlation_id, client_id, body)
        try:
            answer = versioned.route.handle(call)
            kind = type(answer)
            if kind is GeneratorType:
                answer = self._begun(call, answer)
                kind = type(answer)
            if preparer is not None:
                self.prepared.learn(preparer, peer, versioned.number, frame, call)
            if answer is None or kind is DelayedResponse:
                return cast("DelayedResponse | None", answer)
            return call.frame(answer)
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence.
            return self.error_frame(call, error)

    def error_frame(self, call: Call, error: Exception) -> Parts:
        """The response to a call whose handling raised."""
        return call.frame(self._error_response(call, error))

    def respond_later(self, call: Call, work: Awaitable[Any], *, blocks_pipeline: bool = False) -> DelayedResponse:
        """Answer a call with the message that `work`, run as a task of the broker, returns; None is no response.

        With `blocks_pipeline` no further request of the connection starts before `unblock_pipeline` is called, or the
        response is complete.
        """
        pending = DelayedResponse()
        pending.blocks_pipeline = blocks_pipeline
        self._spawn(self._finish(call, work, pending))
        return pending

    async def _finish(self, call: Call, work: Awaitable[Any], pending: DelayedResponse) -> None:
        try:
            try:
                message = await work
                parts = None if message is None else await self.slices.run(call.frame_in_steps(message))
            except (WireError, AssertionError):
                raise
            except Exception as error:  # noqa: BLE001 - the fence, for delayed responses.
                parts = await self.slices.run(self._error_parts(call, error))
        except WireError as error:
            pending.fail(error)
            return
        pending.blocks_pipeline = False
        pending.resolve(parts)

    def _begun(self, call: Call, work: Work[Any]) -> Any:
        """What a handler's work returns, or a delayed response when it takes more than a slice."""
        try:
            return first_slice(work)
        except SliceExhausted:
            pending = DelayedResponse()
            pending.blocks_pipeline = True
            return self._in_slices(pending, self._answered(call, work, pending))

    def _long(
        self,
        versioned: VersionedApi,
        peer: Peer,
        correlation_id: int,
        client_id: str | None,
        body: memoryview,
        pending: DelayedResponse,
    ) -> Work[None]:
        """A request with many elements, from its first byte to its response."""
        bound = cost_max_of(versioned.api) * max(len(body), COST_BYTES) // COST_BYTES
        try:
            decode = schema.decoder_in_steps(versioned.api.request, versioned.version)
            message, _ = yield from decode(body, 0, bound)
        except MessageTooCostly as error:
            rows = cost_max_of(versioned.api) // ROW_COST
            raise MessageTooCostly(f"{error}: {rows} rows are allowed for each {COST_BYTES} bytes") from None
        versioned.requests += 1
        call = LongCall(versioned, peer, correlation_id, client_id, message)
        yield from self._answered(call, _handled(versioned.route, call), pending)

    def _answered(self, call: Call, work: Work[Any], pending: DelayedResponse) -> Work[None]:
        """Finish a handler's work, and encode its response."""
        try:
            answer = yield from work
            if type(answer) is DelayedResponse:
                answer.forward_to(pending)
                return
            parts = None if answer is None else (yield from call.frame_in_steps(answer))
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - the fence, for what is done in slices.
            parts = yield from self._error_parts(call, error)
        pending.resolve(parts)

    def _work_off(self, call: Call, pending: DelayedResponse, work: Work[Any]) -> None:
        self._in_slices(pending, self._answered(call, work, pending))

    def _in_slices(self, pending: DelayedResponse, work: Work[None]) -> DelayedResponse:
        """Do the work that completes a delayed response; it is cancelled when the connection closes."""
        task = self.slices.add(work, no_result, pending.fail)
        pending.on_abandon, pending.time_ns = task.cancel, task.time_ns
        return pending

    def _error_parts(self, call: Call, error: Exception) -> Work[Parts]:
        code = self._code_of(call, error)
        message = yield from error_response_in_steps(call.versioned_api.route.error_response, call.body, code)
        return (yield from call.frame_in_steps(message))

    def _error_response(self, call: Call, error: Exception) -> Any:
        return call.versioned_api.route.error_response(call.body, self._code_of(call, error))

    def _code_of(self, call: Call, error: Exception) -> ErrorCode:
        versioned = call.versioned_api
        versioned.errors += 1
        if isinstance(error, BrokerError):
            return error.code
        if isinstance(error, CoordinationError):
            return self.store_error_codes.code(versioned.api.key, error)
        self._log.error(
            "request failed", api=versioned.api.key.name, version=versioned.version, peer=str(call.peer), exc_info=error
        )
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def _versioned_api_of(self, frame: memoryview) -> VersionedApi:
        """For the first request of an API and version, or one that is not served; raises WireError for the latter."""
        if len(frame) < KEY_AND_VERSION.size:
            raise WireError(f"a request of {len(frame)} bytes is shorter than any request header")
        key, version = KEY_AND_VERSION.unpack_from(frame)
        api, route = ALL_APIS.get(key), self._routes.get(key)
        if api is None or route is None:
            raise WireError(f"API key {key} (version {version}) is not served")
        if not api.min_version <= version <= api.max_version:
            if api.key != ApiKey.API_VERSIONS:
                raise WireError(
                    f"{api.key.name} version {version} is not served: {api.min_version} to {api.max_version} are"
                )
            # Not kept: a peer must not fill the table with versions that do not exist.
            return VersionedApi(api, 0, route, is_fallback=True)
        versioned = VersionedApi(api, version, route)
        versioned.work_off = self._work_off
        versioned.preparer = self.prepared.preparers.get(api.key)
        self._versioned_apis[versioned.number] = versioned
        return versioned


def _no_dispatcher(_call: Call, _pending: DelayedResponse, work: Work[Any]) -> None:
    """Without a dispatcher nothing is done."""
    work.close()


def _handled(route: Route, call: Call) -> Work[Any]:
    """What a handler returns, in steps or at once."""
    answer = route.handle(call)
    return (yield from answer) if type(answer) is GeneratorType else answer
