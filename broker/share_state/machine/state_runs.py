"""Records of a share partition by their stored state, as runs of offsets; what is written later replaces it. Pure.

For each record the state after more deliveries, or with as many the higher one, is what remains. Most writes change
a few records of many: only the runs that they overlap or touch are read. One of very many is merged with all runs in
one pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
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
_PASSED_PER_OVERLAID: Final = 12
"""So many runs are passed in the time of one overlay, measured with 100 to 2,000 runs over 10,000."""


def with_written(runs: Sequence[StateRun], written: Iterable[StateRun], start: int) -> tuple[StateRun, ...]:
    """The runs after a write: sorted, without overlaps, nothing below `start`, neighbours different.

    `runs` are the result of a write. A record that was delivered more often, or as often with a higher state, stays as
    it is: writes that overtake each other do not undo each other.
    """
    found = list(runs)
    for chain in _chains(run for run in written if run.end > start):
        if _PASSED_PER_OVERLAID * len(chain) > len(found) + len(chain):
            found = _joined(_merged(found, chain))
        else:
            for run in chain:
                _overlay(found, run)
    below = 0
    while below < len(found) and found[below].first < start:
        below += 1
    if below:
        last = found[below - 1]
        found[:below] = [last._replace(first=start)] if last.end > start else []
    return tuple(found)


def _chains(written: Iterable[StateRun]) -> Iterator[list[StateRun]]:
    """The runs in their order, as lists that are sorted and without overlaps: of most writes there is one."""
    chain: list[StateRun] = []
    for run in written:
        if chain and run.first < chain[-1].end:
            yield chain
            chain = []
        chain.append(run)
    if chain:
        yield chain


def _merged(runs: Sequence[StateRun], added: Sequence[StateRun]) -> Iterator[StateRun]:
    """Two sorted sequences without overlaps, as one; where they overlap, the newer state.

    10,000 runs take 4 ms with as many between them, and 14 ms with as many that overlap them.
    """
    lefts, rights = iter(runs), iter(added)
    left, right = next(lefts, None), next(rights, None)
    while left is not None and right is not None:
        if left.end <= right.first:
            yield left
            left = next(lefts, None)
        elif right.end <= left.first:
            yield right
            right = next(rights, None)
        elif left.first < right.first:
            yield _part(left, left.first, right.first)
            left = _part(left, right.first, left.end)
        elif right.first < left.first:
            yield _part(right, right.first, left.first)
            right = _part(right, left.first, right.end)
        else:
            end = min(left.end, right.end)
            yield _part(right if _rank(left) <= _rank(right) else left, left.first, end)
            left = _part(left, end, left.end) if end < left.end else next(lefts, None)
            right = _part(right, end, right.end) if end < right.end else next(rights, None)
    if left is not None:
        yield left
        yield from lefts
    if right is not None:
        yield right
        yield from rights


def _part(run: StateRun, first: int, end: int) -> StateRun:
    return StateRun(first, end, run.state, run.deliveries)


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
        if joined and (last := joined[-1]).end == run.first and last[2:] == run[2:]:
            joined[-1] = _part(last, last.first, run.end)
        else:
            joined.append(run)
    return joined
