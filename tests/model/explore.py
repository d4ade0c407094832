"""Breadth-first search of every reachable state, so that the first violation found has the shortest trace.

It knows no protocol: a `StateSpace` gives the first state, the steps from each, and the law that a state breaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

Did = tuple[Any, ...]


class StateSpace(Protocol):
    """States of a protocol. One is numbered (`Numbered`, any value), and states alike are packed into one integer."""

    def first(self) -> Any: ...

    def steps(self, numbered: Any) -> Iterable[tuple[Did, Any]]:
        """Everything that can happen in a state, and the state after it."""

    def canonical(self, numbered: Any) -> int:
        """One integer for all states that differ only in names."""

    def unpacked(self, packed: int) -> Any:
        """A state of those."""

    def world(self, numbered: Any) -> Any:
        """The state to be printed."""

    def broken(self, numbered: Any) -> str:
        """The law that is broken in a state, or an empty string."""

    @property
    def has_broken(self) -> bool:
        """Whether `broken_by_step` has to be called."""

    def broken_by_step(self, before: Any, after: Any) -> str:
        """The law that a step breaks, or an empty string."""


class Explored(NamedTuple):
    worlds: int
    """Distinct ones, up to names."""
    steps: int
    depth: int
    is_whole: bool
    """Nothing is left to explore."""
    broken: str
    """The law that was found broken, or nothing."""
    way: list[tuple[Did, Any]]
    """How it came to that: what was done, and the world after it."""


def explore(space: StateSpace, worlds_max: int = 1 << 40, *, watched: frozenset[str] | None = None) -> Explored:
    """Look at worlds until one breaks a law that is `watched` (None: any), none is left, or there were `worlds_max`."""
    first = space.canonical(space.first())
    before = {first: first}
    nearest, depth, count = [first], 0, 0
    while nearest:
        farther: list[int] = []
        for packed in nearest:
            numbered = space.unpacked(packed)
            for _, after in space.steps(numbered):
                count += 1
                found = space.canonical(after)
                is_new = found not in before
                broken = space.broken(after) if is_new else ""
                if not broken and space.has_broken:
                    broken = space.broken_by_step(numbered, after)
                if is_new:
                    before[found] = packed
                    farther.append(found)
                if broken and (watched is None or broken in watched):
                    way = _way(space, before, packed, after)
                    return Explored(len(before), count, depth + 1, is_whole=False, broken=broken, way=way)
            if len(before) >= worlds_max:
                return Explored(len(before), count, depth, is_whole=False, broken="", way=[])
        nearest = farther
        depth += bool(nearest)
    return Explored(len(before), count, depth, is_whole=True, broken="", way=[])


def _way(space: StateSpace, before: dict[int, int], last: int, broken: Any) -> list[tuple[Did, Any]]:
    """From the start to `last` and one step more. Names stay the same along the way."""
    stations = [space.canonical(broken), last]
    while before[stations[-1]] != stations[-1]:
        stations.append(before[stations[-1]])
    stations.reverse()
    here = space.unpacked(stations[0])
    way: list[tuple[Did, Any]] = [(("starts",), space.world(here))]
    for station in stations[1:]:
        did, here = next(step for step in space.steps(here) if space.canonical(step[1]) == station)
        way.append((did, space.world(here)))
    return way
