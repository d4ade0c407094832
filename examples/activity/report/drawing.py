"""How every figure of the report looks: colours, type, axes without clutter."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import matplotlib as mpl

# No window system is needed, nor looked for.
mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.activity.generator.visits import CLICK, SEARCH, VIEW

INK = "#22262b"
QUIET = "#7a828c"
GRID = "#e6e8eb"
ALARM = "#c2413a"
COLOURS = {VIEW: "#2f6db5", SEARCH: "#e0912f", CLICK: "#2d9a78"}
LABELS = {VIEW: "page views", SEARCH: "searches", CLICK: "clicks"}
DOTS_PER_INCH = 160

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.9,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "ytick.left": False,
    "figure.facecolor": "white",
    "lines.linewidth": 1.8,
}


@contextmanager
def figure(width: float, height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure of so many inches with one pair of axes; closed at the end."""
    # Fonts that a machine lacks are passed over; matplotlib would say so for each text.
    with plt.rc_context(cast("Any", {**_STYLE, "font.sans-serif": _fonts()})):
        drawn, axes = plt.subplots(figsize=(width, height), layout="constrained")
        try:
            yield drawn, axes
        finally:
            plt.close(drawn)


def _fonts() -> list[str]:
    from matplotlib import font_manager

    there = set(font_manager.get_font_names())
    return [name for name in _STYLE["font.sans-serif"] if name in there] or ["sans-serif"]


def as_png(drawn: Figure) -> bytes:
    held = io.BytesIO()
    drawn.savefig(held, format="png", dpi=DOTS_PER_INCH)
    return held.getvalue()


def clock_on(axis: Any) -> None:
    """Ticks of an axis of times: hours and minutes, UTC."""
    from matplotlib import dates

    axis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=7))  # type: ignore[no-untyped-call]
    axis.set_major_formatter(dates.DateFormatter("%H:%M"))  # type: ignore[no-untyped-call]


def counts_on(axis: Any) -> None:
    """Ticks of an axis of counts: whole numbers, thousands set apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
