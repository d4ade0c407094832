"""What a schema registry has: subjects, their versions and compatibility levels. Nothing is changed here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.schema_registry.registry_requests import RegistryClient, SubjectVersion
from sordini.client.errors import ClientError
from sordini.console.pages.paging import Paging
from sordini.console.records import decoders
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit, WrongInput
from sordini.system.named_tuple import NamedTuple

PAGE_ROWS: Final = 100
VERSION_MAX: Final = 2**31 - 1
T = TypeVar("T")


class Subject(NamedTuple):
    """A subject with one of its versions."""

    level: str
    versions: list[int]
    chosen: SubjectVersion


def routes(gate: LoginGate) -> list[Route]:
    return [gate.get("/schemas", show_schemas), gate.get("/schema", show_schema)]


async def show_schemas(visit: Visit) -> Response:
    """The subjects."""
    sought, problem, level, subjects = visit.field("find").strip(), None, None, list[str]()
    try:
        level, subjects = await _answered(visit, lambda client: (client.level(), client.subjects()))
    except ClientError as error:
        problem = str(error)
    rows = sorted(subject for subject in subjects if sought in subject)
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("schemas.html", paging=paging, find=sought, problem=problem, level=level)


async def show_schema(visit: Visit) -> Response:
    """One subject, with the text of a version."""
    name, number = visit.needed("subject"), visit.number("version", 0, 0, VERSION_MAX)

    def read(client: RegistryClient) -> Subject:
        return Subject(client.level(name), client.versions(name), client.version(name, number or None))

    problem, subject, text = None, None, None
    try:
        subject = await _answered(visit, read)
        data = subject.chosen.schema.text.encode(errors="replace")
        text = decoders.decode(data, decoders.AUTO, bytes_max=decoders.WHOLE_BYTES)
    except ClientError as error:
        problem = str(error)
    return visit.page("schema.html", name=name, problem=problem, subject=subject, text=text)


async def _answered(visit: Visit, read: Callable[[RegistryClient], T]) -> T:
    """What a registry answers. Read in a thread, by requests of bounded time. Raises WrongInput and ClientError."""
    registered = visit.registered
    if registered is None:
        raise WrongInput("this console was started without --registry")
    return await asyncio.to_thread(read, registered.client)
