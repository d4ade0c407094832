"""The application that uvicorn serves: from a request to its answer, and a line in the log.

    login ─► limits of size ─► route ─► rule ─► handler ─┬► answer
                                                         ├► Refusal: an error with its code
                                                         └► NotTheWriter: the request is forwarded

Of a request without a login no body is kept: those of all connections would fill the memory.

A registry that does not write may be behind: what is not found there is looked up again after it has read to the end
of the topic. So a schema that was registered through one registry is found through every other one.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sordini.registry.http import measures, schema_routes, server_routes, settings_routes, subject_routes
from sordini.registry.http.calls import Call, Operation, Place, Route, Routes, Rule, Visitor, place_of
from sordini.registry.http.forwarding import Forwarder
from sordini.registry.http.logins import ANYONE
from sordini.registry.http.measures import Measures
from sordini.registry.http.responses import ACCEPTED, Answer, granted, kind_of, refused
from sordini.registry.ports import JournalFailed, NotTheWriter
from sordini.registry.registry import Registry
from sordini.registry.state.refusals import Refusal
from sordini.replication.ports import Logger
from sordini.system.named_tuple import NamedTuple
from sordini.system.rate_limits import RateLimit

BODY_BYTES_MAX: Final = 6 * 1024 * 1024
"""A schema of a million characters, most of them escaped."""
ADDRESS_BYTES_MAX: Final = 8 * 1024
"""Of a path and a query each."""
LOGINS_PER_S: Final = 1.0
LOGINS_BURST: Final = 50
"""Logins of one address that are refused."""
_OPERATIONS: Final = {
    Rule.READ: Operation.READ,
    Rule.WRITE: Operation.WRITE,
    Rule.DELETE: Operation.DELETE,
    Rule.ALTER: Operation.ALTER,
}
_HEADERS: Final = (("x-content-type-options", "nosniff"), ("cache-control", "no-store"))


class Logins(Protocol):
    """The port to those who know visitors."""

    async def visitor(self, headers: Mapping[str, str], attempt: Callable[[], None]) -> Visitor:
        """The sender of a request. Raises Refusal.

        `attempt` is called before a login that is not known yet, and raises Refusal where there were too many.
        """
        ...

    def close(self) -> None: ...


class Served(NamedTuple):
    """What the application serves."""

    registry: Registry
    logins: Logins
    forwarder: Forwarder
    measures: Measures
    log: Logger
    cluster_id: str
    is_ready: Callable[[], bool]
    """Whether the topic was read, and a registry that writes is known."""


class _Request(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    path: bytes
    query: bytes
    headers: dict[str, str]
    address: str
    body: bytes = b""


class _Outcome:
    """What is known of a request for its line in the log, more with each step."""

    def __init__(self) -> None:
        self.principal = ""
        self.path = measures.UNKNOWN
        self.is_change = False
        self.forwarded_to: str | None = None


class RegistryApplication:
    """An ASGI application."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._failed_logins = RateLimit(LOGINS_PER_S, LOGINS_BURST)
        self._routes = Routes(all_routes(served.cluster_id))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "uvicorn is started without lifespan and websockets"
        began_s = time.monotonic()
        request, outcome = _request(scope), _Outcome()
        kind = kind_of(request.headers.get("accept", ""))
        answer = self._probe(request)
        is_probe = answer is not None
        if answer is None:
            try:
                _check_address(request)
                visitor = await self._visitor(request)
                outcome.principal = visitor.principal
                request = request._replace(body=await _body(request, receive))
                answer = await self._answer(request, visitor, outcome, kind)
            except Refusal as refusal:
                answer = refused(refusal, kind)
            except JournalFailed as error:
                answer = refused(Refusal(50001, f"the topic cannot be read: {error}"), kind)
            except Exception as error:  # noqa: BLE001 - the fence: a mistake of ours, for the log and the client.
                where = traceback.format_exc(limit=-4)
                self._served.log.error("request failed", path=request.target, error=repr(error), where=where)  # noqa: TRY400 - with its place.
                answer = refused(Refusal(50001, "the registry made a mistake: its log has the reason"), kind)
        response = Response(answer.body, answer.status, dict((*_HEADERS, *answer.headers)), answer.kind)
        await response(scope, receive, send)
        seconds = time.monotonic() - began_s
        if not is_probe:
            self._served.measures.answered(request.method, outcome.path, answer.status, seconds)
            self._report(request, outcome, answer, seconds)

    async def _answer(self, request: _Request, visitor: Visitor, outcome: _Outcome, kind: str) -> Answer:
        place = place_of(request.path, request.query)
        route, params = self._routes.find(request.method, place.parts)
        outcome.path = route.path
        outcome.is_change = route.method != "GET" and route.rule not in (Rule.NOTHING, Rule.READ)
        call = self._call(request, visitor, place)
        call.params = params
        try:
            value = await self._handled(route, call)
        except NotTheWriter as error:
            if error.writer is None:
                raise Refusal(50004, "Unknown leader: no registry is elected to write at present") from None
            outcome.forwarded_to = error.writer
            return await self._served.forwarder.forward(
                error.writer, request.method, request.target, request.headers, request.body
            )
        return granted(value, kind)

    async def _handled(self, route: Route, call: Call) -> Any:
        await _check(route, call)
        try:
            return await route.handler(call)
        except Refusal as refusal:
            is_read = route.rule in (Rule.NOTHING, Rule.READ)
            if refusal.status != 404 or not is_read or self._served.registry.journal.is_writer:
                raise
        await self._served.registry.journal.wait_until_current()
        call = call.again()
        await _check(route, call)  # An alias may be that of another subject now.
        return await route.handler(call)

    async def _visitor(self, request: _Request) -> Visitor:
        """Failed logins of an address are limited; one that is known is none, however many requests come at once."""
        has_attempted = False

        def attempt() -> None:
            nonlocal has_attempted
            has_attempted = True
            if not self._failed_logins.is_allowed(request.address, time.monotonic()):
                raise Refusal(42901, "too many logins of this address were refused: try again later")

        try:
            visitor = await self._served.logins.visitor(request.headers, attempt)
        except Refusal:
            if not has_attempted:
                attempt()
            raise
        if has_attempted:
            self._failed_logins.give_back(request.address)
        return visitor

    def _call(self, request: _Request, visitor: Visitor, place: Place) -> Call:
        client = request.address if visitor.principal == ANYONE else visitor.principal
        return Call(self._served.registry, visitor, client, place, request.headers, request.body)

    def _probe(self, request: _Request) -> Answer | None:
        """The answers that need no login."""
        match request.path:
            case b"/healthz":
                return Answer(200, b"ok\n", "text/plain")
            case b"/readyz":
                return Answer(200, b"ready\n", "text/plain") if self._served.is_ready() else _NOT_READY
            case b"/metrics":
                return Answer(200, self._served.measures.text().encode(), measures.CONTENT_TYPE)
        return None

    def _report(self, request: _Request, outcome: _Outcome, answer: Answer, seconds: float) -> None:
        """A line for each request, and one of another name for each change: who, what, from where, and its end."""
        fields: dict[str, Any] = {
            "method": request.method,
            "path": request.target,
            "status": answer.status,
            "ms": round(seconds * 1000, 1),
            "address": request.address,
        }
        if outcome.principal:
            fields["principal"] = outcome.principal
        if outcome.forwarded_to is not None:
            fields["forwarded_to"] = outcome.forwarded_to
        self._served.log.info("registry change" if outcome.is_change else "registry request", **fields)


