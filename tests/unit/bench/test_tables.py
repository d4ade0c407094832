"""The figures and tables of the benchmark that need no broker."""

from __future__ import annotations

import argparse
import random
import shutil
from pathlib import Path

import pytest

from bench import log, log_size, log_starts, table
from bench.log_compaction import PROBED, SHAPES, active_base, closed_bytes, keys_for
from bench.log_size import GIB, MIB
from bench.works import Figures

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("superseded", sorted({shape.superseded for shape in SHAPES}))
def test_keys_picked_at_random_leave_the_share_of_records_that_is_asked_for(superseded: float) -> None:
    records = 50_000
    pick = random.Random(1).randrange
    keys = keys_for(records, superseded)
    left = len({pick(keys) for _ in range(records)}) / records
    assert abs(left - (1 - superseded)) < 0.005


def test_what_is_probed_is_one_of_the_logs() -> None:
    assert PROBED in SHAPES
    assert len(SHAPES) == 8


def test_only_closed_segments_count(tmp_path: Path) -> None:
    for name, size in (("0", 10), ("70", 20), ("900", 40)):
        (tmp_path / f"{name:0>20}.log").write_bytes(bytes(size))
        (tmp_path / f"{name:0>20}.index").write_bytes(bytes(1_000))
    (tmp_path / f"{0:020}.log.deleted").write_bytes(bytes(5_000))
    assert active_base(tmp_path) == 900
    assert closed_bytes(tmp_path, 900) == 30


def test_log_sizes_end_with_the_one_asked_for() -> None:
    assert log_size.sizes_up_to(20 * GIB) == [MIB, 100 * MIB, GIB, 20 * GIB]
    assert log_size.sizes_up_to(GIB) == [MIB, 100 * MIB, GIB]
    assert log_size.sizes_up_to(MIB) == [MIB]
    assert [log_size.size_text(size) for size in (MIB, 100 * MIB, 20 * GIB)] == ["1 MiB", "100 MiB", "20 GiB"]


def test_growth_is_relative_to_the_smallest_log() -> None:
    kind = log_size.KINDS[0]

    def seen(*costs: float) -> log_size.Seen:
        sizes = zip((MIB, GIB), costs, strict=True)
        return {
            (kind.name, size): [Figures(1.0, each, each + 1, 0.0) for each in (cost, cost, 9_999)]
            for size, cost in sizes
        }

    row = log_size.row(kind, GIB, MIB, seen(100, 150), seen(50, 60))
    assert row == "|  | 1 GiB | 150.0 | 1.50 | 151 | 60.0 | 1.20 | 61 | 0.40 |"
    assert log_size.row(kind, MIB, MIB, seen(100, 150), seen(50, 60)).startswith(
        f"| {kind.name} | 1 MiB | 100.0 | 1.00 |"
    )


def test_a_start_is_shown_by_its_median() -> None:
    def side(*seconds: float) -> log_starts.Seen:
        restarts = [log_starts.Restart(one, one, one, one, one) for one in seconds]
        return log_starts.Seen(1.0, restarts, [one._replace(first=2 * one.first) for one in restarts])

    lines = log_starts.rows_of(1_000, side(4, 8, 6), side(3, 1, 2))
    assert "| 1,000 partitions: start after an orderly stop | first record fetched, s | 6.00 | 2.00 | 0.33 |" in lines
    assert "| 1,000 partitions: start after kill -9 | first record fetched, s | 12.00 | 4.00 | 0.33 |" in lines


def test_each_table_has_its_place_on_a_page(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    for page in table.PAGES:
        shutil.copy(DOCS / page, tmp_path / page)
    for name in (table.MAIN, *log.PARTS):
        table.write(tmp_path, name, f"what {name} said")
    text = "".join((tmp_path / page).read_text(encoding="utf-8") for page in table.PAGES)
    for name in (table.MAIN, *log.PARTS):
        assert f"<!-- {name}: begin -->\n\nwhat {name} said\n\n<!-- {name}: end -->" in text
    with pytest.raises(SystemExit, match="no place"):
        table.write(tmp_path, "another", "")


def test_a_quick_run_is_small_and_everything_can_be_chosen() -> None:
    def chosen(*words: str) -> log.Extent:
        parser = argparse.ArgumentParser()
        parser.add_argument("--rounds", type=int, default=5)
        log.add_arguments(parser)
        return log.extent(parser.parse_args(words))

    assert chosen() == log.Extent(20 * GIB, [1_000, 10_000], 512 * MIB, 3)
    assert chosen("--quick").log_bytes < 100 * MIB
    assert chosen("--quick", "--log-gib", "0.5").log_bytes == GIB // 2
    assert chosen("--rounds", "2", "--partitions", "10", "--compact-mib", "64") == log.Extent(
        20 * GIB, [10], 64 * MIB, 2
    )


def test_a_table_says_the_command_that_makes_it_again() -> None:
    note = log.note("log starts", log.Extent(GIB, [10, 20], MIB, 1))
    assert note.endswith("""Again: `make bench ARGS='--only "log starts" --partitions 10,20 --write'`.""")
