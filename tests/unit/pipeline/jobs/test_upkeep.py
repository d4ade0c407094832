"""When a table's upkeep is due, and that it never fails its writer, on a table that only counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.jobs.batch_files import ROWS_PER_TASK, tasks_of
from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.upkeep import CHECK_BATCHES, Upkeep, UpkeepSettings, UpkeepStep
from sordini.pipeline.tables import Compacted, Table, TableError

DAY = 24 * 60 * 60
Found = TypeVar("Found")


class CountedTable:
    """As much of a table as upkeep uses."""

    location = "tables/views"

    def __init__(self, small: int = 0) -> None:
        self.small = small
        self.calls: list[str] = []
        self.failing: Exception | None = None

    def small_files(self, target_bytes: int) -> int:
        del target_bytes
        return self._did("small_files", self.small)

    def compact(self, target_bytes: int, cluster_by: Sequence[str] = ()) -> Compacted:
        del target_bytes
        return self._did(f"compact {','.join(cluster_by)}".strip(), Compacted(10, 1, 100, 90))

    def drop_versions(self, keep: int | None = None) -> int:
        return self._did(f"drop_versions {keep}", 3)

    def clean_up(self) -> list[str]:
        return self._did("clean_up", ["a", "b"])

    def _did(self, call: str, found: Found) -> Found:
        self.calls.append(call)
        if self.failing is not None and call != "small_files":
            raise self.failing
        return found


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upkeep_of(tmp_path: Path, clock: Clock) -> Callable[..., Upkeep]:
    def made(table: CountedTable, **settings: object) -> Upkeep:
        off = {"small_files_max": 0, "versions_max": 0, "vacuum_seconds": 0.0}
        chosen = UpkeepSettings(**{**off, **settings})  # type: ignore[arg-type]
        return Upkeep(cast("Table", table), chosen, StateFolder(str(tmp_path / "state")), now=clock)

    return made


def test_small_files_are_merged_when_as_many_have_come_and_those_of_earlier_runs_count(
    upkeep_of: Callable[..., Upkeep],
) -> None:
    table = CountedTable(small=7)
    upkeep = upkeep_of(table, small_files_max=10, cluster_by=("page",))
    assert upkeep.after_batch(2, 100) == ()
    assert upkeep.after_batch(2, 100) == ()
    (step,) = upkeep.after_batch(2, 100)
    assert (step.action, step.removed, step.added, step.failure) == ("compaction", 10, 1, "")
    assert table.calls == ["small_files", "compact page"], "the table's files are listed once"
    assert [upkeep.after_batch(2, 100) for _ in range(4)] == [()] * 4
    assert len(upkeep.after_batch(2, 100)) == 1, "and again when as many have come again"


def test_files_of_the_wanted_size_and_batches_without_files_are_not_counted(upkeep_of: Callable[..., Upkeep]) -> None:
    table = CountedTable()
    upkeep = upkeep_of(table, small_files_max=2, target_bytes=100)
    upkeep.after_batch(1, 1)
    for files, size in ((1, 75), (2, 150), (0, 0), (1, 74)):
        upkeep.after_batch(files, size)
    assert "compact" not in table.calls
    upkeep.after_batch(1, 74)
    assert "compact" in table.calls


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TableError("another writer was faster"), "another writer was faster"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_upkeep_that_fails_is_reported_and_tried_again_when_as_much_has_come_again(
    error: Exception, said: str, upkeep_of: Callable[..., Upkeep]
) -> None:
    table = CountedTable(small=10)
    table.failing = error
    upkeep = upkeep_of(table, small_files_max=10)
    (failed,) = upkeep.after_batch(2, 100)
    assert failed == UpkeepStep("tables/views", "compaction", 0, 0, failed.seconds, said)
    table.failing = None
    steps = [upkeep.after_batch(2, 100) for _ in range(5)]
    assert [len(each) for each in steps] == [0, 0, 0, 0, 1]
    assert steps[-1][0].failure == ""


def test_old_versions_are_dropped_at_the_first_batch_and_every_few_then(upkeep_of: Callable[..., Upkeep]) -> None:
    table = CountedTable()
    upkeep = upkeep_of(table, versions_max=100)
    batches = [upkeep.after_batch(1, 1) for _ in range(2 * CHECK_BATCHES + 1)]
    assert [at for at, steps in enumerate(batches) if steps] == [0, CHECK_BATCHES, 2 * CHECK_BATCHES]
    assert set(table.calls) == {"drop_versions 100"}


def test_a_table_is_vacuumed_after_the_interval_also_by_runs_shorter_than_that(
    upkeep_of: Callable[..., Upkeep], clock: Clock
) -> None:
    table = CountedTable()
    for _ in range(7):
        upkeep = upkeep_of(table, vacuum_seconds=float(DAY))
        for _ in range(3):
            clock.seconds += DAY / 14
            upkeep.after_batch(1, 1)
    assert table.calls == ["clean_up"], "one and a half days: not at the first run, when there is nothing to delete yet"


def test_a_state_that_cannot_be_written_does_not_stop_the_writer_nor_vacuum_with_every_batch(
    upkeep_of: Callable[..., Upkeep], tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    table = CountedTable()
    upkeep = upkeep_of(table, vacuum_seconds=float(DAY))
    (failed,) = upkeep.after_batch(1, 1)
    assert (failed.action, bool(failed.failure)) == ("vacuum", True)
    assert upkeep.after_batch(1, 1) == ()
    clock.seconds += DAY
    assert len(upkeep.after_batch(1, 1)) == 1


def test_upkeep_that_is_off_touches_nothing(upkeep_of: Callable[..., Upkeep]) -> None:
    table = CountedTable(small=1000)
    upkeep = upkeep_of(table)
    assert [upkeep.after_batch(100, 100) for _ in range(3)] == [()] * 3
    assert table.calls == []


@given(st.integers(0, 10**9), st.integers(0, 500))
def test_a_small_batch_has_one_task_and_no_task_of_a_large_one_has_many_more_rows_than_it_takes(
    rows: int, files: int
) -> None:
    tasks = tasks_of(rows)
    assert tasks >= 1
    assert tasks * ROWS_PER_TASK >= rows
    assert (tasks - 1) * ROWS_PER_TASK < max(rows, 1)
    assert tasks_of(rows, files) == (files or tasks)