_NOT_READY: Final = Answer(503, b"the topic is not read yet, or no registry is elected to write\n", "text/plain")


def all_routes(cluster_id: str) -> list[Route]:
    """Every address that is served."""
    rooms = (subject_routes, schema_routes, settings_routes)
    return [*(route for room in rooms for route in room.routes()), *server_routes.routes(cluster_id)]


async def _check(route: Route, call: Call) -> None:
    """Whether the visitor may do what the route does. Raises Refusal."""
    if route.rule is Rule.NOTHING:
        return
    if route.rule is Rule.ALTER_ALL or (route.rule is Rule.ALTER and not call.is_of_one_subject):
        if not await call.visitor.may_alter_all():
            raise Refusal(40301, f"{call.visitor.principal} may not change settings of all subjects")
        return
    operation = _OPERATIONS[route.rule]
    subject = (call.scope or "") if "scope" in call.params else call.subject
    if subject not in await call.visitor.allowed(operation, [subject]):
        raise Refusal(40301, f"{call.visitor.principal} is not allowed {operation.name} of subject {subject}")


def _request(scope: Scope) -> _Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    path, query = scope.get("raw_path") or b"/", scope.get("query_string", b"")
    target = (path + b"?" + query if query else path).decode("latin-1")
    client = scope.get("client")
    return _Request(scope["method"], target, path, query, headers, str(client[0]) if client else "")


def _check_address(request: _Request) -> None:
    if max(len(request.path), len(request.query)) > ADDRESS_BYTES_MAX:
        raise Refusal(414, f"the address is longer than {ADDRESS_BYTES_MAX} bytes")


async def _body(request: _Request, receive: Receive) -> bytes:
    """The whole body. Raises Refusal for one that is too large, or of a kind that is not read."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(400, "the client closed the connection before the end of its request")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_BYTES_MAX:
            raise Refusal(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
        if not message.get("more_body"):
            break
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if size and kind not in ACCEPTED:
        raise Refusal(415, f"HTTP 415 Unsupported Media Type: allowed are {', '.join(sorted(ACCEPTED - {''}))}")
    return b"".join(parts)
