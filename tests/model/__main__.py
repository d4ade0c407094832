"""Explore the protocols: `python -m tests.model`, one `--scope` of it, or the bugs it must find: `--planted`.

There are four models: replication, with the product's deciders; transactions, with the product's rule against delayed
requests; consumer groups of KIP-848 and share partitions of KIP-932, with the product's machines. Prints how many worlds each scope has, and the shortest way on which each former or incomplete rule
does harm. Exits with 1 when the product breaks a law, when such a rule or a planted bug does not, or when something
was left unexplored.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

from tests.model import planted_bugs, trace_text, variants
from tests.model.consumer_groups import planted_bugs as group_bugs
from tests.model.consumer_groups import rules as group_rules
from tests.model.consumer_groups import scopes as group_scopes
from tests.model.consumer_groups import space as group_space
from tests.model.consumer_groups import trace_text as group_text
from tests.model.consumer_groups import variants as group_variants
from tests.model.explore import Explored, explore
from tests.model.rules import SCOPES, Rules
from tests.model.shares import planted_bugs as share_bugs
from tests.model.shares import world as share_world
from tests.model.space import Space
from tests.model.transactions import planted_bugs as transaction_bugs
from tests.model.transactions import rules as transaction_rules
from tests.model.transactions import scopes as transaction_scopes
from tests.model.transactions import space as transaction_space
from tests.model.transactions import trace_text as transaction_text
from tests.model.transactions import variants as transaction_variants

PROCESSES_MAX = 2


class Model(NamedTuple):
    """A protocol: what is explored by name, and how a trace is printed."""

    scopes: dict[str, Callable[[int], Explored]]
    """Each explores at most that many worlds."""
    variants: dict[str, Callable[[], Explored]]
    bugs: dict[str, Callable[[], Explored]]
    reported: Callable[[list[Any], str], str]
    larger: dict[str, Callable[[int], Explored]] = {}  # noqa: RUF012 - of a named tuple; it is never changed.
    """Scopes that are explored when they are named, and not else."""


def _replicated(scope: Any, worlds_max: int) -> Explored:
    return explore(Space(Rules(scope)), worlds_max)


def _transacted(scope: Any, worlds_max: int) -> Explored:
    return explore(transaction_space.Space(transaction_rules.Rules(scope)), worlds_max)


def _shared(scope: share_world.Scope, worlds_max: int) -> Explored:
    return share_world.explore(worlds_max=worlds_max, scope=scope)


def _shown(way: list[tuple[Any, Any]], broken: str) -> str:
    """A line for each step."""
    lines = [f"{number:3}. {did[0]}" for number, (did, _) in enumerate(way, 1)]
    return "\n".join([*lines, f"     Broken: {broken}."])


def _grouped(scope: Any, worlds_max: int) -> Explored:
    return explore(group_space.Space(group_rules.Rules(scope)), worlds_max)


MODELS = {
    "replication": Model(
        {scope.name: partial(_replicated, scope) for scope in SCOPES},
        {name: partial(variants.found, name) for name in variants.VARIANTS},
        {name: partial(planted_bugs.found, name) for name in planted_bugs.BUGS},
        trace_text.reported,
    ),
    "transactions": Model(
        {scope.name: partial(_transacted, scope) for scope in transaction_scopes.SCOPES},
        {name: partial(transaction_variants.found, name) for name in transaction_variants.VARIANTS},
        {name: partial(transaction_bugs.found, name) for name in transaction_bugs.BUGS},
        transaction_text.reported,
    ),
    "consumer groups": Model(
        {scope.name: partial(_grouped, scope) for scope in group_scopes.SCOPES},
        {name: partial(group_variants.found, name) for name in group_variants.VARIANTS},
        {name: partial(group_bugs.found, name) for name in group_bugs.BUGS},
        group_text.reported,
        {scope.name: partial(_grouped, scope) for scope in group_scopes.LARGER},
    ),
    "share partitions": Model(
        {scope.name: partial(_shared, scope) for scope in share_world.SCOPES},
        {},
        {name: partial(share_bugs.found, name) for name in share_bugs.BUGS},
        _shown,
        {scope.name: partial(_shared, scope) for scope in share_world.LARGER},
    ),
}


class Timed(NamedTuple):
    name: str
    explored: Explored
    seconds: float
    mebibytes: int
    story: str
    """How a law came to be broken."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    every = [name for model in MODELS.values() for name in (*model.scopes, *model.larger)]
    parser.add_argument("--model", choices=MODELS, help="this one only")
    parser.add_argument("--scope", choices=every, help="this one only, and no former rules")
    parser.add_argument("--worlds", type=int, default=1 << 40, metavar="N", help="no more of them in each scope")
    parser.add_argument("--processes", type=int, default=PROCESSES_MAX, choices=range(1, PROCESSES_MAX + 1))
    parser.add_argument("--planted", action="store_true", help="find every planted bug instead")
    arguments = parser.parse_args()
    wrong = 0
    with ProcessPoolExecutor(arguments.processes, get_context("fork")) as pool:
        for title, model in MODELS.items():
            if arguments.model not in (None, title):
                continue
            if arguments.scope and arguments.scope not in model.scopes | model.larger:
                continue
            _say(f"\n{title}")
            if arguments.planted:
                wrong += _planted(_all(pool, title, "bugs", model.bugs))
                continue
            scopes = model.scopes if arguments.scope is None else [arguments.scope]
            kind = "larger" if arguments.scope in model.larger else "scopes"
            wrong += _scopes(_all(pool, title, kind, scopes, arguments.worlds))
            if arguments.scope is None:
                wrong += _variants(_all(pool, title, "variants", model.variants))
    return 1 if wrong else 0


