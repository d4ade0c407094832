"""What the tables say, as numbers ready to be drawn. Nothing here knows Spark: tables come as Arrow, as any reader has
them, and the generator's counts stay out of it but for `differences`, which holds the two against each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from examples.activity.generator.sending import TOPICS
from examples.activity.generator.tally import LATE_MINUTES
from examples.activity.generator.visits import CLICK, KINDS, SEARCH, VIEW

KIND_OF = {topic: kind for kind, topic in TOPICS.items()}
LATENESS_EDGES_SECONDS = (0.0, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1200, 2400, 4800)
SAMPLES = 6


class Tables(NamedTuple):
    """The tables of one run, read whole."""

    events: pa.Table
    dead_letters: pa.Table
    streamed_windows: pa.Table
    """Windows of a minute as the stream closed them by its watermark, before the backfill."""
    windows: pa.Table
    """The same table after the backfill, which closes those that no watermark has passed."""
    pages: pa.Table
    """Views of each page in windows of a quarter of an hour, backfilled too; they wait for whoever is late."""
    visits: pa.Table
    """The last page view of each visit: upserts of page views by their times."""


class DeadLetter(NamedTuple):
    """One record that could not become a row."""

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes


class Findings(NamedTuple):
    """Everything that the report shows of the tables."""

    rows: dict[str, int]
    """Rows of the three tables of events, by kind."""
    doubles: int
    """Records, told by topic, partition and offset, or events, told by their ids, that are there more than once."""
    per_minute: pd.DataFrame
    """Events by minute (index, UTC) and kind (columns), from the tables of events."""
    streamed_windows: pd.DataFrame
    """The same as the streaming aggregate had closed it."""
    windows: pd.DataFrame
    """The same after the backfill."""
    pages: pd.Series[int]
    """Views by page, most viewed first, from the aggregate of pages."""
    funnel: dict[str, int]
    """Visits that viewed; of those, that searched; of those, that clicked."""
    positions: pd.Series[int]
    """Clicks by the place of the result."""
    lateness: dict[str, list[int]]
    """Events by kind and by how late they arrived, between LATENESS_EDGES_SECONDS and above the last."""
    late: dict[str, int]
    """Events by kind that arrived more than LATE_MINUTES after they happened."""
    dead: pd.DataFrame
    """Dead letters by reason (index) and topic (columns)."""
    samples: list[DeadLetter]
    """One for each reason, at most SAMPLES."""
    visits: int
    """Rows of the table of visits."""
    outdated_visits: int
    """Those that are not the newest view of their visit, or are there twice."""
    last_pages: pd.Series[int]
    """Visits by their last page, the most frequent first."""


def findings(tables: Tables) -> Findings:
    """Work out everything from the tables."""
    events = tables.events.to_pandas()
    events["kind"] = events["topic"].map(KIND_OF)
    events["minute"] = events["event_time"].dt.floor("min")
    by_minute = pd.crosstab(events["minute"], events["kind"])
    clicks = events[events["kind"] == CLICK]
    late_seconds = (events["timestamp"] - events["event_time"]).dt.total_seconds()
    is_late = late_seconds > LATE_MINUTES * 60
    return Findings(
        rows=_by_kind(events["kind"].value_counts()),
        doubles=int(events.duplicated(["topic", "partition", "offset"]).sum() + events.duplicated("event_id").sum()),
        per_minute=_all_kinds(by_minute),
        streamed_windows=_windows(tables.streamed_windows),
        windows=_windows(tables.windows),
        pages=_views_by_page(tables.pages),
        funnel=_funnel(events),
        positions=clicks["position"].astype(int).value_counts().sort_index(),
        lateness={kind: _histogram(late_seconds[events["kind"] == kind]) for kind in KINDS},
        late=_by_kind(events.loc[is_late, "kind"].value_counts()),
        dead=_dead(tables.dead_letters),
        samples=_samples(tables.dead_letters),
        visits=tables.visits.num_rows,
        outdated_visits=_outdated_visits(events[events["kind"] == VIEW], tables.visits.to_pandas()),
        last_pages=tables.visits.select(["page"]).to_pandas()["page"].value_counts(),
    )


def _outdated_visits(views: pd.DataFrame, visits: pd.DataFrame) -> int:
    newest = views.groupby("session_id")["event_time"].max()
    is_newest = visits["event_time"].to_numpy() == visits["session_id"].map(newest).to_numpy()
    return int((~is_newest | visits.duplicated("session_id")).sum())


def _by_kind(counts: pd.Series[int]) -> dict[str, int]:
    return {kind: int(counts.get(kind, 0)) for kind in KINDS}


def _all_kinds(counts: pd.DataFrame) -> pd.DataFrame:
    return counts.reindex(columns=list(KINDS), fill_value=0).asfreq("min", fill_value=0)


def _windows(table: pa.Table) -> pd.DataFrame:
    """Minutes and kinds of an aggregate's table. Two rows for one window would be added up, and so be noticed."""
    rows = table.to_pandas()
    if rows.empty:
        return pd.DataFrame(0, index=pd.DatetimeIndex([], tz="UTC"), columns=list(KINDS))
    rows["kind"] = rows["topic"].map(KIND_OF)
    return _all_kinds(rows.pivot_table("events", "window_start", "kind", aggfunc="sum", fill_value=0))


