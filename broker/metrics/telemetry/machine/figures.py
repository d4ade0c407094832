"""The values of metrics that clients have pushed, within bounds. Pure.

A gauge is replaced by its next value, and gone when a push is without it. A counter is pushed as what was added since
the last push (delta temporality), so its total is summed up here, from the first push that this broker got.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from sordini.system.named_tuple import NamedTuple

FIGURES_PER_CLIENT_MAX: Final = 1_000
"""So that one client does not take the place of all."""


class FigureKind(IntEnum):
    """What a value is."""

    GAUGE = 0
    TOTAL = 1
    DELTA = 2
    """To be added to a total."""


class Name(NamedTuple):
    """A metric, and the attributes that tell it from others of the same name."""

    metric: str
    labels: tuple[tuple[str, str], ...]


class PushedValue(NamedTuple):
    """One value of a push."""

    name: Name
    kind: FigureKind
    value: float


class Figure(NamedTuple):
    """The newest value of one metric of one client."""

    kind: FigureKind
    """GAUGE or TOTAL."""
    value: float
    at_ms: int


class GroupMember(NamedTuple):
    """The membership that a consumer names in its push."""

    group_id: str
    member_id: str


class Decoded(NamedTuple):
    """What was pushed."""

    values: list[PushedValue]
    dropped: int
    """Values that are not read, because there are too many or their names are too long."""
    member: GroupMember | None = None
    """Of a consumer with a group."""


Figures = dict[Name, Figure]
"""Of one client."""


class FigureBounds:
    """Counts the values that are kept of all clients, and those that had no room."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self.series = 0
        self.dropped = 0

    def keep(self, figures: Figures, pushed: Sequence[PushedValue], at_ms: int) -> int:
        """Take the values of a push into a client's figures; returns how many were dropped."""
        present = {value.name for value in pushed}
        for name in [name for name, figure in figures.items() if figure.kind is FigureKind.GAUGE]:
            if name not in present:
                del figures[name]
                self.series -= 1
        dropped = 0
        for value in pushed:
            former = figures.get(value.name)
            if former is None:
                if self.series >= self._series_max or len(figures) >= FIGURES_PER_CLIENT_MAX:
                    dropped += 1
                    continue
                self.series += 1
            figures[value.name] = _next(former, value, at_ms)
        self.dropped += dropped
        return dropped

    def forget(self, figures: Figures) -> None:
        """A client is gone with all its values."""
        self.series -= len(figures)
        figures.clear()


def _next(former: Figure | None, value: PushedValue, at_ms: int) -> Figure:
    if value.kind is FigureKind.GAUGE:
        return Figure(FigureKind.GAUGE, value.value, at_ms)
    total = value.value
    if value.kind is FigureKind.DELTA and former is not None and former.kind is FigureKind.TOTAL:
        total += former.value
    return Figure(FigureKind.TOTAL, total, at_ms)
