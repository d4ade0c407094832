"""One request as a handler sees it, and the routes that lead there."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote

from sordini.registry.records import INT32_MAX
from sordini.registry.registry import Registry
from sordini.registry.state.names import (
    DEFAULT_CONTEXT,
    in_context,
    normalized_subject,
    parted,
    qualified,
)
from sordini.registry.state.refusals import Refusal
from sordini.system.named_tuple import NamedTuple

QUERY_FIELDS_MAX: Final = 100
DIGITS_MAX: Final = 10
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Of a surrogate pair, or the whole of one."""


class Operation(Enum):
    """What a visitor does with a subject, or with all of them."""

    READ = auto()
    WRITE = auto()
    DELETE = auto()
    ALTER = auto()
    """Of settings and modes."""


class Visitor(Protocol):
    """The sender of a request, which was logged in."""

    @property
    def principal(self) -> str: ...

    async def allowed(self, operation: Operation, subjects: Collection[str]) -> frozenset[str]:
        """The subjects among these with which it may do something. Raises Refusal."""
        ...

    async def may_alter_all(self) -> bool:
        """Whether it may change settings of all subjects. Raises Refusal."""
        ...


class Call:
    """A request; `params` are the parts of its path by name."""

    def __init__(
        self,
        registry: Registry,
        visitor: Visitor,
        client: str,
        place: Place,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        self.registry = registry
        self.visitor = visitor
        self.client = client
        """Its principal, or its address where there are none."""
        self.context = place.context
        self.params: dict[str, str] = {}
        self.headers = headers
        self._place = place
        self._body = body

    def again(self) -> Call:
        """The same request, of which nothing was looked up yet."""
        call = Call(self.registry, self.visitor, self.client, self._place, self.headers, self._body)
        call.params = self.params
        return call

    @cached_property
    def subject(self) -> str:
        """The subject of the path, in its context; of an alias the other one. Raises Refusal.

        It is looked up once: what was checked for a visitor is what the handler has.
        """
        return self.registry.state.named(self._written("subject"))

    @property
    def scope(self) -> str | None:
        """The subject of settings, where an alias is itself; or the context of the path, or None: all."""
        if "scope" in self.params:
            return self._written("scope")
        return None if self.context == DEFAULT_CONTEXT else qualified(self.context, "")

    @property
    def is_of_one_subject(self) -> bool:
        """Whether settings are those of a subject, and not of a context alone, such as `:.test:`. Raises Refusal."""
        return bool(parted(self.scope or "")[1])

    def _written(self, name: str) -> str:
        return normalized_subject(in_context(self.context, self.params[name]))

    def text(self, name: str, default: str | None = None) -> str | None:
        """A field of the query."""
        return self._place.query.get(name, [default])[-1]

    def texts(self, name: str) -> list[str]:
        """A field of the query that can be repeated."""
        return self._place.query.get(name, [])

    def flag(self, *names: str) -> bool:
        """Whether one of some fields of the query is true."""
        return any((self.text(name) or "").lower() == "true" for name in names)

    def number(self, name: str, default: int) -> int:
        """A whole number of the query. Raises Refusal."""
        return whole_number(self.text(name) or str(default), name)

    def json(self) -> dict[str, Any]:
        """The body. Raises Refusal."""
        try:
            text = self._body.decode(json.detect_encoding(self._body))
            found = json.loads(text)
            if _HALF.search(text):  # Other registries skip a record with half of a pair, and give its id again.
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise Refusal(400, f"the body is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise Refusal(400, "the body is no JSON object")
        return found


def whole_number(text: str, name: str) -> int:
    """A number of an address. Raises Refusal."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > DIGITS_MAX or int(digits) > INT32_MAX:
        raise Refusal(404, f"HTTP 404 Not Found: {name} is {text[:100]!r}, and no whole number")
    return int(text)


Handler = Callable[[Call], Awaitable[Any]]
"""Returns what is sent as JSON, a Text, or None: nothing is. Raises Refusal and NotTheWriter."""


class Rule(Enum):
    """What a visitor must be allowed before a handler is called."""

    NOTHING = auto()
    """The handler answers every visitor, or leaves out what it may not see."""
    READ = auto()
    """As the next ones, of the subject in the path."""
    WRITE = auto()
    DELETE = auto()
    ALTER = auto()
    ALTER_ALL = auto()
    """Of settings of all subjects, or of a context."""


class Route(NamedTuple):
    """A method and a path, whose parts in braces are parameters, and where it leads."""

    method: str
    path: str
    rule: Rule
    handler: Handler


class Place(NamedTuple):
    """The address of a request: its parts, decoded, and the context that they are in."""

    parts: tuple[str, ...]
    context: str
    query: dict[str, list[str]]


def place_of(raw_path: bytes, query: bytes) -> Place:
    """The address of a request. Raises Refusal.

    The path is parted before it is decoded, since a subject may contain a slash. `/contexts/.test/...` is the same as
    `/...` for the subjects of a context.
    """
    try:
        parts = tuple(unquote(part, errors="strict") for part in raw_path.decode("ascii").split("/") if part)
        fields = parse_qs(
            query.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"
        )
    except ValueError:
        raise Refusal(400, f"HTTP 400 Bad Request: allowed are UTF-8 and {QUERY_FIELDS_MAX} fields") from None
    if len(parts) > 2 and parts[0] == "contexts":
        return Place(parts[2:], parts[1].strip(":") or DEFAULT_CONTEXT, fields)
    return Place(parts, DEFAULT_CONTEXT, fields)


class Routes:
    """Finds the route of a request."""

    def __init__(self, routes: Collection[Route]) -> None:
        self._routes = [(route, tuple(part for part in route.path.split("/") if part)) for route in routes]

    def find(self, method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]]:
        """The route, and the parameters of its path. Raises Refusal."""
        others = False
        for route, pattern in self._routes:
            params = _match(pattern, parts)
            if params is not None:
                if route.method == ("GET" if method == "HEAD" else method):
                    return route, params
                others = True
        raise Refusal(405, "HTTP 405 Method Not Allowed") if others else Refusal(404, "HTTP 404 Not Found")


def _match(pattern: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    params = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            params[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return params
