"""One request of a logged-in visitor: what it asks for, whose it is, and what it is answered with.

`Console` is what all visits share. A page is a coroutine that takes a `Visit` and returns a response;
`security/login_gate.py` runs it, and turns what it raises into a page.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from sordini import __version__
from sordini.admin.cluster_client import ClusterClient
from sordini.broker.process.logging import ProcessLogger
from sordini.console.cluster_access import ClusterAccess
from sordini.console.formats import FILTERS, UNKNOWN, finalize, groups_path, path
from sordini.console.readers.changes import ChangeLog
from sordini.console.readers.cluster_state import ClusterState
from sordini.console.records.registered_schemas import RegisteredSchemas
from sordini.console.records.registry_logins import RegistryLogins
from sordini.console.security.form_tokens import FormTokens
from sordini.console.security.request_limits import address_of
from sordini.console.security.sessions import Session, Sessions
from sordini.console.settings import ConsoleSettings
from sordini.system.rate_limits import RateLimit

ROOM: Final = Path(__file__).resolve().parent
QUERY_CHARACTERS_MAX: Final = 2_000
"""Of one field of a query."""
LOGINS_PER_S: Final = 0.1
LOGINS_BURST: Final = 10
KEY_BYTES: Final = 32
CSRF: Final = "csrf"


class WrongInput(Exception):
    """A field of a query or a form is not valid; the text says what is allowed."""


def make_templates() -> jinja2.Environment:
    """The templates, in which every value is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= FILTERS
    made.globals |= {
        "path": path,
        "groups_path": groups_path,
        "unknown": UNKNOWN,
        "version": __version__,
        "assets": _assets(),
    }
    return made


def _assets() -> dict[str, str]:
    """The address of each file that pages name; it changes with the file, so that browsers may keep it."""
    return {
        file.name: f"/static/{file.name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
        for file in (ROOM / "static").iterdir()
    }


class Console:
    """What all visits share."""

    def __init__(self, settings: ConsoleSettings, access: ClusterAccess, log: ProcessLogger, token: str) -> None:
        """`token`: what visitors log in with where the cluster has no users for it."""
        self.schemas = settings.schemas
        self.registry = (
            None
            if settings.registry is None
            else RegistryLogins(settings.registry, as_visitors=settings.registry_as_visitors)
        )
        self.settings = settings
        self.access = access
        self.log = log
        self.token = token
        self.sessions = Sessions(lambda: os.urandom(KEY_BYTES).hex())
        self.tokens = FormTokens(os.urandom(KEY_BYTES))
        self.logins = RateLimit(LOGINS_PER_S, LOGINS_BURST)
        self.templates = make_templates()
        self.changes = ChangeLog()
        """Of all visitors, where they are one principal; else each session has its own."""
        self.stopping = asyncio.Event()
        """Live streams end then."""

    @property
    def cookie(self) -> str:
        """Its name: with TLS one that browsers take from this host and its root alone."""
        return "__Host-sordini_console" if self.settings.has_tls else "sordini_console"

    def stop(self) -> None:
        self.stopping.set()

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        return self.templates.get_template(template).render(values)


class Visit:
    """A request with its session; `form` has the fields of a POST."""

    def __init__(self, request: Request, console: Console, session: Session, form: Mapping[str, str]) -> None:
        self.request = request
        self.console = console
        self.session = session
        self.form = form

    @property
    def cluster(self) -> ClusterClient:
        """The client that is logged in as the visitor."""
        return self.console.access.of(self.session)

    @property
    def registered(self) -> RegisteredSchemas | None:
        """The schemas of the registry, as far as the visitor may see them; None without --registry."""
        return None if self.console.registry is None else self.console.registry.of(self.session)

    @property
    def changes(self) -> ChangeLog:
        """What was seen to change by those whom the cluster lets see the same."""
        return self.console.changes if self.console.access.sasl_mechanism is None else self.session.changes

    def compare(self, state: ClusterState, at_ms: int) -> None:
        """Compare what a visitor saw with the state before, where no watch does (`watch.py`)."""
        if self.changes is self.session.changes:
            self.changes.compare(state, at_ms)

    @property
    def csrf(self) -> str:
        return self.console.tokens.token(CSRF, self.session.key)

    def field(self, name: str, default: str = "") -> str:
        """A field of the form, else of the query. Raises WrongInput for one that is too long."""
        if name in self.form:
            return self.form[name]
        text = self.request.query_params.get(name, default)
        if len(text) > QUERY_CHARACTERS_MAX:
            raise WrongInput(f"{name} has {len(text)} characters: allowed are {QUERY_CHARACTERS_MAX}")
        return text

    def needed(self, name: str) -> str:
        """A field that must be there."""
        text = self.field(name)
        if not text:
            raise WrongInput(f"{name} is missing")
        return text

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number within bounds."""
        text = self.field(name).strip()
        if not text:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and lowest <= int(text) <= highest):
            raise WrongInput(f"{name} is {text!r}: allowed is a whole number from {lowest} to {highest}")
        return int(text)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of some words; the first is the default."""
        text = self.field(name) or allowed[0]
        if text not in allowed:
            raise WrongInput(f"{name} is {text!r}: allowed is one of {', '.join(allowed)}")
        return text

    def common(self) -> dict[str, Any]:
        """What every template may use."""
        return {
            "principal": self.session.principal,
            "csrf": self.csrf,
            "read_only": self.console.settings.read_only,
            "bootstrap": self.console.access.bootstrap,
            "has_registry": self.registered is not None,
            "here": self.request.url.path,
            "notices": [],
        }

    def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A whole page, with what the last change has to say."""
        common = self.common()
        common["notices"], self.session.notices = self.session.notices, []
        return HTMLResponse(self.console.render(template, common | values), status)

    def part(self, template: str, **values: Any) -> HTMLResponse:
        """A part of a page."""
        return HTMLResponse(self.console.render(template, self.common() | values))

    def markup(self, template: str, **values: Any) -> str:
        """The same as text, for a stream."""
        return self.console.render(template, self.common() | values)

    def go(self, base: str, notice: str | None = None, **query: Any) -> RedirectResponse:
        """To another page after a change, with a sentence that is shown there once."""
        if notice is not None:
            self.session.notices.append(notice)
        return RedirectResponse(path(base, **query), 303)

    def audit(self, action: str, outcome: str, **fields: Any) -> None:
        """One line in the log for a change that was requested."""
        self.console.log.info(
            "console change",
            principal=self.session.principal,
            address=address_of(self.request.scope),
            action=action,
            outcome=outcome,
            **fields,
        )
