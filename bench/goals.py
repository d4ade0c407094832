"""Goals beside figures: a bound for the ratio to Apache Kafka, or for our own figure, and whether it is reached."""

from __future__ import annotations

from typing import NamedTuple

NO_GOAL = ""


class Goal(NamedTuple):
    """at_least: more is better; unit: of a bound for our figure itself, None of one for the ratio to theirs."""

    bound: float
    at_least: bool
    unit: str | None = None
    most: float | None = None
    """Of a ratio that may be neither smaller than the bound nor greater than this."""

    def judged(self, theirs: float, ours: float) -> str:
        """The goal as the table's last column, with whether it is reached; not judged where there is no ratio."""
        text = (
            f"{'>=' if self.at_least else '<='} {self.bound:g}{'x' if self.unit is None else f' {self.unit}'.rstrip()}"
        )
        if self.most is not None:
            text = f"{self.bound:g}x to {self.most:g}x"
        if self.unit is None and theirs <= 0:
            return text
        value = ours if self.unit is not None else ours / theirs
        is_reached = value >= self.bound if self.at_least else value <= self.bound
        if self.most is not None:
            is_reached = is_reached and value <= self.most
        return f"{text}: {'reached' if is_reached else '**missed**'}"


def at_least(ratio: float) -> Goal:
    return Goal(ratio, at_least=True)


def between(low: float, most: float) -> Goal:
    return Goal(low, at_least=True, most=most)


def at_most(ratio: float) -> Goal:
    return Goal(ratio, at_least=False)


def ours_at_most(bound: float, unit: str) -> Goal:
    return Goal(bound, at_least=False, unit=unit)


def summary(lines: list[str]) -> str:
    """How many of the goals in a table's lines are reached, for the log."""
    reached, missed = (sum(line.rstrip().endswith(f"{word} |") for line in lines) for word in ("reached", "**missed**"))
    return f"{reached} of {reached + missed} goals reached"
