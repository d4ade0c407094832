"""The benchmark's tables as Markdown, and their places in docs/benchmarks.md and docs/evidence/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.goals import NO_GOAL, Goal
from bench.starting import Start
from bench.works import Figures, Work

MAIN = "benchmark table"
PAGES = ("benchmarks.md", "evidence/benchmarks.md")
"""Below docs/: what users ask for first, and all other tables."""


Goals = Mapping[str, Goal]
"""The goals of figures by their field's name; a table with goals has a column more."""


def head(theirs: str, ours: str, *, goals: bool = False) -> str:
    more, line = (" goal |", " --- |") if goals else ("", "")
    return f"| work | figure | {theirs} | {ours} | ratio |{more}\n| --- | --- | --: | --: | --: |{line}"


def row(work: str, figure: str, theirs: float, ours: float, *, digits: int = 0) -> str:
    ratio = f"{ours / theirs:.2f}" if theirs > 0 else "-"
    return f"| {work} | {figure} | {theirs:,.{digits}f} | {ours:,.{digits}f} | {ratio} |"


def judged_row(work: str, figure: str, theirs: float, ours: float, goal: Goal | None, *, digits: int = 0) -> str:
    """A row of a table with goals; this one need not have one."""
    verdict = goal.judged(theirs, ours) if goal else NO_GOAL
    return f"{row(work, figure, theirs, ours, digits=digits)} {verdict} |"


def _middle(figures: list[Figures], name: str) -> float:
    return float(median(getattr(one, name) for one in figures))


def work_rows(work: Work, theirs: list[Figures], ours: list[Figures], goals: Goals | None = None) -> list[str]:
    """The rows of one kind of work: the median of all rounds on each side."""

    def line(first: str, label: str, name: str, digits: int) -> str:
        values = _middle(theirs, name), _middle(ours, name)
        if goals is None:
            return row(first, label, *values, digits=digits)
        return judged_row(first, label, *values, goals.get(name), digits=digits)

    unit = "request" if work.is_single else "record"
    rows = [line(work.name, f"{unit}s/s", "per_second", 0)]
    rows.append(line("", f"broker CPU, µs/{unit}", "cpu_us", 2))
    if work.is_single:
        rows += [line("", "p50, µs", "p50_us", 0), line("", "p99, µs", "p99_us", 0)]
    return rows


def start_rows(theirs: list[Start], ours: list[Start], goals: Goals | None = None) -> list[str]:
    """What started brokers need when idle; the start itself has a table of its own (`bench.installed_start`)."""
    theirs_value, ours_value = (median(one.idle_bytes for one in side) / 2.0**20 for side in (theirs, ours))
    if goals is None:
        return [row("memory, idle", "MiB", theirs_value, ours_value)]
    return [judged_row("memory, idle", "MiB", theirs_value, ours_value, goals.get("idle_bytes"))]


def write(docs: Path, name: str, table: str) -> None:
    """Put a table between the markers of its name, on the page that has them. Raises SystemExit when none has."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    for page in (docs / one for one in PAGES):
        text = page.read_text(encoding="utf-8")
        if begin in text and end in text:
            head, _, rest = text.partition(begin)
            page.write_text(f"{head}{begin}\n\n{table}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")
            return
    raise SystemExit(f"{docs} has no place for the table: one of its pages needs the lines {begin} and {end}")
