"""The small request, and many of everything: one pair of brokers for all rows, a goal beside each that has one.

`--only "small requests"` measures these alone, in about ten minutes; `--only "small requests: tailing"` the rows
whose name holds the text after the colon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from bench import small_rows, starting, table
from bench.goals import at_least, at_most, ours_at_most, summary
from bench.log_starts import raise_limits
from bench.procfs import resident_bytes
from bench.sides import Say, Side, Sides
from bench.small_rows import Extent, Row, Values
from bench.works import Bench, Figures, Work, settle
from tests.outside.processes import BrokerProcess

PART = "small requests"
ROUNDS_MAX = 3  # of rows whose load is given: their figures vary less.
QUICK_RECORDS = 500
STARTS = 3
SETTINGS: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}

_ONE: table.Goals = {"per_second": at_least(1.8), "cpu_us": at_most(0.5), "p99_us": at_most(0.5)}
_SIXTEEN: table.Goals = {"per_second": at_least(1.4), "cpu_us": at_most(0.55), "p99_us": at_most(1.0)}
_BATCHED: table.Goals = {"per_second": at_least(1.2), "cpu_us": at_most(0.7)}
START_GOALS: table.Goals = {"idle_bytes": ours_at_most(45, "MiB")}

BATCHED = Work("produce, 64 KiB batches", "produce", 2_000_000)
ONE = Work("one record per request, 1 in flight", "single", 10_000)
SIXTEEN = Work("one record per request, 16 connections", "single", 20_000, connections=16)
WORKS: dict[Work, table.Goals] = {
    BATCHED: _BATCHED,
    ONE: _ONE,
    SIXTEEN: _SIXTEEN,
    ONE._replace(name=f"{ONE.name}, idempotent", idempotent=True): _ONE,
    SIXTEEN._replace(name=f"{SIXTEEN.name}, idempotent", idempotent=True): _SIXTEEN,
    ONE._replace(name=f"{ONE.name}, lz4", codec="lz4"): _ONE,
    SIXTEEN._replace(name=f"{SIXTEEN.name}, lz4", codec="lz4"): _SIXTEEN,
}
"""Each kind of work with its goals."""


def is_chosen(only: str) -> bool:
    return only in PART or only.startswith(f"{PART}:")


def narrowed(only: str) -> str:
    """What the names of the requested rows hold. Raises SystemExit when no row has such a name."""
    text = only.partition(":")[2].strip() if only.startswith(f"{PART}:") else ""
    names = [*(work.name for work in WORKS), *(row.title(small_rows.FULL) for row in small_rows.ROWS)]
    if not any(text in name for name in names):
        raise SystemExit(f"no row of {PART} has {text!r} in its name: there are\n  " + "\n  ".join(names))
    return text


def note(rounds: int) -> str:
    """How often the figures were taken, and the command that takes them again."""
    most = min(rounds, ROUNDS_MAX)
    again = f"`make bench ARGS='--only \"{PART}\" --rounds {rounds} --write'`"
    return f"medians of {rounds} rounds, from tailing consumers on of {most}. Again: {again}."


def lines(home: Path, sides: Sides, rounds: int, only: str, say: Say, *, quick: bool) -> list[str]:
    """The table; `only` as given on the command line."""
    text = narrowed(only)
    extent = small_rows.QUICK if quick else small_rows.FULL
    raise_limits(extent.partitions + extent.connections, say)
    found = [table.head(sides.theirs.label, sides.ours.label, goals=True)]
    with _started(home, sides, say) as (pair, starts):
        for work, goals in WORKS.items():
            if text in work.name:
                seen = _works(work, pair, 1 if quick else rounds, say, quick=quick)
                found += table.work_rows(work, *seen, goals=goals)
        for row in small_rows.ROWS:
            if text in row.title(small_rows.FULL):
                values = _rounds(row, pair, extent, 1 if quick else min(rounds, ROUNDS_MAX), say)
                found += row_lines(row, extent, *values)
        if not text:
            found += table.start_rows(*starts, goals=START_GOALS)
            memory = (resident_bytes(bench.process.pid) / 2**20 for bench in pair)
            found.append(table.judged_row("memory, after all of it", "MiB", *memory, None))
    say(summary(found))
    return found


@contextmanager
def _started(home: Path, sides: Sides, say: Say) -> Iterator[tuple[list[Bench], list[list[starting.Start]]]]:
    """Both brokers side by side; only one of them has work at a time."""
    pair: list[Bench] = []
    starts: list[list[starting.Start]] = []
    try:
        for name, side in sides._asdict().items():
            process, seen = starting.timed_starts(partial(_made, side, home, name), STARTS)
            pair.append(Bench(side.label, process))
            starts.append(seen)
            say(f"{side.label}: first answer after {min(one.seconds for one in seen):.2f} s")
        yield pair, starts
    finally:
        for bench in pair:
            bench.process.stop()


def _made(side: Side, home: Path, name: str, number: int) -> BrokerProcess:
    return side.start(home / f"small-{name}-{number}", SETTINGS)


def _works(work: Work, pair: list[Bench], rounds: int, say: Say, *, quick: bool) -> tuple[list[Figures], list[Figures]]:
    """Both brokers settled on one kind of work, then in turns."""
    if quick:
        work = work._replace(records=QUICK_RECORDS)
    turns: list[Callable[[], Figures]] = [partial(bench.measure_afresh, work) for bench in pair]
    for bench, turn in zip(pair, turns, strict=True):
        runs = None if quick else settle(turn)
        say(f"{work.name}, {bench.label}: {'not settled' if runs is None else f'settled after {runs} runs'}")
    theirs, ours = zip(*([turn() for turn in turns] for _ in range(rounds)), strict=True)
    for bench, side in zip(pair, (theirs, ours), strict=True):
        say(f"  {bench.label}: " + ", ".join(f"{one.per_second:,.0f}/s {one.cpu_us:.2f} µs" for one in side))
    return list(theirs), list(ours)


def _rounds(row: Row, pair: list[Bench], extent: Extent, rounds: int, say: Say) -> tuple[list[Values], list[Values]]:
    """Once to warm up, then in turns."""
    prepared = [row.prepare(bench, extent) for bench in pair]
    seen: tuple[list[Values], list[Values]] = ([], [])
    for number in range(rounds + 1):
        for bench, topic, side in zip(pair, prepared, seen, strict=True):
            values = row.measure(bench, extent, topic)
            shown = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
            say(f"{row.title(extent)}, {bench.label}{', warming up' if number == 0 else ''}: {shown}")
            if number > 0:
                side.append(values)
    for bench, topics in zip(pair, prepared, strict=True):
        for topic in filter(None, topics.split(",")):
            bench.drop_topic(topic)
    return seen


def row_lines(row: Row, extent: Extent, theirs: list[Values], ours: list[Values]) -> list[str]:
    """A row's lines: the median of all rounds of each figure."""
    found = []
    for number, (key, label, digits, goal) in enumerate(row.figures):
        their_value, our_value = (median(values[key] for values in side) for side in (theirs, ours))
        name = row.title(extent) if number == 0 else ""
        found.append(table.judged_row(name, label, their_value, our_value, goal, digits=digits))
    return found
