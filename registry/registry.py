"""A registry: the state, the journal, and one change after the other.

    register: prepare on the state ─► parse and compare (judge) ─► lock: decide on the state ─► append ─► answer

The lock is held from a decision until its records are applied, so that each is made on a state that has all earlier
ones. What takes long, a schema to be parsed, is done before it, and prepared again where the state has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from sordini.registry.judging.judges import Judge
from sordini.registry.ports import Journal, JournalFailed, NotTheWriter
from sordini.registry.records import SchemaRecord, encode_key, encode_value
from sordini.registry.state.decision import Decision
from sordini.registry.state.refusals import NOT_PERMITTED, Refusal, not_permitted
from sordini.registry.state.registering import (
    Judged,
    OutOfDate,
    Prepared,
    find_schema,
    prepare,
    prepare_comparison,
    prepare_format,
    prepare_search,
    register,
    registered_as_written,
)
from sordini.registry.state.registry_state import RegistryState
from sordini.registry.state.submission import Submission
from sordini.system.keyed_locks import KeyedLocks

CHANGE_S: Final = 30.0
"""For a change to be committed."""
CONTENDED_S: Final = 30.0
"""For a schema to be registered, while other versions of its subject are."""


class Registry:
    """What the handlers of requests use."""

    def __init__(self, state: RegistryState, journal: Journal, judge: Judge, *, is_read_only: bool = False) -> None:
        """`state` is the one that the journal applies its records to."""
        self.state = state
        self.journal = journal
        self._judge = judge
        self._is_read_only = is_read_only
        self._lock = asyncio.Lock()
        self._contended = KeyedLocks()
        self._changes: set[asyncio.Task[Any]] = set()

    async def register(self, submission: Submission, client: str) -> SchemaRecord:
        """Register a schema, or find it where nothing may be changed. Raises Refusal, NotTheWriter.

        Producers register what they write with at each start, in subjects that are read-only too.
        """
        try:
            return await self._register(submission, client)
        except NotTheWriter as error:
            if error.writer is not None or (found := await self._present(submission, client)) is None:
                raise
            return found
        except Refusal as refusal:
            if refusal.code != NOT_PERMITTED or (found := await self._present(submission, client)) is None:
                raise
            return found

    async def _present(self, submission: Submission, client: str) -> SchemaRecord | None:
        """The version of the subject that has a schema, with the id that is asked for."""
        try:
            found = await self.find_schema(submission, client, deleted=False)
        except Refusal:
            return None
        return found if submission.id in (None, found.id) else None

    async def _register(self, submission: Submission, client: str) -> SchemaRecord:
        self._check_writer()
        await self._wait_for_changes()
        with contextlib.suppress(OutOfDate):
            return await self._registered(submission, client)
        try:
            # One after the other: each that is registered puts those out of date that are prepared beside it.
            async with asyncio.timeout(CONTENDED_S), self._contended.held(submission.subject):
                while True:
                    await self._wait_for_changes()
                    with contextlib.suppress(OutOfDate):
                        return await self._registered(submission, client)
        except TimeoutError:
            raise Refusal(50002, f"subject {submission.subject} changes all the time: try again later") from None

    async def _registered(self, submission: Submission, client: str) -> SchemaRecord:
        """One attempt. Raises Refusal, NotTheWriter and OutOfDate."""
        prepared = prepare(self.state, submission)
        found = registered_as_written(self.state, prepared)
        if found is not None:
            return found
        judged = await self._judge.judge(prepared, client)
        record: SchemaRecord = await self.change(lambda state: register(state, prepared, judged))
        return record

    async def find_schema(self, submission: Submission, client: str, *, deleted: bool) -> SchemaRecord:
        """The version of a subject that has a schema. Raises Refusal."""
        prepared = prepare_search(self.state, submission, deleted=deleted)
        found = registered_as_written(self.state, prepared, deleted=deleted)
        if found is None:
            found = find_schema(self.state, prepared, await self._judge.judge(prepared, client), deleted=deleted)
        return found

    async def compare(self, submission: Submission, version: int | None, client: str) -> Judged:
        """Whether a schema could be registered; `version`: whether it is compatible with one. Raises Refusal."""
        prepared: Prepared = prepare_comparison(self.state, submission, version)
        return await self._judge.judge(prepared, client)

    async def formatted(self, record: SchemaRecord, wanted: str, client: str) -> str:
        """The text of a version in another format. Raises Refusal."""
        return (await self._judge.judge(prepare_format(self.state, record, wanted), client)).text

    async def change(self, decide: Callable[[RegistryState], Decision]) -> Any:
        """Decide, append, and return the answer. Raises what `decide` raises, Refusal and NotTheWriter.

        A caller that is cancelled leaves the change to be completed.
        """
        self._check_writer()
        task = asyncio.create_task(self._change(decide))
        self._changes.add(task)
        task.add_done_callback(self._done)
        try:
            async with asyncio.timeout(CHANGE_S):
                return await asyncio.shield(task)
        except TimeoutError:
            raise Refusal(50002, f"the change was not committed within {CHANGE_S:g} s, and may be later") from None

    async def close(self) -> None:
        """Wait for the changes under way, at most CHANGE_S."""
        if self._changes:
            await asyncio.wait(self._changes, timeout=CHANGE_S)
        await self._judge.close()

    def _check_writer(self) -> None:
        if self._is_read_only:
            raise not_permitted("This registry was started with --read-only")
        if not self.journal.is_writer:
            raise NotTheWriter(self.journal.writer)

    async def _wait_for_changes(self) -> None:
        """What is prepared while a change is under way would be out of date."""
        async with self._lock:
            return

    async def _change(self, decide: Callable[[RegistryState], Decision]) -> Any:
        async with self._lock:
            self._check_writer()
            decision = decide(self.state)
            for record in decision.records:
                try:
                    await self.journal.append(encode_key(record.key), encode_value(record.value))
                except JournalFailed as error:
                    raise Refusal(50001, f"the record could not be written: {error}") from None
            return decision.answer

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._changes.discard(task)
        if not task.cancelled():
            task.exception()  # It is taken here, too, for a caller that was cancelled.
