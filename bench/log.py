"""The log beside Apache Kafka's: its size, starts with many partitions, compaction. `--only log` runs these alone.

Each part has brokers and a table of its own; `--only "log size"`, `"log starts"` or `"log compaction"` is one of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import log_compaction, log_size, log_starts, table
from bench.sides import Say, Sides, both
from tests.outside.java import ZooKeeperProcess

PARTS = ("log size", "log compaction", "log starts")  # The longest last: it depends most on the disk.
ROUNDS_MAX = 3  # More would take longer than the difference is worth.


class Extent(NamedTuple):
    """How large everything is; quick proves that the harness works and measures nothing."""

    log_bytes: int
    partitions: list[int]
    compacted_bytes: int
    rounds: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-gib", type=float, help="the largest log of `log size` (default: 20)")
    parser.add_argument("--partitions", help="of `log starts`, separated by commas (default: 1000,10000)")
    parser.add_argument("--compact-mib", type=float, help="each log of `log compaction` (default: 512)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, save in the main table: whether it all works")


def extent(arguments: argparse.Namespace) -> Extent:
    is_quick = arguments.quick
    gib = arguments.log_gib if arguments.log_gib is not None else 1 / 64 if is_quick else 20.0
    counts = arguments.partitions or ("20,100" if is_quick else "1000,10000")
    mib = arguments.compact_mib if arguments.compact_mib is not None else 16.0 if is_quick else 512.0
    return Extent(
        log_bytes=int(gib * 2**30),
        partitions=[int(count) for count in counts.split(",")],
        compacted_bytes=int(mib * 2**20),
        rounds=1 if is_quick else min(arguments.rounds, ROUNDS_MAX),
    )


def tables(directory: Path, arguments: argparse.Namespace, theirs: str, say: Say) -> Iterator[tuple[str, list[str]]]:
    """The name of each requested part, with the lines of its table when they are known."""
    chosen = extent(arguments)
    with ZooKeeperProcess(directory / "log-zookeeper") as zookeeper:
        sides = both(theirs, arguments.ours, zookeeper.connect, apache_only=arguments.apache_only)
        for part in PARTS:
            if arguments.only in part:
                home = directory / part.replace(" ", "-")
                home.mkdir()
                yield part, _lines(part, home, sides, chosen, say)


def note(part: str, chosen: Extent) -> str:
    """How often a part's figures were taken, and the command that takes them again."""
    counts = ",".join(map(str, chosen.partitions))
    said, flags = {
        "log size": (f"medians of {chosen.rounds} rounds", f"--log-gib {chosen.log_bytes / 2**30:g}"),
        "log starts": (
            f"medians of {log_starts.REPEATS} starts below {log_starts.REPEATED_BELOW:,} partitions, otherwise one",
            f"--partitions {counts}",
        ),
        "log compaction": (
            f"one cleaning of each log, medians of {log_compaction.PROBES} rounds beside it",
            f"--compact-mib {chosen.compacted_bytes / 2**20:g}",
        ),
    }[part]
    return f"{said}. Again: `make bench ARGS='--only \"{part}\" {flags} --write'`."


def _lines(part: str, home: Path, sides: Sides, chosen: Extent, say: Say) -> list[str]:
    if part == "log size":
        return log_size.table(home, sides, chosen.log_bytes, chosen.rounds, say)
    if part == "log starts":
        head = table.head(sides.theirs.label, sides.ours.label)
        return [head, *log_starts.rows(home, sides, chosen.partitions, say)]
    return log_compaction.tables(home, sides, chosen.compacted_bytes, say)
