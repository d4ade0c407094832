"""Records of a share partition by their stored state, as runs of offsets; what is written later replaces it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sordini.system.named_tuple import NamedTuple


class StateRun(NamedTuple):
    """Offsets, half-open, of one state and number of deliveries; the state's numbers are those of the topic."""

    first: int
    end: int
    state: int
    deliveries: int


def with_written(runs: Sequence[StateRun], written: Iterable[StateRun], start: int) -> tuple[StateRun, ...]:
    """The runs after a write: sorted, without overlaps, nothing below `start`, neighbours different.

    A record that was delivered more often, or as often with a higher state, stays as it is: writes that overtake each
    other do not undo each other.
    """
    found = list(runs)
    for run in written:
        found = _overlaid(found, run)
    return tuple(_joined(run._replace(first=max(run.first, start)) for run in found if run.end > start))


def _overlaid(runs: Iterable[StateRun], added: StateRun) -> list[StateRun]:
    """Sorted runs with one more, which takes the place of what is older."""
    kept, free = [], [added]
    for run in runs:
        if _rank(run) > _rank(added):
            kept.append(run)
            free = [part for each in free for part in _outside(each, run)]
        else:
            kept += _outside(run, added)
    return sorted(kept + free)


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
