"""What the rows of small requests compute without a broker: goals, medians, names, arguments."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from bench import cold_reads, interpreter, replication, small_requests, small_rows, table
from bench.goals import at_least, at_most, ours_at_most, summary
from bench.replication import Measured
from bench.starting import Start
from bench.works import Figures, Work

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"


def test_the_goal_of_a_ratio_is_reached_at_its_bound() -> None:
    assert at_least(1.4).judged(10.0, 14.0) == ">= 1.4x: reached"
    assert at_least(1.4).judged(10.0, 13.9) == ">= 1.4x: **missed**"
    assert at_most(0.5).judged(10.0, 5.0) == "<= 0.5x: reached"
    assert at_most(0.5).judged(10.0, 5.1) == "<= 0.5x: **missed**"


def test_the_goal_of_our_own_figure_does_not_depend_on_theirs() -> None:
    assert ours_at_most(45, "MiB").judged(0.0, 45.0) == "<= 45 MiB: reached"
    assert ours_at_most(45, "MiB").judged(1_000.0, 45.1) == "<= 45 MiB: **missed**"
    assert ours_at_most(2.0, "").judged(3.0, 1.0) == "<= 2: reached"


def test_a_goal_is_not_judged_without_a_ratio() -> None:
    assert at_most(1.0).judged(0.0, 5.0) == "<= 1x"


def test_a_table_with_goals_has_a_cell_more_in_every_line() -> None:
    figures = [Figures(1.0, 2.0, 3.0, 4.0)]
    starts = [Start(0.2, 0.1, 2**20)]
    lines = [
        *table.head("theirs", "ours", goals=True).splitlines(),
        *table.work_rows(Work("one", "single", 1), figures, figures, {"cpu_us": at_most(0.5)}),
        *table.start_rows(starts, starts, small_requests.START_GOALS),
    ]
    assert {line.count("|") for line in lines} == {7}
    assert lines[2].endswith("| 1.00 |  |")
    assert lines[3].endswith("| 1.00 | <= 0.5x: **missed** |")
    assert table.head("theirs", "ours").splitlines()[0].count("|") == 6
    assert summary(lines) == "1 of 2 goals reached"


def test_goals_are_judged_by_medians() -> None:
    theirs = [Figures(100.0, 10.0, 1.0, 1.0)] * 3
    ours = [Figures(rate, cost, 1.0, 1.0) for rate, cost in ((10.0, 99.0), (180.0, 5.0), (200.0, 4.0))]
    lines = table.work_rows(small_requests.ONE, theirs, ours, small_requests.WORKS[small_requests.ONE])
    assert lines[0].endswith("| 100 | 180 | 1.80 | >= 1.8x: reached |")
    assert lines[1].endswith("| 10.00 | 5.00 | 0.50 | <= 0.5x: reached |")


def test_one_record_requests_are_measured_plain_idempotent_and_compressed_on_1_and_16_connections() -> None:
    singles = [work for work in small_requests.WORKS if work.is_single]
    shapes = {(work.connections, work.idempotent, work.codec) for work in singles}
    kinds = {(False, "none"), (True, "none"), (False, "lz4")}
    assert shapes == {(connections, *kind) for connections in (1, 16) for kind in kinds}
    assert len({work.name for work in singles}) == 6
    for work in singles:
        plain = small_requests.ONE if work.connections == 1 else small_requests.SIXTEEN
        assert small_requests.WORKS[work] == small_requests.WORKS[plain]


def test_a_row_shows_the_median_of_each_of_its_figures() -> None:
    row = small_rows.ROWS[0]

    def side(*costs: float) -> list[small_rows.Values]:
        return [{"cpu": cost, "p50": 2 * cost, "p99": 3 * cost} for cost in costs]

    lines = small_requests.row_lines(row, small_rows.FULL, side(80, 90, 10), side(999, 30, 40))
    name = "50 tailing consumers, one record at a time"
    assert lines == [
        f"| {name} | broker CPU, µs/answer | 80.0 | 40.0 | 0.50 | <= 40 µs: reached |",
        "|  | p50, µs | 160 | 80 | 0.50 |  |",
        "|  | p99, µs | 240 | 120 | 0.50 |  |",
    ]


def test_rows_are_named_by_what_is_measured() -> None:
    titles = [row.title(small_rows.FULL) for row in small_rows.ROWS]
    assert len(set(titles)) == len(titles)
    assert "2,000 connections opened one after another" in titles
    assert titles[-1] == "10,000 partitions, idle"
    assert small_rows.ROWS[0].title(small_rows.QUICK).startswith("5 tailing consumers")


@pytest.mark.parametrize("only", ["", "small", "small requests", "small requests: tailing"])
def test_the_rows_are_chosen_by_the_name_of_their_part(only: str) -> None:
    assert small_requests.is_chosen(only)


@pytest.mark.parametrize("only", ["log", "replication", "one record"])
def test_the_rows_are_left_out_when_other_work_is_chosen(only: str) -> None:
    assert not small_requests.is_chosen(only)


def test_a_name_that_no_row_has_is_refused_with_the_names_there_are() -> None:
    assert small_requests.narrowed("small requests") == ""
    assert small_requests.narrowed("small requests: idempotent") == "idempotent"
    with pytest.raises(SystemExit, match="no row of small requests has 'tale'") as refused:
        small_requests.narrowed("small requests: tale")
    assert "10,000 partitions, idle" in str(refused.value)


def test_the_table_has_its_place_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    table.write(tmp_path, small_requests.PART, "what it said")
    assert "what it said" in page.read_text(encoding="utf-8")


def test_three_replicas_have_goals_for_one_and_sixteen_connections() -> None:
    def measured(rate: float) -> list[Measured]:
        return [Measured(Figures(rate, 1.0, 1.0, 1.0), 3.0)]

    for work, goal in ((replication.ONE_AT_A_TIME, "1.7"), (replication.MANY_AT_ONCE, "1.5")):
        lines = replication.rows_of(work, replication.WORKS[work], measured(100.0), measured(160.0))
        verdict = "reached" if goal == "1.5" else "**missed**"
        assert lines[0].endswith(f"| 1.60 | >= {goal}x: {verdict} |")
        assert lines[1].startswith("|  | leader's CPU")
        assert lines[2] == "|  | CPU of all three replicas, µs/request | 3.00 | 3.00 | 1.00 |  |"


def test_what_was_read_from_disks_is_counted_in_kib(tmp_path: Path) -> None:
    statistics = tmp_path / "vmstat"
    statistics.write_text("nr_free_pages 7\npgpgin 3\npgpgout 9\n")
    assert cold_reads.disk_bytes(statistics) == 3 * 1_024
    statistics.write_text("pgpgout 9\n")
    with pytest.raises(SystemExit, match="does not say"):
        cold_reads.disk_bytes(statistics)


def test_only_a_partition_with_a_log_can_be_dropped_from_the_page_cache(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no log"):
        cold_reads.drop_page_cache(tmp_path)
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"kept")
    cold_reads.drop_page_cache(tmp_path)
    assert log.read_bytes() == b"kept"


def test_a_table_names_its_interpreter_and_how_it_was_built() -> None:
    how = "with" if interpreter.is_optimised() else "without"
    assert f"{platform.python_version()} built {how} profile-guided" in interpreter.name()
    assert interpreter.name() in interpreter.line()
