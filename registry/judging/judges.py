"""The port to what parses and compares schemas, and child processes that do.

A child that does not answer in time is killed, and its schema refused. Few children work at once, and fewer for one
client, so that the schemas of a client that take long leave room for those of others. What came of a schema is kept:
each start of a producer registers the same one again. What was not parsed, for want of time or memory, is not kept,
since the machine may have been busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Protocol

from sordini.registry.judging.lines import digest_of, line_of
from sordini.registry.judging.wire import judged_from_wire, task_as_wire
from sordini.registry.state.refusals import Refusal, invalid_schema
from sordini.registry.state.registering import Judged, Prepared
from sordini.system.child_processes import Child, ChildFailed, Children

COMMAND: Final = (sys.executable, "-m", "sordini.registry.judging.child")
PATIENCE_S: Final = 10.0
IDLE_S: Final = 300.0
AT_ONCE_MAX: Final = 4
OF_A_CLIENT_MAX: Final = 2
WAITING_MAX: Final = 1_000
WAITING_OF_A_CLIENT_MAX: Final = 200
WAIT_S: Final = 30.0
"""For a child: a client that is gone does not keep what it has sent waiting."""
COMPARED_CHARACTERS_MAX: Final = 32 * 1024 * 1024
"""Of a schema, the versions that it is compared with, and all that they refer to: more than is parsed in time."""
KEPT_MAX: Final = 2_000
KEPT_CHARACTERS_MAX: Final = 32 * 1024 * 1024


class Judge(Protocol):
    """The port to those who parse and compare."""

    seconds: float
    """Time spent, of all schemas."""
    count: int

    async def judge(self, prepared: Prepared, client: str) -> Judged:
        """Parse and compare for a client, which is its address or its principal. Raises Refusal."""
        ...

    async def prepare(self) -> None:
        """What makes the first schema take no longer than the next ones."""
        ...

    async def close(self) -> None: ...


class JudgingChildren:
    """In child processes, which are started when there is work; one is always there, with its libraries loaded."""

    def __init__(
        self, command: Sequence[str] = COMMAND, patience_s: float = PATIENCE_S, wait_s: float = WAIT_S
    ) -> None:
        self.seconds = 0.0
        self.count = 0
        self._children = Children(command, IDLE_S, niceness=0, retained=1)
        self._patience_s = patience_s
        self._wait_s = wait_s
        self._kept: OrderedDict[bytes, dict[str, Any]] = OrderedDict()
        self._kept_characters = 0
        self._working: Counter[str] = Counter()
        self._is_free = asyncio.Condition()
        self._waiting: Counter[str] = Counter()

    async def judge(self, prepared: Prepared, client: str) -> Judged:
        task = task_as_wire(prepared)
        characters = sum(len(schema["text"]) for schema in task["schemas"])
        if characters > COMPARED_CHARACTERS_MAX:
            text = f"{characters} characters with the versions that it is compared with, and all references"
            raise invalid_schema(f"Invalid schema: {text}: {COMPARED_CHARACTERS_MAX} are allowed")
        key = await digest_of(task)
        answer = self._kept.get(key)
        if answer is None:
            await self._begin(client)
            try:
                answer = await self._answer(task)
            finally:
                await self._end(client)
            self._keep(key, answer)
        else:
            self._kept.move_to_end(key)
        if "invalid" in answer:
            raise invalid_schema(answer["invalid"])
        return judged_from_wire(answer)

    async def prepare(self) -> None:
        # Without one, the first schema is refused with the reason.
        with contextlib.suppress(OSError):
            self._children.give_back(await self._children.take())

    async def close(self) -> None:
        await self._children.close()

    async def _begin(self, client: str) -> None:
        if self._waiting.total() >= WAITING_MAX or self._waiting[client] >= WAITING_OF_A_CLIENT_MAX:
            text = f"more than {WAITING_MAX} schemas wait to be parsed, or {WAITING_OF_A_CLIENT_MAX} of one client"
            raise Refusal(42901, f"{text}: try again later")
        self._waiting[client] += 1
        try:
            async with asyncio.timeout(self._wait_s), self._is_free:
                await self._is_free.wait_for(
                    lambda: self._working.total() < AT_ONCE_MAX and self._working[client] < OF_A_CLIENT_MAX
                )
                self._working[client] += 1
        except TimeoutError:
            raise Refusal(42901, f"the schema has waited {self._wait_s:g} s to be parsed: try again later") from None
        finally:
            _decrement(self._waiting, client)

    async def _end(self, client: str) -> None:
        async with self._is_free:
            _decrement(self._working, client)
            self._is_free.notify_all()

    async def _answer(self, task: dict[str, Any]) -> dict[str, Any]:
        began_s = time.monotonic()
        try:
            child = await self._children.take()
        except OSError as error:
            raise Refusal(50001, f"no process could be started to parse the schema: {error}") from None
        try:
            async with asyncio.timeout(self._patience_s):
                answer = await child.request_line(await line_of(task))
        except TimeoutError:
            await self._children.lose(child)
            text = f"Invalid schema: it takes more than {self._patience_s:g} s to parse and compare"
            raise invalid_schema(text) from None
        except ChildFailed as error:
            await self._children.lose(child)
            text = f"Invalid schema: it cannot be parsed within the limits of memory ({error})"
            raise invalid_schema(text) from None
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        finally:
            self.seconds += time.monotonic() - began_s
            self.count += 1
        return await self._checked(child, answer)

    async def _checked(self, child: Child, answer: dict[str, Any]) -> dict[str, Any]:
        if "bug" in answer:
            await self._children.lose(child)
            raise Refusal(50001, f"the schema could not be parsed: {answer['bug']}")
        self._children.give_back(child)
        return answer

    def _keep(self, key: bytes, answer: dict[str, Any]) -> None:
        self._kept_characters += _characters(answer) - _characters(self._kept.pop(key, {}))
        self._kept[key] = answer
        while len(self._kept) > KEPT_MAX or self._kept_characters > KEPT_CHARACTERS_MAX:
            _, former = self._kept.popitem(last=False)
            self._kept_characters -= _characters(former)


def _characters(answer: dict[str, Any]) -> int:
    return sum(map(len, (answer.get("text", ""), answer.get("invalid", ""), *answer.get("problems", ()))))


def _decrement(counter: Counter[str], client: str) -> None:
    """One fewer; a client without any is not kept."""
    counter[client] -= 1
    if not counter[client]:
        del counter[client]