def _all(pool: ProcessPoolExecutor, title: str, kind: str, names: Iterable[str], *arguments: Any) -> Iterator[Timed]:
    """Everything is begun at once, and given in order."""
    begun = [pool.submit(_timed, title, kind, name, *arguments) for name in names]
    return (one.result() for one in begun)


def _timed(title: str, kind: str, name: str, *arguments: Any) -> Timed:
    began = time.monotonic()
    explored = getattr(MODELS[title], kind)[name](*arguments)
    seconds = time.monotonic() - began
    story = MODELS[title].reported(explored.way, explored.broken) if explored.broken else ""
    # Not every state can be sent to another process.
    found = explored._replace(way=[])
    return Timed(name, found, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, story)


def _scopes(found: Iterable[Timed]) -> int:
    wrong = worlds = 0
    for name, explored, seconds, mebibytes, story in found:
        worlds += explored.worlds
        outcome = explored.broken or ("no law is broken" if explored.is_whole else "not all of it explored")
        _say(
            f"{name}: {explored.worlds:,} distinct worlds ({explored.steps:,} steps, depth {explored.depth}) in "
            f"{seconds:.0f} s, {explored.worlds / seconds:,.0f}/s, {mebibytes} MiB: {outcome}"
        )
        if explored.broken:
            _say(story)
        wrong += bool(explored.broken) or not explored.is_whole
    _say(f"together: {worlds:,} distinct worlds up to names")
    return wrong


def _variants(found: Iterable[Timed]) -> int:
    missed = 0
    for name, explored, seconds, _, story in found:
        _say(f"\n{name}: {_found(explored, seconds)}")
        if explored.broken:
            _say(story)
        missed += not explored.broken
    return missed


def _planted(found: Iterable[Timed]) -> int:
    missed = count = 0
    for name, explored, seconds, *_ in found:
        _say(f"{name}: {_found(explored, seconds)}")
        missed += not explored.broken
        count += 1
    _say(f"{count} bugs, {missed} missed")
    return missed


def _found(explored: Explored, seconds: float) -> str:
    if not explored.broken:
        return f"not found in {explored.worlds:,} worlds ({seconds:.1f} s)"
    return f"{explored.broken}, after {explored.worlds:,} worlds, {explored.depth} steps deep ({seconds:.1f} s)"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
