"""The work of a batch does not grow with the number of batches before it: counted in bytes and files, not in time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.upkeep import Upkeep, UpkeepSettings
from sordini.pipeline.tables import open_table
from tests.support.frames import frame
from tests.support.own_work import bytes_moved

pytestmark = [
    # Of pyiceberg: its catalogs keep a connection to SQLite for as long as they live.
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]
ROUND = 25
SETTINGS = UpkeepSettings(small_files_max=20, versions_max=20, vacuum_seconds=0)
OFF = UpkeepSettings(small_files_max=0, versions_max=0, vacuum_seconds=0)


def work_of(kind: str, location: Path, settings: UpkeepSettings) -> Callable[[], int]:
    """Writes a round of batches, and returns how many bytes that moved."""
    table = open_table(kind, str(location / "events"), app_id="app")
    upkeep = Upkeep(table, settings, StateFolder(str(location / "state")))
    batches = iter(range(10_000))

    def write() -> int:
        before = bytes_moved()
        for number in (next(batches) for _ in range(ROUND)):
            written = table.append(frame(range(number * 8, number * 8 + 8)), number, {"t": {0: number * 8 + 8}})
            for step in upkeep.after_batch(written.files, written.bytes):
                assert not step.failure, step
        return bytes_moved() - before

    return write


@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_later_batches_read_and_write_no_more_than_earlier_ones(kind: str, tmp_path: Path) -> None:
    write = work_of(kind, tmp_path, SETTINGS)
    write()
    second, _, fourth = write(), write(), write()
    assert fourth < 1.25 * second
    table = open_table(kind, str(tmp_path / "events"), app_id="app")
    assert len(table.files()) <= SETTINGS.small_files_max + 2
    assert table.last() == (4 * ROUND - 1, {"t": {0: 4 * ROUND * 8}})


@pytest.mark.slow
def test_without_upkeep_they_do(tmp_path: Path) -> None:
    write = work_of("iceberg", tmp_path, OFF)
    write()
    second, _, fourth = write(), write(), write()
    assert fourth > 1.5 * second
