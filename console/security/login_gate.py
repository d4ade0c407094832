"""From a route to its page: session, form, CSRF and read-only before it, and what it raises becomes a page after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from sordini.admin.failure import Failure
from sordini.client.errors import ClientError, NotServed, Refused, Unauthorized
from sordini.console.security.request_limits import BodyTooLarge
from sordini.console.visit import CSRF, Console, Visit, WrongInput
from sordini.protocol.errors import ErrorCode

Page = Callable[[Visit], Awaitable[Response]]

PAGE_S: Final = 25.0
"""For all requests of a page to the cluster."""
FIELDS_MAX: Final = 100
_FORBIDDEN: Final = frozenset(code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED"))
_NOT_FOUND: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
)


class LoginGate:
    """Makes the routes of one console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def get(self, where: str, page: Page) -> Route:
        """A page."""

        async def endpoint(request: Request) -> Response:
            session = self._console.sessions.find(self._cookie(request), _now_s())
            if session is None:
                return self._to_login(request)
            return await self._run(Visit(request, self._console, session, {}), page)

        return Route(where, endpoint, methods=["GET"])

    def post(self, where: str, page: Page, *, changes: bool = True) -> Route:
        """What a form does. One that `changes` the cluster is refused by a console that is read-only."""

        async def endpoint(request: Request) -> Response:
            session = self._console.sessions.find(self._cookie(request), _now_s())
            if session is None:
                return self._to_login(request)
            form, refusal = await read_form(request)
            if refusal is not None:
                return refusal
            visit = Visit(request, self._console, session, form)
            if not self._console.tokens.is_valid(form.get(CSRF, ""), CSRF, session.key):
                return PlainTextResponse("The form is not one of this session: open the page again.\n", 403)
            if changes and self._console.settings.read_only:
                visit.audit(where, "refused: read-only")
                return _error_page(visit, "This console is read-only", 403)
            return await self._run(visit, page)

        return Route(where, endpoint, methods=["POST"])

    def _cookie(self, request: Request) -> str:
        return request.cookies.get(self._console.cookie, "")

    @staticmethod
    def _to_login(request: Request) -> Response:
        if request.headers.get("hx-request") or "text/event-stream" in request.headers.get("accept", ""):
            return PlainTextResponse("The session is over: log in again.\n", 401)
        return RedirectResponse("/login", 303)

    @staticmethod
    async def _run(visit: Visit, page: Page) -> Response:
        try:
            async with asyncio.timeout(PAGE_S):
                return await page(visit)
        except WrongInput as error:
            return _error_page(visit, str(error), 400)
        except ClientError as error:
            return _error_page(visit, "\n".join(map(str, error.args)), _status(error))
        except TimeoutError:
            problem = visit.cluster.problem or "it did not answer"
            return _error_page(visit, f"The cluster took longer than {PAGE_S:g} s: {problem}", 504)


async def read_form(request: Request) -> tuple[dict[str, str], Response | None]:
    """The fields of a POST, or what refuses it: one of another site, or one that is too large."""
    if not is_same_site(request):
        return {}, PlainTextResponse("The form is of another site.\n", 403)
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return {}, PlainTextResponse("Allowed is application/x-www-form-urlencoded.\n", 415)
    try:
        body = await request.body()
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict"))
    except BodyTooLarge:
        return {}, PlainTextResponse("The body is too large.\n", 413)
    except ValueError:  # No UTF-8, or too many fields.
        return {}, PlainTextResponse(f"Allowed are {FIELDS_MAX} fields in UTF-8.\n", 400)
    return fields, None


def is_same_site(request: Request) -> bool:
    """Whether a browser says that the request is of a page of ours; programs say nothing."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _status(error: ClientError) -> int:
    match error:
        case Unauthorized():
            return 403
        case Refused() if error.code in _FORBIDDEN:
            return 403
        case Refused() if error.code in _NOT_FOUND:
            return 404
        case Refused() | Failure():
            return 409
        case NotServed():
            return 501
    return 502


def _error_page(visit: Visit, text: str, status: int) -> HTMLResponse:
    if visit.request.headers.get("hx-request"):
        return visit.part("parts/error.html", text=text)
    return visit.page("error.html", status, text=text, code=status)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
