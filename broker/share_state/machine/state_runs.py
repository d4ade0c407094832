"""Records of a share partition by their stored state, as runs of offsets; what is written later replaces it. Pure.

A write changes a few records of many: only the runs that it overlaps or touches are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from sordini.system.named_tuple import NamedTuple


class StateRun(NamedTuple):
    """Offsets, half-open, of one state and number of deliveries; the state's numbers are those of the topic."""

    first: int
    end: int
    state: int
    deliveries: int


_BY_FIRST: Final = itemgetter(0)


def with_written(runs: Sequence[StateRun], written: Iterable[StateRun], start: int) -> tuple[StateRun, ...]:
    """The runs after a write: sorted, without overlaps, nothing below `start`, neighbours different.

    `runs` are the result of a write. A record that was delivered more often, or as often with a higher state, stays as
    it is: writes that overtake each other do not undo each other.
    """
    found = list(runs)
    for run in written:
        if run.end > start:
            _overlay(found, run)
    below = 0
    while below < len(found) and found[below].first < start:
        below += 1
    if below:
        last = found[below - 1]
        found[:below] = [last._replace(first=start)] if last.end > start else []
    return tuple(found)


def _overlay(runs: list[StateRun], added: StateRun) -> None:
    """Put one more run into sorted runs, in the place of what is older."""
    first = bisect_left(runs, added.first, key=_BY_FIRST)
    behind = bisect_left(runs, added.end + 1, lo=first, key=_BY_FIRST)
    if first and runs[first - 1].end >= added.first:
        first -= 1
    runs[first:behind] = _joined(_overlaid(runs[first:behind], added))


def _overlaid(runs: Iterable[StateRun], added: StateRun) -> list[StateRun]:
    """Sorted runs with one more, which takes the place of what is older."""
    kept: list[StateRun] = []
    rest: StateRun | None = added
    for run in runs:
        if _rank(run) <= _rank(added):
            kept += _outside(run, added)
            continue
        kept.append(run)
        if rest is not None:
            before, after = rest._replace(end=min(rest.end, run.first)), rest._replace(first=max(rest.first, run.end))
            if before.first < before.end:
                kept.append(before)
            rest = after if after.first < after.end else None
    return sorted(kept if rest is None else [*kept, rest])


def _outside(run: StateRun, other: StateRun) -> list[StateRun]:
    """The parts of a run that are not in another's range."""
    before, behind = run._replace(end=min(run.end, other.first)), run._replace(first=max(run.first, other.end))
    return [part for part in (before, behind) if part.first < part.end]


def _rank(run: StateRun) -> tuple[int, int]:
    return run.deliveries, run.state


def _joined(runs: Iterable[StateRun]) -> list[StateRun]:
    joined: list[StateRun] = []
    for run in runs:
        if joined and joined[-1].end == run.first and joined[-1][2:] == run[2:]:
            joined[-1] = joined[-1]._replace(end=run.end)
        else:
            joined.append(run)
    return joined
