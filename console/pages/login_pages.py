"""Log in and out: by a user of the cluster, or by the token that the console printed or was given."""

from __future__ import annotations

import asyncio
import hmac
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from sordini.client.errors import ClientError, Unauthorized
from sordini.console.security.login_gate import read_form
from sordini.console.security.request_limits import address_of
from sordini.console.security.sessions import LIFETIME_S, Session
from sordini.console.visit import CSRF, Console

ANY_VISITOR: Final = "(by token)"
"""Under which a visitor with the token is known: all of them are the console's own principal to the cluster."""
NAME_CHARACTERS_MAX: Final = 255
PASSWORD_CHARACTERS_MAX: Final = 4096


def routes(console: Console) -> list[Route]:
    pages = LoginPages(console)
    return [
        Route("/login", pages.form, methods=["GET"]),
        Route("/login", pages.log_in, methods=["POST"]),
        Route("/logout", pages.log_out, methods=["POST"]),
    ]


class LoginPages:
    """The pages without a session."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def form(self, request: Request) -> Response:
        """The form; with the token in the query, as the console prints its address, a login."""
        if self._console.access.sasl_mechanism is None and "token" in request.query_params:
            return await self._by_token(request, request.query_params["token"])
        return self._page()

    async def log_in(self, request: Request) -> Response:
        form, refusal = await read_form(request)
        if refusal is not None:
            return refusal
        if self._console.access.sasl_mechanism is None:
            return await self._by_token(request, form.get("token", "").strip())
        return await self._by_user(request, form.get("username", ""), form.get("password", ""))

    async def log_out(self, request: Request) -> Response:
        form, refusal = await read_form(request)
        if refusal is not None:
            return refusal
        session = self._console.sessions.find(request.cookies.get(self._console.cookie, ""), _now_s())
        if session is not None:
            if not self._console.tokens.is_valid(form.get(CSRF, ""), CSRF, session.key):
                return PlainTextResponse("The form is not one of this session.\n", 403)
            self._console.sessions.end(session)
            self._log(request, "console logout", session.principal)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self._console.cookie, path="/", secure=self._console.settings.has_tls, httponly=True)
        return response

    async def _by_token(self, request: Request, given: str) -> Response:
        if not self._may_try(request):
            return self._page("Too many attempts: wait a minute.", 429)
        if not hmac.compare_digest(given.encode(errors="surrogatepass"), self._console.token.encode()):
            self._log(request, "console login failed", ANY_VISITOR)
            return self._page("That is not the token of this console.", 403)
        return self._begun(request, self._console.sessions.begin(ANY_VISITOR, None, _now_s()))

    async def _by_user(self, request: Request, username: str, password: str) -> Response:
        if not self._may_try(request):
            return self._page("Too many attempts: wait a minute.", 429)
        if not 0 < len(username) <= NAME_CHARACTERS_MAX or not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
            return self._page("Give a name and a password of the cluster.", 400)
        try:
            await self._console.access.check(username, password)
        except Unauthorized:
            self._log(request, "console login failed", username)
            return self._page("The cluster refuses that name or that password.", 403)
        except ClientError as error:
            return self._page(f"The cluster cannot be asked: {error}", 502)
        return self._begun(request, self._console.sessions.begin(username, password, _now_s()))

    def _begun(self, request: Request, session: Session) -> Response:
        former = self._console.sessions.find(request.cookies.get(self._console.cookie, ""), _now_s())
        if former is not None:
            self._console.sessions.end(former)
        self._console.logins.give_back(address_of(request.scope))
        self._log(request, "console login", session.principal)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self._console.cookie,
            session.key,
            max_age=int(LIFETIME_S),
            path="/",
            secure=self._console.settings.has_tls,
            httponly=True,
            samesite="strict",
        )
        return response

    def _may_try(self, request: Request) -> bool:
        return self._console.logins.is_allowed(address_of(request.scope), _now_s())

    def _page(self, problem: str | None = None, status: int = 200) -> Response:
        values = {
            "problem": problem,
            "mechanism": self._console.access.sasl_mechanism,
            "bootstrap": self._console.access.bootstrap,
        }
        return HTMLResponse(self._console.render("login.html", values), status)

    def _log(self, request: Request, event: str, principal: str) -> None:
        self._console.log.info(event, principal=principal, address=address_of(request.scope))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
