"""What a handler is and gets: the route of an API, the API in one version, and one call of it.

A `Route` carries the handler of an API and the rule of authorization in front of it. A `VersionedApi` is one API in one
version, with its compiled decoder and encoder. A `Call` is one request; it encodes its response.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, release_parts
from sordini.broker.requests.decoding_costs import ANSWER_BYTES_MAX
from sordini.broker.requests.finished_work import finished
from sordini.broker.requests.prepared_requests import Preparer
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.headers import request_header_version
from sordini.protocol.served_apis import Api
from sordini.system.named_tuple import NamedTuple

SIZE_AND_CORRELATION = struct.Struct(">ii")


class RespondLater(Protocol):
    """`Dispatcher.respond_later`, as handlers use it."""

    def __call__(self, call: Call, work: Awaitable[Any], *, blocks_pipeline: bool = False) -> DelayedResponse: ...


class AuthorizationRule(Protocol):
    """What a peer must be allowed before an API is served to it (`broker/security/rules`)."""

    @property
    def meaning(self) -> str:
        """The rule in words, for docs/security.md."""

    def check(self, call: Call, deps: Any) -> Work[Any]:
        """Take what is not allowed out of the request; `deps` is the `RuleDeps` of the broker.

        Returns None for the handler to serve the rest, or the response where nothing is left. Raises BrokerError to
        refuse the whole request.
        """


class Route(NamedTuple):
    """The handler of one API, and its rule of authorization.

    `handle(call)` returns the response message, a DelayedResponse, bytes encoded before (`EncodedBody`) or None for no
    response at all; or a generator that yields the steps it has made and returns one of these. Between two steps
    other requests are served, and the generator may be closed when its connection closes.
    `error_response(body, code)` makes the response that reports `code` for the whole request.
    `rule` says what a peer must be allowed; there is no default, so that no API can be served without a decision.
    """

    key: ApiKey
    handle: Callable[[Call], Any]
    error_response: Callable[[Any, ErrorCode], Any]
    rule: AuthorizationRule | None


OPEN: Final = None
"""In place of a rule: served to every peer that may connect, since it comes before or with the login."""


class EncodedBody(bytes):
    """The whole body of a response, encoded before."""

    __slots__ = ()


class VersionedApi:
    """One API in one version: compiled functions, the handler, and plain counters that the exporter reads."""

    __slots__ = (
        "api",
        "continue_in_slices",
        "decode",
        "encode",
        "errors",
        "flexible_answer",
        "frame_of_failure",
        "header_version",
        "is_fallback",
        "number",
        "preparer",
        "requests",
        "route",
        "version",
    )

    def __init__(self, api: Api, version: int, route: Route, *, is_fallback: bool = False) -> None:
        """`is_fallback`: requests of a version newer than any served are answered in this one."""
        self.api = api
        self.version = version
        self.route = route
        self.decode = codecs.decoder(api.request, version)
        self.encode = codecs.encoder(api.response, version)
        # A client reads the response to ApiVersions before it knows the broker's versions: its header has no tags.
        self.flexible_answer = version >= api.flexible_from and api.key != ApiKey.API_VERSIONS
        self.header_version = request_header_version(api, version)
        self.is_fallback = is_fallback
        self.number = (api.key << 16) | version
        self.preparer: Preparer | None = None
        self.requests = 0
        self.errors = 0
        self.continue_in_slices: Callable[[Call, Work[Any], DelayedResponse], object] = _no_dispatcher
        """Completes a call's response by work done in slices; set by the dispatcher."""
        self.frame_of_failure: Callable[[Call, Exception], Parts] = _no_fence
        """The response to a call that failed, by the fence; set by the dispatcher."""


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
        # Room for size, correlation id and no tags: packed in at the end, so that the body is not copied behind them.
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
            for steps in codecs.encoder_in_steps(versioned.api.response, versioned.version)(message, out, slices):
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
        """Complete a delayed response of this call.

        The caller may be a task that completes the responses of many: one that cannot be encoded is its call's failure.
        """
        try:
            parts = None if message is None else self.frame(message)
        except AssertionError:
            raise
        except WireError as error:
            pending.fail(error)
            return
        except Exception as error:  # noqa: BLE001 - the fence.
            parts = self.versioned_api.frame_of_failure(self, error)
        pending.resolve(parts)

    def complete_by(self, pending: DelayedResponse, work: Work[Any]) -> None:
        """Complete a delayed response of this call with the message that `work`, done in slices, returns."""
        pending.blocks_pipeline = True
        self.versioned_api.continue_in_slices(self, work, pending)

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
        self.versioned_api.continue_in_slices(self, finished(message), pending)


def _no_dispatcher(_call: Call, work: Work[Any], _pending: DelayedResponse) -> None:
    """Without a dispatcher nothing is done."""
    work.close()


def _no_fence(_call: Call, error: Exception) -> Parts:
    """Without a dispatcher the caller gets the exception."""
    raise error