def _views_by_page(table: pa.Table) -> pd.Series[int]:
    views = table.select(["page", "views"]).to_pandas().groupby("page")["views"].sum()
    return views.sort_values(ascending=False, kind="stable")


def _funnel(events: pd.DataFrame) -> dict[str, int]:
    viewed, searched, clicked = (set(events.loc[events["kind"] == kind, "session_id"]) for kind in KINDS)
    return {VIEW: len(viewed), SEARCH: len(viewed & searched), CLICK: len(viewed & searched & clicked)}


def _histogram(seconds: pd.Series[float]) -> list[int]:
    edges = [*LATENESS_EDGES_SECONDS, float("inf")]
    return [int(count) for count in pd.cut(seconds, edges, right=False).value_counts(sort=False)]


def _dead(table: pa.Table) -> pd.DataFrame:
    rows = table.select(["topic", "reason"]).to_pandas()
    counts = pd.crosstab(rows["reason"], rows["topic"])
    counts = counts.reindex(columns=list(KIND_OF), fill_value=0)
    return counts.loc[counts.sum(axis=1).sort_values(ascending=False).index]


def _samples(table: pa.Table) -> list[DeadLetter]:
    rows = table.select(list(DeadLetter._fields)).to_pandas()
    first = rows.sort_values(["topic", "partition", "offset"]).drop_duplicates("reason").head(SAMPLES)
    return [DeadLetter(*row) for row in first.itertuples(index=False)]


class Counted(NamedTuple):
    """How the events of all minutes came into windows."""

    by_the_stream: int
    by_the_backfill: int
    nowhere: int
    """Those that came when the watermark had passed their window. They are in the tables of events all the same."""


def counted(found: Findings) -> Counted:
    streamed, closed, all_events = (
        int(frame.to_numpy().sum()) for frame in (found.streamed_windows, found.windows, found.per_minute)
    )
    return Counted(streamed, closed - streamed, all_events - closed)


def differences(found: Findings, counts: dict[str, Any]) -> list[str]:
    """Differences between the tables and the generator's counts; empty if nothing was lost or doubled."""
    reported = []

    def compare(subject: str, in_table: object, counted: object) -> None:
        if in_table != counted:
            reported.append(f"{subject}: {in_table} in the tables, {counted} by the generator")

    dead = {topic: int(found.dead[topic].sum()) for topic in KIND_OF}
    broken = dict.fromkeys(KIND_OF, 0)
    for one in counts["broken"]:
        broken[one["topic"]] += one["records"]
    compare("events", found.rows, counts["whole"])
    compare("dead letters", dead, broken)
    compare("visits of the funnel", found.funnel, counts["funnel"])
    compare("late events", found.late, counts["late"])
    compare("views by page", {page: int(views) for page, views in found.pages.items()}, counts["pages"])
    for kind in KINDS:
        compare(f"{kind} by minute", _minutes(found.per_minute[kind]), counts["per_minute"][kind])
        too_many = found.windows[kind].sub(found.per_minute[kind], fill_value=0)
        for minute, events in too_many[too_many > 0].items():
            reported.append(f"the window of {kind} at {minute:%H:%M} has {events:.0f} events more than there are")
    compare("visits with a last page", found.visits, counts["funnel"][VIEW])
    if found.outdated_visits:
        reported.append(f"{found.outdated_visits} visits have another last page than their newest view's")
    if found.doubles:
        reported.append(f"{found.doubles} rows are there more than once")
    return reported


def _minutes(events: pd.Series[int]) -> dict[str, int]:
    """As the tally tells them: by ms since 1970, minutes without an event left out."""
    return {str(int(minute.timestamp()) * 1000): int(count) for minute, count in events.items() if count}
