"""The report's figures: each takes numbers and returns a PNG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from examples.activity.demo.lag import Sample
from examples.activity.generator.tally import LATE_MINUTES
from examples.activity.generator.visits import CLICK, KINDS, SEARCH, VIEW
from examples.activity.report.drawing import (
    ALARM,
    COLOURS,
    INK,
    LABELS,
    QUIET,
    as_png,
    clock_on,
    counts_on,
    figure,
)
from examples.activity.report.findings import LATENESS_EDGES_SECONDS, Findings, counted

TOP_PAGES = 14


def per_minute(found: Findings) -> bytes:
    """Views, searches and clicks over the time played."""
    with figure(10.4, 3.6) as (drawn, axes):
        for kind in KINDS:
            counts = found.per_minute[kind]
            smooth = counts.rolling(5, center=True, min_periods=1).mean()
            axes.fill_between(counts.index, counts.to_numpy(), color=COLOURS[kind], alpha=0.16, linewidth=0)
            axes.plot(smooth.index, smooth.to_numpy(), color=COLOURS[kind])
            _labelled(axes, smooth, kind)
        views = found.per_minute[VIEW]
        peak = views.idxmax()
        axes.annotate(
            f"{views.max():,} views at {peak:%H:%M}",
            (peak, views.max()),
            xytext=(10, -3),
            textcoords="offset points",
            color=INK,
            fontsize=9,
            va="top",
        )
        axes.plot([peak], [views.max()], "o", color=COLOURS[VIEW], markersize=4)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        clock_on(axes.xaxis)
        axes.set_xlabel("time at which it happened, UTC")
        counts_on(axes.yaxis)
        return as_png(drawn)


def _labelled(axes: Axes, line: pd.Series[float], kind: str) -> None:
    """The line's name right above it, a little way in; the lowest one's below it, where there is room."""
    place = len(line) // 14
    near = line.iloc[place : place + len(line) // 7 + 1]
    is_lowest = kind == CLICK
    axes.annotate(
        LABELS[kind],
        (line.index[place], float(near.min() if is_lowest else near.max())),
        xytext=(0, -4 if is_lowest else 5),
        va="top" if is_lowest else "bottom",
        textcoords="offset points",
        color=COLOURS[kind],
        fontweight="bold",
        fontsize=9,
    )


def top_pages(found: Findings) -> bytes:
    with figure(5.6, 4.6) as (drawn, axes):
        pages = found.pages.head(TOP_PAGES)[::-1]
        places = np.arange(len(pages))
        axes.barh(places, pages.to_numpy(), color=COLOURS[VIEW], height=0.68)
        total = int(found.pages.sum())
        for place, views in zip(places, pages, strict=True):
            axes.annotate(
                f"{views:,}  ·  {views / total:.1%}",
                (views, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=QUIET,
                fontsize=8,
            )
        axes.set_yticks(places, [_shortened(str(page)) for page in pages.index], color=INK)
        axes.set_xlim(right=float(pages.max()) * 1.4)
        axes.margins(y=0.01)
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        return as_png(drawn)


def _shortened(path: str, letters_max: int = 36) -> str:
    return path if len(path) <= letters_max else path[: letters_max - 1] + "…"


def funnel(found: Findings) -> bytes:
    with figure(4.8, 4.6) as (drawn, axes):
        counts = [found.funnel[kind] for kind in KINDS]
        first = counts[0] or 1
        words = {VIEW: "looked at a page", SEARCH: "searched", CLICK: "clicked on a result"}
        for place, (kind, count) in enumerate(zip(KINDS, counts, strict=True)):
            width = count / first
            axes.barh(-place, width, left=-width / 2, height=0.62, color=COLOURS[kind])
            axes.annotate(
                f"{count:,} visits",
                (0, -place + 0.07),
                ha="center",
                va="center",
                color="white",
                fontsize=12,
                fontweight="bold",
            )
            axes.annotate(words[kind], (0, -place - 0.15), ha="center", va="center", color="white", fontsize=8.5)
            if place:
                lost = counts[place - 1] or 1
                axes.annotate(
                    f"▼  {count / lost:.0%} go on", (0, -place + 0.5), ha="center", va="center", color=QUIET, fontsize=9
                )
        axes.set_ylim(-2.45, 0.45)
        axes.set_xlim(-0.52, 0.52)
        axes.set_axis_off()
        return as_png(drawn)


def positions(found: Findings) -> bytes:
    """Clicks by the place of the result among those shown."""
    with figure(4.8, 2.7) as (drawn, axes):
        places = found.positions
        axes.bar(places.index.astype(str), places.to_numpy(), color=COLOURS[CLICK], width=0.66)
        axes.set_xlabel("place of the result that was clicked")
        counts_on(axes.yaxis)
        return as_png(drawn)


def lag(samples: Sequence[Sample], stopped_seconds: float | None) -> bytes:
    """How far the stream is behind the producer, in records, while both run."""
    with figure(10.4, 3.2) as (drawn, axes):
        seconds = [sample.seconds for sample in samples]
        behind = [sample.in_topics - sample.in_tables for sample in samples]
        axes.fill_between(seconds, behind, step="post", color=ALARM, alpha=0.16, linewidth=0)
        axes.step(seconds, behind, where="post", color=ALARM)
        axes.set_ylabel("records behind", color=ALARM)
        beside = axes.twinx()
        beside.grid(visible=False)
        beside.plot(seconds, [sample.in_topics for sample in samples], color=QUIET, linewidth=1.2)
        beside.set_ylabel("records in the topics")
        if stopped_seconds is not None:
            axes.axvline(stopped_seconds, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(
                "the producer is done",
                (stopped_seconds, 1.01),
                xycoords=("data", "axes fraction"),
                ha="center",
                va="bottom",
                color=QUIET,
                fontsize=8.5,
            )
        axes.set_ylim(bottom=0)
        beside.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.set_xlabel("seconds since the first record was sent")
        counts_on(axes.yaxis)
        counts_on(beside.yaxis)
        return as_png(drawn)


def lateness(found: Findings) -> bytes:
    """How late events arrived, and what that means for windows that wait so long."""
    with figure(5.4, 3.3) as (drawn, axes):
        draw_lateness(axes, found)
        return as_png(drawn)


def draw_lateness(axes: Axes, found: Findings) -> None:
    """On an axis of powers heights cannot be put on top of each other: each kind has a line of its own."""
    bins = np.arange(len(LATENESS_EDGES_SECONDS) + 1)
    highest = 0
    for kind in KINDS:
        counts = found.lateness[kind]
        axes.stairs(counts, bins, color=COLOURS[kind], label=LABELS[kind], linewidth=1.8)
        highest = max(highest, *counts)
    limit = LATENESS_EDGES_SECONDS.index(LATE_MINUTES * 60)
    axes.axvspan(limit, len(bins) - 1, color=ALARM, alpha=0.08, linewidth=0)
    axes.annotate(
        f"{sum(found.late.values()):,} events\nmore than\n{LATE_MINUTES} minutes late",
        (limit + 0.15, 0.97),
        xycoords=("data", "axes fraction"),
        va="top",
        color=ALARM,
        fontsize=8.5,
    )
    # Most are on time: without it, the late ones would be a line on the floor.
    axes.set_yscale("symlog", linthresh=10)
    axes.set_yticks([0, 10, 100, 1_000, 10_000, 100_000], ["0", "10", "100", "1,000", "10,000", "100,000"])
    axes.set_ylim(0, max(highest * 2.2, 20))
    axes.set_xlim(0, len(bins) - 1)
    axes.set_ylabel("events")
    ticks = [place for place, edge in enumerate(LATENESS_EDGES_SECONDS) if edge in {0, 1, 10, 60, 600, 2400}]
    axes.set_xticks(ticks, [_time_text(LATENESS_EDGES_SECONDS[place]) for place in ticks])
    axes.set_xlabel("from happening to the producer")
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, labelcolor=INK)


def _time_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def closed(found: Findings) -> bytes:
    """How each minute's events came into its window: by the stream, by the backfill, or too late for either."""
    with figure(5.4, 3.3) as (drawn, axes):
        events = found.per_minute.sum(axis=1)
        streamed, windows = (
            frame.sum(axis=1).reindex(events.index, fill_value=0) for frame in (found.streamed_windows, found.windows)
        )
        reported = counted(found)
        below = events * 0
        for heights, colour, label in (
            (streamed, COLOURS[VIEW], f"closed by the stream: {reported.by_the_stream:,} events"),
            (windows - streamed, COLOURS[SEARCH], f"closed by the backfill: {reported.by_the_backfill:,}"),
            (events - windows, ALARM, f"after the watermark: {reported.nowhere:,}"),
        ):
            axes.bar(events.index, heights, bottom=below, width=pd.Timedelta(minutes=1), color=colour, label=label)
            below = below + heights
        axes.set_ylim(0, float(events.max()) * 1.05)
        axes.margins(x=0)
        clock_on(axes.xaxis)
        counts_on(axes.yaxis)
        axes.set_ylabel("events a minute")
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), labelcolor=INK)
        return as_png(drawn)


def dead_letters(found: Findings) -> bytes:
    with figure(10.4, 0.9 + 0.36 * len(found.dead)) as (drawn, axes):
        places = np.arange(len(found.dead))[::-1]
        left = np.zeros(len(found.dead))
        for topic, kind in zip(found.dead.columns, KINDS, strict=True):
            counts = found.dead[topic].to_numpy()
            axes.barh(places, counts, left=left, height=0.62, color=COLOURS[kind], label=topic)
            left += counts
        for place, total in zip(places, left, strict=True):
            axes.annotate(
                f"{total:,.0f}",
                (total, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                color=QUIET,
                fontsize=8.5,
            )
        axes.set_yticks(places, [_shortened(str(reason), 60) for reason in found.dead.index], color=INK)
        axes.grid(visible=False)
        axes.spines["bottom"].set_visible(False)
        axes.set_xticks([])
        axes.legend(frameon=False, fontsize=8.5, loc="lower right", labelcolor=INK)
        return as_png(drawn)
