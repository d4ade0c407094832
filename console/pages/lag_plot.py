"""The lag of a group over time as the points of a drawing, with a line for what comes if the rates stay. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sordini.client.lag.outlook import Outlook, OutlookKind
from sordini.console.readers.group_lags import LagPoint
from sordini.system.named_tuple import NamedTuple

WIDTH: Final = 1000
HEIGHT: Final = 160
HEAD_PART: Final = 0.08
"""Of the height, above the highest point."""
SPAN_MS_MIN: Final = 60_000
AHEAD_PART: Final = 0.5
"""The forecast is for this part of the time that is shown."""
GAP_MS: Final = 30_000
"""Points that are farther apart are not joined: the lag in between is not known."""


class LagPlot(NamedTuple):
    """What the template draws, in units of a viewBox WIDTH wide and HEIGHT high."""

    lines: list[str]
    """`x,y x,y ...`: one for each time without a gap."""
    now: tuple[float, float]
    forecast: tuple[float, float] | None
    """Where the dashed line from `now` ends."""
    highest: int
    first_ms: int
    last_ms: int
    ends_ms: int
    """The right edge."""
    lag: int


def lag_plot(points: Sequence[LagPoint], outlook: Outlook) -> LagPlot | None:
    """The drawing; None before the first point."""
    if not points:
        return None
    first, last = points[0], points[-1]
    span_ms = max(last.at_ms - first.at_ms, SPAN_MS_MIN)
    ends_ms = last.at_ms + int(span_ms * AHEAD_PART)
    begins_ms = last.at_ms - span_ms
    ahead = _ahead(last, outlook, ends_ms)
    highest = max(1, *(point.lag for point in points), 0 if ahead is None else ahead.lag)

    def place(point: LagPoint) -> tuple[float, float]:
        x = WIDTH * (point.at_ms - begins_ms) / (ends_ms - begins_ms)
        y = HEIGHT - HEIGHT * (1 - HEAD_PART) * point.lag / highest
        return round(x, 1), round(y, 1)

    return LagPlot(
        [" ".join("{},{}".format(*place(point)) for point in run) for run in _runs(points)],
        place(last),
        None if ahead is None else place(ahead),
        highest,
        begins_ms,
        last.at_ms,
        ends_ms,
        last.lag,
    )


def _ahead(last: LagPoint, outlook: Outlook, ends_ms: int) -> LagPoint | None:
    """The end of the forecast: where the lag is gone, or at the edge."""
    match outlook.kind:
        case OutlookKind.CATCHING_UP:
            gone_ms = 1000 * (outlook.seconds or 0)
            shown_ms = min(gone_ms, ends_ms - last.at_ms)
            rest = 0.0 if gone_ms <= 0 else 1 - shown_ms / gone_ms
            return LagPoint(last.at_ms + int(shown_ms), round(last.lag * rest))
        case OutlookKind.FALLING_BEHIND | OutlookKind.NOT_READING:
            return LagPoint(ends_ms, last.lag + round((outlook.per_s or 0) * (ends_ms - last.at_ms) / 1000))
        case OutlookKind.KEEPING_PACE:
            return LagPoint(ends_ms, last.lag)
        case OutlookKind.CAUGHT_UP | OutlookKind.UNKNOWN:
            return None


def _runs(points: Sequence[LagPoint]) -> list[list[LagPoint]]:
    runs = [[points[0]]]
    for before, point in pairwise(points):
        if point.at_ms - before.at_ms > GAP_MS:
            runs.append([])
        runs[-1].append(point)
    return runs
