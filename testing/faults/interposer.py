"""In front of a broker's handlers: notes each request of a client, and does to it what the script says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import GeneratorType
from typing import Any

from sordini.broker.network.ports import DelayedResponse, Parts, release_parts
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.security.rules.rule import refuse_part
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.testing.faults.carrying import completed, corrupted
from sordini.testing.faults.script import Kind, Rule, Script
from sordini.testing.faults.seen import SeenRequest, SeenRequests, Sender
from sordini.testing.faults.selection import TOPIC_ROWS


class Interposer:
    """Of one broker of a site."""

    def __init__(
        self, broker: int, between_brokers: str, script: Script, seen: SeenRequests, elapsed_s: Callable[[], float]
    ) -> None:
        """`between_brokers` is the listener whose requests are let through."""
        self._broker = broker
        self._between_brokers = between_brokers
        self._script = script
        self._seen = seen
        self._elapsed_s = elapsed_s

    def interposed(self, routes: list[Route], dispatcher: Dispatcher, metadata: MetadataCache) -> list[Route]:
        """The same routes; see `broker/wiring/deps.py`."""
        return [route._replace(handle=partial(self._handle, route, dispatcher, metadata)) for route in routes]

    def _handle(self, route: Route, dispatcher: Dispatcher, metadata: MetadataCache, call: Call) -> Any:
        if call.peer.listener == self._between_brokers:
            return route.handle(call)
        seen = self._note(call)
        rule = self._script.take(
            ApiKey(call.versioned_api.api.key), call.body, call.client_id, self._broker, metadata.name_of
        )
        if rule is None:
            return route.handle(call)
        seen.fault = rule.text()
        if rule.kind is Kind.FAIL:
            return self._failed(rule, route, metadata, call)
        if rule.kind is Kind.CLOSE and rule.is_before:
            raise WireError("a fault of the test closes this connection")
        return _Carried(rule, route, dispatcher, call).start()

    def _note(self, call: Call) -> SeenRequest:
        versioned, peer = call.versioned_api, call.peer
        seen = SeenRequest(
            self._seen.total,
            self._elapsed_s(),
            Sender(self._broker, str(peer), call.client_id),
            versioned.api,
            versioned.version,
            bytes(codecs.encode(call.body, versioned.version)),
        )
        self._seen.add(seen)
        return seen

    def _failed(self, rule: Rule, route: Route, metadata: MetadataCache, call: Call) -> Any:
        """The refused response; of a request for several topics, only the selected ones are refused."""
        rows = TOPIC_ROWS.get(ApiKey(call.versioned_api.api.key))
        if rows is None or not rule.selection.is_of_topics:
            return route.error_response(call.body, rule.code)
        others, selected = rule.selection.split(list(getattr(call.body, rows.request)), metadata.name_of)
        refusal = refuse_part(call, rows.request, others, selected, code=rule.code, rows=rows.response)
        return route.handle(call) if refusal is None else refusal


class _Carried:
    """One request on whose response a rule acts."""

    def __init__(self, rule: Rule, route: Route, dispatcher: Dispatcher, call: Call) -> None:
        self._rule = rule
        self._route = route
        self._dispatcher = dispatcher
        self._call = call
        self._pending = DelayedResponse(on_abandon=self._abandoned)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> DelayedResponse:
        # A client's later request is not handled before this one. It also lets the connection be closed.
        self._pending.blocks_pipeline = True
        if not self._rule.is_before:
            self._answer = self._handled()
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self._pending

    def _handled(self) -> Any:
        try:
            return self._route.handle(self._call)
        except (WireError, AssertionError):
            raise
        except Exception as error:  # noqa: BLE001 - becomes the response, as the dispatcher makes it.
            return error

    async def _run(self) -> None:
        rule, pending = self._rule, self._pending
        parts: Parts | None = None
        try:
            if rule.kind is Kind.DROP:
                await self._lost()
                return
            if rule.is_before:
                await self._wait()
                self._answer = self._handled()
            parts = await self._parts()
            if not rule.is_before:
                await self._wait()
        except asyncio.CancelledError:
            release_parts(parts)
            raise
        except WireError as error:
            pending.fail(error)
            return
        if rule.kind is Kind.CLOSE:
            release_parts(parts)
            pending.fail(WireError("a fault of the test closes this connection"))
        elif rule.kind is Kind.CORRUPT:
            pending.resolve(corrupted(parts))
        else:
            pending.resolve(parts)

    async def _parts(self) -> Parts | None:
        answer = self._answer
        if type(answer) is GeneratorType:
            try:
                answer = await self._dispatcher.slices.run(answer)
            except (WireError, AssertionError):
                raise
            except Exception as error:  # noqa: BLE001 - as in `_handled`.
                answer = error
        if type(answer) is DelayedResponse:
            answer.on_failure = self._pending.on_failure
            return await completed(answer, self._pending.unblock_pipeline)
        self._pending.unblock_pipeline()
        if isinstance(answer, Exception):
            return self._dispatcher.fence.frame(self._call, answer)
        return None if answer is None else self._call.frame(answer)

    async def _lost(self) -> None:
        """Answer nothing until the fault is undone, which closes the connection: it would wait for ever."""
        if not self._rule.is_before:
            release_parts(await self._parts())
        await self._rule.released.wait()
        self._pending.fail(WireError("the fault of the test that lost a response was undone"))

    async def _wait(self) -> None:
        rule = self._rule
        if rule.kind is Kind.DELAY:
            await asyncio.sleep(rule.delay_ms / 1000)
        elif rule.kind is Kind.HOLD:
            await rule.released.wait()

    def _abandoned(self) -> None:
        if self._task is not None:
            self._task.cancel()
