"""The activity example's report: its figures are the generator's counts, and it says so when they are not."""

from __future__ import annotations

import base64
import re
from collections import Counter
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from matplotlib.patches import StepPatch

from examples.activity.demo.lag import Sample
from examples.activity.generator.visits import CLICK, KINDS, SEARCH, VIEW
from examples.activity.report.drawing import figure
from examples.activity.report.figures import draw_lateness
from examples.activity.report.findings import Findings, Tables, counted, differences, findings
from examples.activity.report.page import Run, page
from examples.programs import Step
from tests.support.in_memory_site import PLAN, sent_of, tables_of, tally_of

SENT = sent_of(PLAN)
COUNTS = tally_of(SENT).reported()
TABLES = tables_of(SENT)
RUN = Run(
    "A <test> run",
    COUNTS,
    [Sample(0.5, 100, 0), Sample(1.0, 200, 150), Sample(1.5, 200, 200)],
    1.0,
    [Step("start a broker", "sordini serve", 0.5)],
    {"records a second": "1,000"},
)


@pytest.fixture(scope="module")
def reported() -> str:
    """The page of a run in which all went well."""
    return page(RUN, findings(TABLES))


def without_row(table: pa.Table, row: int) -> pa.Table:
    return pa.concat_tables([table.slice(0, row), table.slice(row + 1)])


def with_row_twice(table: pa.Table, row: int) -> pa.Table:
    return pa.concat_tables([table, table.slice(row, 1)])


def test_on_an_axis_of_powers_every_kind_of_event_is_drawn_from_the_bottom() -> None:
    found = findings(TABLES)
    with figure(5.4, 3.3) as (_, axes):
        draw_lateness(axes, found)
        drawn = [patch.get_data() for patch in axes.patches if isinstance(patch, StepPatch)]
        assert axes.get_yscale() == "symlog"
    assert [list(heights) for heights, _, _ in drawn] == [found.lateness[kind] for kind in KINDS]
    assert [baseline for _, _, baseline in drawn] == [0, 0, 0]


def test_the_page_counts_clicks_per_search_and_knows_three_tables_of_events(reported: str) -> None:
    found = findings(TABLES)
    assert f'>{found.rows[CLICK] / found.rows[SEARCH]:.2f}</div><div class="label">clicks per search<' in reported
    assert "are rows of the three tables of events" in reported
    assert "the events table" not in reported


def test_tables_with_everything_in_them_agree_with_the_generator() -> None:
    found = findings(TABLES)
    assert differences(found, COUNTS) == []
    assert found.rows == COUNTS["whole"]
    assert found.funnel == COUNTS["funnel"]
    assert found.doubles == 0


@pytest.mark.parametrize("name", ["events", "dead_letters", "pages", "visits"])
def test_one_row_lost_or_doubled_in_any_table_is_reported(name: str) -> None:
    for change in (without_row, with_row_twice):
        changed = TABLES._replace(**{name: change(getattr(TABLES, name), 3)})
        assert differences(findings(changed), COUNTS)


def test_a_visit_whose_row_is_not_its_newest_view_is_reported() -> None:
    old = TABLES.events.filter(pc.equal(TABLES.events["topic"], "page-views")).slice(0, 1)
    session = old["session_id"][0]
    others = TABLES.visits.filter(pc.not_equal(TABLES.visits["session_id"], session))
    assert others.num_rows == TABLES.visits.num_rows - 1
    before = old.set_column(
        old.schema.get_field_index("event_time"),
        old.schema.field("event_time"),
        pc.subtract(old["event_time"], pa.scalar(timedelta(days=1))).cast(old.schema.field("event_time").type),
    )
    found = findings(TABLES._replace(visits=pa.concat_tables([others, before])))
    assert differences(found, COUNTS) == ["1 visits have another last page than their newest view's"]


def test_the_page_shows_the_last_pages_of_visits(reported: str) -> None:
    found = findings(TABLES)
    assert f"one row for each of {found.visits:,} visits" in reported
    assert f"<code>{found.last_pages.index[0]}</code>" in reported


