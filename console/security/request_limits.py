"""The first that sees a request, as ASGI middleware: is it for this console, not too often, not too large?

Every response gets the headers that keep the browser from running, framing or caching what it should not. There is no
inline script and no inline style anywhere: the policy allows neither, so text of a record that became markup by a
mistake of ours would still not run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sordini.console.settings import ConsoleSettings, is_host_allowed
from sordini.system.rate_limits import RateLimit

BODY_BYTES_MAX: Final = 1024 * 1024 + 64 * 1024
"""A record of a mebibyte, and the other fields of its form."""
QUERY_BYTES_MAX: Final = 8 * 1024
REQUESTS_PER_S: Final = 50.0
REQUESTS_BURST: Final = 400
"""Of one address: pages with their parts, of several windows at once."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),  # With none at all, browsers send forms with "Origin: null".
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), usb=()"),
)
_TLS_ONLY: Final = ("strict-transport-security", "max-age=31536000")
_UNCACHED: Final = ("cache-control", "no-store")


class RequestLimits:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings, now_s: Callable[[], float]) -> None:
        self._app = app
        self._settings = settings
        self._now_s = now_s
        self._rate = RateLimit(REQUESTS_PER_S, REQUESTS_BURST)
        fixed = [*HEADERS, *([_TLS_ONLY] if settings.has_tls else [])]
        self._headers = [(name.encode(), value.encode()) for name, value in fixed]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_cache = scope["path"].startswith("/static/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: list[tuple[bytes, bytes]] = [*message.get("headers", ()), *self._headers]
                if not has_cache:
                    headers.append((_UNCACHED[0].encode(), _UNCACHED[1].encode()))
                message["headers"] = headers
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _bounded(receive), send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not is_host_allowed(host, self._settings):
            return PlainTextResponse("This console is not reached under that name (see --host-name).\n", 421)
        address = address_of(scope)
        if not self._rate.is_allowed(address, self._now_s()):
            return PlainTextResponse("Too many requests from this address.\n", 429, {"retry-after": "5"})
        if len(scope.get("query_string", b"")) > QUERY_BYTES_MAX:
            return PlainTextResponse(f"The query is longer than {QUERY_BYTES_MAX} bytes.\n", 414)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            return PlainTextResponse(f"The body is larger than {BODY_BYTES_MAX} bytes.\n", 413)
        return None


class BodyTooLarge(Exception):
    """A body without a length went beyond the limit."""


def _bounded(receive: Receive) -> Receive:
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES_MAX:
            raise BodyTooLarge
        return message

    return bounded


def address_of(scope: Any) -> str:
    """The peer's address; a proxy's, where one is before the console."""
    client = scope.get("client")
    return str(client[0]) if client else ""
