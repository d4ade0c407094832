"""Explore the replication protocol: `python -m tests.model`, one `--scope` of it, or the bugs it must find: `--planted`.

The deciders are the product's. Prints how many worlds each scope has, and the shortest way on which each former rule
loses records. Exits with 1 when the product breaks a law, when a former rule or a planted bug does not, or when
something was left unexplored.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

from tests.model import planted_bugs, variants
from tests.model.explore import Explored, explore
from tests.model.rules import SCOPES, Rules
from tests.model.trace_text import told

PROCESSES_MAX = 2


class Timed(NamedTuple):
    name: str
    explored: Explored
    seconds: float
    mebibytes: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--scope", choices=[scope.name for scope in SCOPES], help="this one only, and no former rules")
    parser.add_argument("--worlds", type=int, default=1 << 40, metavar="N", help="no more of them in each scope")
    parser.add_argument("--processes", type=int, default=PROCESSES_MAX, choices=range(1, PROCESSES_MAX + 1))
    parser.add_argument("--planted", action="store_true", help="find every planted bug instead")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes, get_context("fork")) as pool:
        if arguments.planted:
            return _planted(pool)
        scopes = [scope.name for scope in SCOPES if arguments.scope in (None, scope.name)]
        wrong = _scopes(_all(pool, _explored, scopes, arguments.worlds))
        if arguments.scope is None:
            wrong += _variants(_all(pool, _variant, variants.VARIANTS))
        return 1 if wrong else 0


def _all(
    pool: ProcessPoolExecutor, work: Callable[..., Timed], names: Iterable[str], *arguments: Any
) -> Iterator[Timed]:
    """Everything is begun at once, and given in order."""
    begun = [pool.submit(work, name, *arguments) for name in names]
    return (one.result() for one in begun)


def _timed(name: str, exploring: Callable[[], Explored]) -> Timed:
    began = time.monotonic()
    explored = exploring()
    seconds = time.monotonic() - began
    return Timed(name, explored, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)


def _explored(name: str, worlds_max: int) -> Timed:
    scope = next(scope for scope in SCOPES if scope.name == name)
    return _timed(name, lambda: explore(Rules(scope), worlds_max))


def _variant(name: str) -> Timed:
    return _timed(name, lambda: variants.found(name))


def _bug(name: str) -> Timed:
    return _timed(name, lambda: planted_bugs.found(name))


def _scopes(found: Iterable[Timed]) -> int:
    wrong = worlds = 0
    for name, explored, seconds, mebibytes in found:
        worlds += explored.worlds
        outcome = explored.broken or ("no law is broken" if explored.is_whole else "not all of it explored")
        _say(
            f"{name}: {explored.worlds:,} distinct worlds ({explored.steps:,} steps, depth {explored.depth}) in "
            f"{seconds:.0f} s, {explored.worlds / seconds:,.0f}/s, {mebibytes} MiB: {outcome}"
        )
        if explored.broken:
            _say(told(explored.way, explored.broken))
        wrong += bool(explored.broken) or not explored.is_whole
    _say(f"together: {worlds:,} distinct worlds up to the names of the replicas")
    return wrong


def _variants(found: Iterable[Timed]) -> int:
    missed = 0
    for name, explored, seconds, _ in found:
        _say(f"\n{name}: {_found(explored, seconds)}")
        if explored.broken:
            _say(told(explored.way, explored.broken))
        missed += not explored.broken
    return missed


def _planted(pool: ProcessPoolExecutor) -> int:
    missed = 0
    for name, explored, seconds, _ in _all(pool, _bug, planted_bugs.BUGS):
        _say(f"{name} ({planted_bugs.BUGS[name].scope.name}): {_found(explored, seconds)}")
        missed += not explored.broken
    _say(f"{len(planted_bugs.BUGS)} bugs, {missed} missed")
    return 1 if missed else 0


def _found(explored: Explored, seconds: float) -> str:
    if not explored.broken:
        return f"not found in {explored.worlds:,} worlds ({seconds:.1f} s)"
    return f"{explored.broken}, after {explored.worlds:,} worlds, {explored.depth} steps deep ({seconds:.1f} s)"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
