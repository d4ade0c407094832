"""Queries whose Python process does not come up in Spark's ten seconds are started again, and others are not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.graceful_stop import BatchGate
from sordini.pipeline.jobs.state_folder import StateError, StateFolder
from sordini.pipeline.jobs.streaming_queries import STARTS_MAX, Running, run, run_all, settle

NOT_UP = "[STREAM_FAILED] ... Python worker failed to connect back."


class Query:
    """A query as Spark shows it: active for some looks, then ended, of an error or without."""

    def __init__(self, error: str | None, looks: int = 1) -> None:
        self.name = "views"
        self.status = {"isTriggerActive": False}
        self._error = error
        self._looks = looks

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name.
        return self._looks > 0

    def exception(self) -> str | None:
        return None if self.isActive else self._error

    def awaitTermination(self, _seconds: float) -> None:  # noqa: N802 - Spark's name.
        self._looks -= 1

    def stop(self) -> None:
        self._looks = 0


def in_turn(*queries: Query) -> tuple[Callable[[], Any], list[Query]]:
    """Starts one after the other, and those that have not been started."""
    left = list(queries)
    return lambda: left.pop(0), left


def test_a_query_whose_process_is_not_up_is_started_again_and_the_others_go_on() -> None:
    begin, left = in_turn(Query(NOT_UP), Query(NOT_UP), Query(None, looks=3))
    other, _ = in_turn(Query(None, looks=8))
    gate = BatchGate()
    run([Running(begin), Running(other)], gate)
    assert left == []
    assert not gate.is_shut


def test_it_is_given_up_after_a_few_starts_with_what_spark_said() -> None:
    begin, left = in_turn(*(Query(NOT_UP) for _ in range(STARTS_MAX + 3)))
    with pytest.raises(
        PipelineError,
        match=r"views stopped: Spark's Python process did not start in the ten seconds .* run the command again",
    ):
        run([Running(begin)], BatchGate())
    assert len(left) == 3


def test_what_ended_of_anything_else_is_not_started_again_and_ends_the_others() -> None:
    begin, left = in_turn(Query("sordini.pipeline.errors.DataLost: gone"), Query(None))
    other = Query(None, looks=1_000)
    gate = BatchGate()
    with pytest.raises(PipelineError, match="views stopped: gone"):
        run([Running(begin), Running(lambda: other)], gate)  # type: ignore[arg-type,return-value]
    assert len(left) == 1
    assert gate.is_shut
    assert not other.isActive


class Starting(Query):
    """A query that says for some looks that its sources are not up yet."""

    @property
    def status(self) -> dict[str, Any]:
        self.seen.append(self._looks)
        return {"isTriggerActive": False, "message": "Initializing sources" if self._looks > 2 else "Waiting"}

    @status.setter
    def status(self, _: dict[str, Any]) -> None:
        self.seen: list[int] = []


def test_a_query_is_waited_for_until_its_process_is_up_and_not_longer() -> None:
    query = Starting(None, looks=5)
    settle(Running(lambda: query), BatchGate())  # type: ignore[arg-type,return-value]
    assert query.seen == [5, 4, 3, 2]
    assert query.isActive


def test_a_query_that_dies_while_it_is_waited_for_is_started_again_and_waited_for() -> None:
    second = Starting(None, looks=4)
    begin, left = in_turn(Query(NOT_UP, looks=0), second)
    settle(Running(begin), BatchGate())
    assert (left, second.seen) == ([], [4, 3, 2])


def test_nothing_is_waited_for_once_the_end_was_asked_for() -> None:
    query, gate = Starting(None, looks=5), BatchGate()
    gate.shut()
    settle(Running(lambda: query), gate)  # type: ignore[arg-type,return-value]
    assert query.seen == []


def test_nothing_is_started_again_once_the_end_was_asked_for() -> None:
    begin, left = in_turn(Query(NOT_UP, looks=0), Query(None))
    gate = BatchGate()
    gate.shut()
    with pytest.raises(PipelineError):
        run([Running(begin)], gate)
    assert len(left) == 1


def test_queries_run_with_their_states_locked_until_all_have_ended(tmp_path: Path) -> None:
    first, second = (StateFolder(str(tmp_path / name)) for name in ("first", "second"))
    held: list[str] = []

    def begin(stack: ExitStack) -> Running:
        for state in (first, second):
            with pytest.raises(StateError), state.locked():
                raise AssertionError
            held.append(state.location)
        stack.callback(held.clear)
        return Running(lambda: Query(None, looks=3))  # type: ignore[arg-type,return-value]

    run_all([(first, lambda _: Running(lambda: Query(None))), (second, begin)], BatchGate())  # type: ignore[arg-type,return-value]
    assert held == [], "what a query held is left at the end"
    with first.locked(), second.locked():
        pass


def test_a_query_that_does_not_start_ends_those_before_it_and_leaves_their_states(tmp_path: Path) -> None:
    first, second = (StateFolder(str(tmp_path / name)) for name in ("first", "second"))
    query, gate = Query(None, looks=1_000), BatchGate()

    def refused(_: ExitStack) -> Running:
        assert query.isActive
        raise PipelineError("no such table")

    with pytest.raises(PipelineError, match="no such table"):
        run_all([(first, lambda _: Running(lambda: query)), (second, refused)], gate)  # type: ignore[arg-type,return-value]
    assert gate.is_shut
    assert not query.isActive
    with first.locked(), second.locked():
        pass
