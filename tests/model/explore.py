"""Breadth-first search of every reachable state, so that the first violation found has the shortest trace."""

from __future__ import annotations

from typing import NamedTuple

from tests.model import invariants
from tests.model.rules import Did, Rules
from tests.model.space import Numbered, Space
from tests.model.state import World, start


class Explored(NamedTuple):
    worlds: int
    """Distinct ones, up to the names of the replicas."""
    steps: int
    depth: int
    is_whole: bool
    """Nothing is left to explore."""
    broken: str
    """The law that was found broken, or nothing."""
    way: list[tuple[Did, World]]
    """How it came to that: what was done, and the world after it."""


def explore(rules: Rules, worlds_max: int = 1 << 40, *, watched: frozenset[str] = invariants.ALL) -> Explored:
    """Look at worlds until one breaks a law that is `watched`, none is left, or there were `worlds_max`."""
    space = Space(rules)
    first = space.canonical(space.numbered(start()))
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
                if broken in watched:
                    way = _way(space, before, packed, after)
                    return Explored(len(before), count, depth + 1, is_whole=False, broken=broken, way=way)
            if len(before) >= worlds_max:
                return Explored(len(before), count, depth, is_whole=False, broken="", way=[])
        nearest = farther
        depth += bool(nearest)
    return Explored(len(before), count, depth, is_whole=True, broken="", way=[])


def _way(space: Space, before: dict[int, int], last: int, broken: Numbered) -> list[tuple[Did, World]]:
    """From the start to `last` and one step more. The names of the replicas stay the same along the way."""
    stations = [space.canonical(broken), last]
    while before[stations[-1]] != stations[-1]:
        stations.append(before[stations[-1]])
    stations.reverse()
    here = space.unpacked(stations[0])
    way: list[tuple[Did, World]] = [(("starts",), space.world(here))]
    for station in stations[1:]:
        did, here = next(step for step in space.steps(here) if space.canonical(step[1]) == station)
        way.append((did, space.world(here)))
    return way