def test_a_window_that_counts_an_event_twice_is_reported() -> None:
    windows = with_row_twice(TABLES.windows, 3)
    (reported,) = differences(findings(TABLES._replace(windows=windows)), COUNTS)
    assert "events more than there are" in reported


def test_a_row_in_the_place_of_another_is_reported_though_the_counts_are_equal() -> None:
    events = with_row_twice(without_row(TABLES.events, 3), 0)
    assert any("more than once" in one for one in differences(findings(TABLES._replace(events=events)), COUNTS))


def test_events_of_windows_are_distinguished_by_who_closed_them() -> None:
    starts = TABLES.windows.column("window_start")
    last = pa.scalar(pc.max(starts).as_py() - timedelta(minutes=9), starts.type)
    streamed = TABLES.streamed_windows.filter(pc.less(TABLES.streamed_windows.column("window_start"), last))
    windows = pa.concat_tables([streamed, TABLES.windows.filter(pc.greater_equal(starts, last))])
    found = findings(TABLES._replace(streamed_windows=streamed, windows=windows))
    reported = counted(found)
    assert reported.by_the_stream == sum(streamed.column("events").to_pylist()) > 0
    assert reported.by_the_backfill == found.per_minute[found.per_minute.index >= last.as_py()].to_numpy().sum() > 0
    assert reported.nowhere == sum(COUNTS["whole"].values()) - reported.by_the_stream - reported.by_the_backfill > 0
    assert differences(found, COUNTS) == []


def test_a_stream_that_closed_no_window_is_drawn_too() -> None:
    found = findings(TABLES._replace(streamed_windows=TABLES.streamed_windows.slice(0, 0)))
    assert counted(found) == (0, sum(COUNTS["whole"].values()), 0)
    assert "data:image/png" in page(RUN, found)


def test_lateness_is_counted_once_for_every_event_and_as_the_generator_counts_it() -> None:
    found = findings(TABLES)
    assert {kind: sum(found.lateness[kind]) for kind in KINDS} == found.rows
    assert found.late == COUNTS["late"]
    assert sum(found.late.values()) > 0


def test_the_page_says_that_nothing_was_lost_and_shows_every_figure(reported: str) -> None:
    assert "Nothing lost, nothing twice" in reported
    assert "A &lt;test&gt; run" in reported
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', reported)
    assert len(pictures) == 8
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)


def test_the_page_needs_nothing_from_elsewhere(reported: str) -> None:
    assert not re.search(r"https?://|<script|<link", reported)


def test_the_page_s_figures_are_the_generator_s(reported: str) -> None:
    for kind in (VIEW, SEARCH, CLICK):
        assert f'<div class="figure">{COUNTS["whole"][kind]:,}</div>' in reported
    for topic, sent in COUNTS["sent"].items():
        assert re.search(rf"<td>{topic}</td><td class=number>{sent:,}</td>", reported)
    assert "difference</th>" in reported


def test_a_page_of_tables_that_lack_something_says_what() -> None:
    reported = page(RUN, findings(TABLES._replace(events=without_row(TABLES.events, 0))))
    assert "Nothing lost" not in reported
    assert "in the tables" in reported
    assert 'class="verdict bad"' in reported


def test_dead_letters_are_shown_with_their_bytes_and_never_as_markup(reported: str) -> None:
    found: Findings = findings(TABLES)
    assert len({one.reason for one in found.samples}) == len(found.samples) == 6
    assert "&lt;html&gt;" in reported
    assert "<title>502" not in reported
    by_reason = Counter(TABLES.dead_letters.column("reason").to_pylist())
    assert {reason: int(row.sum()) for reason, row in found.dead.iterrows()} == by_reason


def test_a_run_without_a_broken_record_is_drawn_too() -> None:
    sent = sent_of(PLAN, broken_share=0.0)
    tables: Tables = tables_of(sent)
    reported = page(RUN._replace(counts=tally_of(sent).reported(), samples=[]), findings(tables))
    assert "There are none." in reported
