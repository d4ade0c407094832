"""A registry without a topic and without sockets: a fake of the journal, and requests given to the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sordini.registry.http.application import Logins, RegistryApplication, Served
from sordini.registry.http.calls import Operation
from sordini.registry.http.forwarding import Forwarder
from sordini.registry.http.logins import NoLogins
from sordini.registry.http.measures import Measures
from sordini.registry.http.responses import REGISTRY_JSON, Answer
from sordini.registry.judging.inline import JudgeHere
from sordini.registry.judging.judges import Judge
from sordini.registry.ports import JournalFailed, NotTheWriter
from sordini.registry.records import Record, encode_key, encode_value
from sordini.registry.registry import Registry
from sordini.registry.state.decision import Decision
from sordini.registry.state.refusals import Refusal
from sordini.registry.state.registry_state import RegistryState
from tests.support.fake_ports import ListLog

Stored = tuple[bytes, bytes | None]


class MemoryJournal:
    """Implements `Journal`: a list, which several registries may have in common."""

    def __init__(self, state: RegistryState, log: list[Stored] | None = None) -> None:
        self.log = [] if log is None else log
        self.state = state
        self.is_writer = True
        self.writer: str | None = None
        self.failure: str | None = None
        self.gate: asyncio.Event | None = None
        """Appends wait for it."""
        self._applied = 0

    async def append(self, key: bytes, value: bytes | None) -> int:
        if self.gate is not None:
            await self.gate.wait()
        if not self.is_writer:
            raise NotTheWriter(self.writer)
        if self.failure is not None:
            raise JournalFailed(self.failure)
        self.log.append((key, value))
        await self.wait_until_current()
        return len(self.log) - 1

    async def wait_until_current(self) -> None:
        for offset in range(self._applied, len(self.log)):
            self.state.apply(*self.log[offset], offset)
        self._applied = len(self.log)


def replayed_state(log: Collection[Stored]) -> RegistryState:
    """The state of a registry that reads a log from its start."""
    state = RegistryState()
    for offset, (key, value) in enumerate(log):
        state.apply(key, value, offset)
    return state


def compacted(log: Collection[Stored]) -> list[Stored]:
    """A log of which only the newest value of each key is left, and no removed one."""
    newest = {key: offset for offset, (key, _) in enumerate(log)}
    return [(key, value) for offset, (key, value) in enumerate(log) if newest[key] == offset and value is not None]


def take(state: RegistryState, decision: Decision, log: list[Stored] | None = None) -> Any:
    """Apply what was decided, as the journal does; the answer."""
    for record in decision.records:
        append(state, record, log)
    return decision.answer


def append(state: RegistryState, record: Record, log: list[Stored] | None = None) -> None:
    stored = encode_key(record.key), encode_value(record.value)
    state.apply(*stored, state.end_offset)
    if log is not None:
        log.append(stored)


class OneOf:
    """Logins, and a visitor that may do some things with some subjects."""

    principal = "alice"

    def __init__(self, allowed: Mapping[Operation, Collection[str]], *, alters_all: bool = False) -> None:
        self._allowed = allowed
        self._alters_all = alters_all

    async def visitor(self, headers: Mapping[str, str], attempt: Callable[[], None]) -> OneOf:
        del attempt
        if headers.get("authorization") != "Basic alice":
            raise Refusal(401, "log in")
        return self

    async def allowed(self, operation: Operation, subjects: Collection[str]) -> frozenset[str]:
        return frozenset(self._allowed.get(operation, ())) & frozenset(subjects)

    async def may_alter_all(self) -> bool:
        return self._alters_all

    def close(self) -> None:
        return


class RegistryWorld:
    """A registry, and its application to send requests to."""

    def __init__(
        self,
        logins: Logins | None = None,
        log: list[Stored] | None = None,
        judge: Judge | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self.state = RegistryState()
        self.journal = MemoryJournal(self.state, log)
        self.judge = judge or JudgeHere()
        self.registry = Registry(self.state, self.journal, self.judge, is_read_only=is_read_only)
        self.lines = ListLog()
        self.measures = Measures(self.registry, self.judge)
        served = Served(
            self.registry, logins or NoLogins(), Forwarder(None), self.measures, self.lines, "cluster", self._is_ready
        )
        self.app = RegistryApplication(served)

    async def send(
        self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer to a request; `body` is JSON, or bytes as they are."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": REGISTRY_JSON, **(headers or {})}
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": data}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        names = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], sent[1]["body"], names["content-type"], tuple(sorted(names.items())))

    async def json(self, method: str, target: str, body: Any = None) -> Any:
        """The JSON of an answer."""
        return json.loads((await self.send(method, target, body)).body)

    def _is_ready(self) -> bool:
        return self.journal.is_writer or self.journal.writer is not None
