"""What an append and a look-up cost as one partition's log grows from 1 MiB to 20 GiB.

All sizes lie on one broker at a time, filled with the same bytes on either, and are measured in turns, so that a JVM
that becomes faster meanwhile does so for every size. The logs are deleted before the other broker's turn.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.client import load, paced
from bench.procfs import resident_bytes
from bench.sides import Say, Side, Sides
from bench.works import Figures, settle

MIB, GIB = 2**20, 2**30
RECORD_BYTES = 1_024  # of a filled log; it holds batches of 64 KiB
FILL_STEP_BYTES = 2 * GIB
SETTLING_RUNS_MAX = 8
WARM_BYTES = 8 * MIB


class Kind(NamedTuple):
    """One kind of request: the load generator's work, how many in a run, and its flags."""

    name: str
    work: str
    requests: int
    flags: dict[str, object]


KINDS = (
    Kind("Fetch at a random offset", "seeks", 2_000, {}),
    Kind("ListOffsets at a random time", "times", 2_000, {}),
    Kind("append one record of 100 bytes", "appends", 2_000, {"each": 1, "size": 100}),
    Kind("append a batch of 64 KiB", "appends", 150, {"each": 64, "size": RECORD_BYTES}),  # Last: the log grows.
)

Seen = dict[tuple[str, int], list[Figures]]


def sizes_up_to(largest_bytes: int) -> list[int]:
    """The sizes to measure, the smallest first."""
    return [size for size in (MIB, 100 * MIB, GIB) if size < largest_bytes] + [largest_bytes]


def table(directory: Path, sides: Sides, largest_bytes: int, rounds: int, say: Say) -> list[str]:
    """The lines of the table."""
    sizes = sizes_up_to(largest_bytes)
    needed = sum(sizes) + sum(sizes) // 5
    if shutil.disk_usage(directory).free < needed:
        raise SystemExit(
            f"logs up to {size_text(largest_bytes)} need {size_text(needed)} below {directory}: set a smaller --log-gib"
        )
    first_ms = int(time.time() * 1_000) - largest_bytes // RECORD_BYTES - 3_600_000
    theirs, ours = (
        _Logs(side, directory / f"size-{name}", first_ms, say).measure(sizes, rounds)
        for name, side in sides._asdict().items()
    )
    return _head(sides) + [row(kind, size, sizes[0], theirs, ours) for kind in KINDS for size in sizes]


class _Logs:
    """One broker with logs of every size."""

    def __init__(self, side: Side, home: Path, first_ms: int, say: Say) -> None:
        self._home = home
        self._broker = side.start(home, {})
        self._first_ms = first_ms
        self._topics = 0
        self._say = partial(_say, say, side.label)

    def measure(self, sizes: list[int], rounds: int) -> Seen:
        self._broker.start()
        try:
            topics = {size: self._filled(size) for size in sizes[1:]}
            self._warm()
            began = time.monotonic()
            os.sync()  # What the kernel still has to write is not written under the measurements.
            self._say(f"on disk after another {time.monotonic() - began:.1f} s")
            seen: Seen = {}
            for number in range(rounds):
                topics[sizes[0]] = self._filled(sizes[0])  # A fresh one: it grows most, measured by its size.
                for size in sizes if number % 2 == 0 else reversed(sizes):
                    self._round(topics[size], size, seen)
            self._say(f"memory afterwards {resident_bytes(self._broker.pid) / MIB:.0f} MiB")
            return seen
        finally:
            self._broker.kill()
            shutil.rmtree(self._home)

    def _warm(self) -> None:
        topic = self._filled(WARM_BYTES)
        for kind in KINDS:
            runs = settle(partial(self._measure, kind, topic, WARM_BYTES), runs_max=SETTLING_RUNS_MAX)
            self._say(f"{kind.name}: {'not settled' if runs is None else f'settled after {runs} runs'}")

    def _filled(self, size: int) -> str:
        self._topics += 1
        topic = f"size-{self._topics}"
        load(self._broker.bootstrap, "create", topic, partitions=1)
        records, step = size // RECORD_BYTES, FILL_STEP_BYTES // RECORD_BYTES
        for first in range(0, records, step):
            done = load(
                self._broker.bootstrap,
                "fill",
                topic,
                size=RECORD_BYTES,
                records=min(step, records - first),
                first_ms=self._first_ms,
                **{"from": first},
            )
            so_far = size_text((first + done.records) * RECORD_BYTES)
            self._say(f"{so_far} of {size_text(size)} filled at {done.bytes / done.seconds / 1e6:.0f} MB/s")
        return topic

    def _round(self, topic: str, size: int, seen: Seen) -> None:
        figures = {kind.name: self._measure(kind, topic, size) for kind in KINDS}
        for name, one in figures.items():
            seen.setdefault((name, size), []).append(one)
        self._say(f"{size_text(size)}: " + ", ".join(f"{name} {one.cpu_us:.0f} µs" for name, one in figures.items()))

    def _measure(self, kind: Kind, topic: str, size: int) -> Figures:
        measured, used = paced(
            self._broker,
            kind.work,
            topic,
            requests=kind.requests,
            records=size // RECORD_BYTES,
            first_ms=self._first_ms,
            **kind.flags,
        )
        return Figures(measured.per_second, used / measured.records * 1e6, measured.p50_us, measured.p99_us)


def _say(say: Say, name: str, line: str) -> None:
    say(f"log size, {name}: {line}")


def size_text(size: int) -> str:
    """A size in the largest unit that it fills."""
    unit, divisor = ("GiB", GIB) if size >= GIB else ("MiB", MIB)
    return f"{size / divisor:.3g} {unit}"


def _head(sides: Sides) -> list[str]:
    figures = ("CPU, µs", "growth", "p50, µs")
    cells = ["request", "log", *(f"{side.label}: {name}" for side in sides for name in figures), "ratio of CPU"]
    return ["| " + " | ".join(cells) + " |", "| --- | --: |" + " --: |" * (len(cells) - 2)]


def row(kind: Kind, size: int, smallest: int, theirs: Seen, ours: Seen) -> str:
    """CPU per request of both, how many times that of the smallest log it is, and ours divided by theirs."""
    cells, costs = [], []
    for seen in (theirs, ours):
        cost, first = (median(one.cpu_us for one in seen[kind.name, of]) for of in (size, smallest))
        cells += [f"{cost:.1f}", f"{cost / first:.2f}", f"{median(one.p50_us for one in seen[kind.name, size]):.0f}"]
        costs.append(cost)
    name = kind.name if size == smallest else ""
    return "| " + " | ".join([name, size_text(size), *cells, f"{costs[1] / costs[0]:.2f}"]) + " |"
