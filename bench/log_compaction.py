"""The same logs compacted by both brokers' cleaners: how fast, how much is left, and what other clients feel of it.

A topic is filled with `cleanup.policy=delete` and becomes a compacted one when it lies on the disk, so that the cleaner
meets all of it at once. That is where the clock starts; it stops when the broker's log says that the cleaner is done.
"""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import cleaner_lines, table
from bench.client import Load, conversation, load
from bench.procfs import cpu_seconds
from bench.sides import Say, Side, Sides

MIB = 2**20
SETTINGS: dict[str, object] = {
    "log.cleaner.backoff.ms": 100,  # The pause between two searches for work.
    "log.cleaner.threads": 1,
}
SEGMENTS = 8  # closed ones of each log, about
RECORD_OVERHEAD_BYTES = 27  # its key of 16 bytes, its lengths
SETTLING_SECONDS = 2.5  # Sordini's cleaner waits for closed segments to be synced, which happens every second.
CLEANING_SECONDS_MAX = 300
CALM_REQUESTS = 10_000
CALM_TOPIC = "calm"
PROBES = 3
ENDLESS = 10_000_000


class Shape(NamedTuple):
    """The records of a log: their values' size, which share is superseded by a later one of its key, the codec."""

    size: int
    superseded: float
    codec: str

    def title(self) -> str:
        size = "1 KiB" if self.size == 1_024 else f"{self.size} bytes"
        return f"{size}, {self.superseded:.0%} superseded, {'lz4' if self.codec == 'lz4' else 'uncompressed'}"


SHAPES = [Shape(size, share, codec) for codec in ("none", "lz4") for size in (100, 1_024) for share in (0.5, 0.9)]
PROBED = Shape(100, 0.5, "none")
WARMING = [PROBED, PROBED._replace(codec="lz4")]
LOGS = [*SHAPES, *[PROBED] * PROBES, *WARMING]


class Cleaned(NamedTuple):
    """What a cleaning took, and the closed segments' bytes before and after; own_seconds: by the cleaner's account."""

    seconds: float
    own_seconds: float
    cpu: float
    bytes_before: int
    bytes_after: int
    records_after: int

    @property
    def rate(self) -> float:
        """Decimal megabytes of the log per second."""
        return self.bytes_before / self.seconds / 1e6


def keys_for(records: int, superseded: float) -> int:
    """Of how many keys, each record's picked at random, that share of the records is followed by one of its key.

    Of k keys, k (1 - exp(-n/k)) occur among n records, and as many records stay.
    """
    low, high = 1e-9, 1e9  # records per key
    for _ in range(100):
        middle = math.sqrt(low * high)
        stay = -math.expm1(-middle) / middle
        low, high = (middle, high) if stay > 1 - superseded else (low, middle)
    return max(1, round(records / low))


def tables(directory: Path, sides: Sides, log_bytes: int, say: Say) -> list[str]:
    """The lines of both tables."""
    needed = 2 * len(LOGS) * log_bytes * 5 // 4
    if shutil.disk_usage(directory).free < needed:
        raise SystemExit(f"the compaction needs {needed / 1e9:.1f} GB below {directory}: set a smaller --compact-mib")
    theirs, ours = (_Cleaner(side, directory / f"compaction-{name}", say) for name, side in sides._asdict().items())
    pair = (theirs, ours)
    try:
        for one in pair:
            one.broker.start()
            load(one.broker.bootstrap, "create", CALM_TOPIC, partitions=1)
            for shape in LOGS:
                one.fill(shape, log_bytes)
        os.sync()
        time.sleep(SETTLING_SECONDS)
        lines = _rate_head(sides)
        for shape in WARMING:
            for one in pair:
                one.clean(shape)
        for shape in SHAPES:
            lines.append(_rate_row(shape, *(one.clean(shape) for one in pair)))
        probes: tuple[list[Probe], list[Probe]] = ([], [])
        for _ in range(PROBES):
            for seen, one in zip(probes, pair, strict=True):
                seen.append(one.probe())
        return [*lines, "", *_probe_rows(sides, *probes)]
    finally:
        for one in pair:
            one.broker.kill()
            shutil.rmtree(one.broker.directory)


class Probe(NamedTuple):
    """One record at a time to another topic: with an idle cleaner, and for as long as one is at work."""

    calm: Load
    busy: Load
    cleaned: Cleaned


class _Cleaner:
    """One broker with its cleaner, and one log after another."""

    def __init__(self, side: Side, home: Path, say: Say) -> None:
        self.broker = side.start(home, SETTINGS)
        self._label = side.label
        self._say = say
        self._topics: dict[Shape, list[str]] = {}
        """Filled and not cleaned yet."""

    def fill(self, shape: Shape, log_bytes: int) -> None:
        """Make a topic of that many bytes before compression, still without compaction."""
        topics = self._topics.setdefault(shape, [])
        topic = f"clean-{SHAPES.index(shape)}-{len(topics)}"
        topics.append(topic)
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": -1,
            "min.cleanable.dirty.ratio": 0.01,
            "segment.bytes": max(MIB, log_bytes // SEGMENTS),
        }
        options = ",".join(f"{key}={value}" for key, value in configs.items())
        load(self.broker.bootstrap, "create", topic, partitions=1, configs=options)
        records = log_bytes // (shape.size + RECORD_OVERHEAD_BYTES)
        filled = load(
            self.broker.bootstrap,
            "fill",
            topic,
            records=records,
            size=shape.size,
            keys=keys_for(records, shape.superseded),
            codec=shape.codec,
            first_ms=int(time.time() * 1_000) - records,
        )
        self._say(
            f"log compaction, {self._label}: {shape.title()} filled at {filled.bytes / filled.seconds / 1e6:.0f} MB/s"
        )

    def clean(self, shape: Shape) -> Cleaned:
        topic = self._topics[shape].pop()
        seen = self._cleaned(topic)
        load(self.broker.bootstrap, "delete", topic)
        self._say(
            f"log compaction, {self._label}: {shape.title()}: "
            f"{seen.bytes_before / MIB:.0f} MiB in {seen.seconds:.2f} s "
            f"({seen.rate:.0f} MB/s, {seen.cpu:.2f} s CPU, {seen.own_seconds:.2f} s by its own account), "
            f"{seen.bytes_after / MIB:.0f} MiB and {seen.records_after:,} records left"
        )
        return seen

    def probe(self) -> Probe:
        """Ask beside an idle cleaner, then for as long as it cleans a log."""
        topic = self._topics[PROBED].pop()
        calm = self._appending(CALM_REQUESTS, lambda: None)[0]
        busy, cleaned = self._appending(ENDLESS, lambda: self._cleaned(topic))
        load(self.broker.bootstrap, "delete", topic)
        assert cleaned is not None
        self._say(
            f"log compaction, {self._label}: p99 {calm.p99_us:.0f} µs without the cleaner, {busy.p99_us:.0f} µs "
            f"with it ({busy.records} requests in {busy.seconds:.1f} s); {cleaned.rate:.0f} MB/s"
        )
        return Probe(calm, busy, cleaned)

    def _appending(self, requests: int, meanwhile: Callable[[], Cleaned | None]) -> tuple[Load, Cleaned | None]:
        """One record after the other until there were enough, or until something else is through."""
        appends = conversation(self.broker.bootstrap, "appends", CALM_TOPIC, requests=requests)
        with appends as talk:
            talk.expect("ready")
            talk.go_on()
            seen = meanwhile()
            if seen is not None:
                talk.enough()
            return talk.result(), seen

    def _cleaned(self, topic: str) -> Cleaned:
        """Make it a compacted topic, and wait until its closed segments have been cleaned."""
        home = self.broker.data_directory / f"{topic}-0"
        active = active_base(home)
        before, used = closed_bytes(home, active), cpu_seconds(self.broker.pid)
        began = time.monotonic()
        load(self.broker.bootstrap, "alter", topic, configs="cleanup.policy=compact")

        def passes() -> list[cleaner_lines.Cleaning]:
            return [one for one in cleaner_lines.read(self.broker.output()) if one.partition == home.name]

        what = f"clean {home.name} up to offset {active}"
        self.broker.wait_until(lambda: any(one.until >= active for one in passes()), CLEANING_SECONDS_MAX, what)
        seconds, used = time.monotonic() - began, cpu_seconds(self.broker.pid) - used
        seen = passes()
        own_seconds = sum(one.seconds for one in seen)
        return Cleaned(seconds, own_seconds, used, before, closed_bytes(home, active), seen[-1].records_after)


def _bases(home: Path) -> dict[int, Path]:
    return {int(path.stem): path for path in home.glob("*.log")}


def active_base(home: Path) -> int:
    """The first offset of the segment that is written to: no cleaner touches it."""
    return max(_bases(home))


def closed_bytes(home: Path, active: int) -> int:
    return sum(path.stat().st_size for base, path in _bases(home).items() if base < active)


def _rate_head(sides: Sides) -> list[str]:
    labels = [side.label for side in sides]
    cells = ["records", *(f"{label}: MB/s" for label in labels), "ratio", *(f"{label}: CPU, s/GB" for label in labels)]
    cells += ["bytes before", *(f"{label}: bytes after" for label in labels)]
    return ["| " + " | ".join(cells) + " |", "| --- |" + " --: |" * (len(cells) - 1)]


def _rate_row(shape: Shape, theirs: Cleaned, ours: Cleaned) -> str:
    costs = [f"{side.cpu / side.bytes_before * 1e9:.1f}" for side in (theirs, ours)]
    before = f"{theirs.bytes_before:,}"
    if ours.bytes_before != theirs.bytes_before:
        before += f" / {ours.bytes_before:,}"
    cells = [
        shape.title(),
        f"{theirs.rate:.0f}",
        f"{ours.rate:.0f}",
        f"{ours.rate / theirs.rate:.2f}",
        *costs,
        before,
    ]
    return "| " + " | ".join([*cells, f"{theirs.bytes_after:,}", f"{ours.bytes_after:,}"]) + " |"


def _probe_rows(sides: Sides, theirs: list[Probe], ours: list[Probe]) -> list[str]:
    def line(name: str, figure: str, value: Callable[[Probe], float], digits: int = 0) -> str:
        return table.row(name, figure, *(median(map(value, side)) for side in (theirs, ours)), digits=digits)

    return [
        table.head(sides.theirs.label, sides.ours.label),
        line("one record per request, the cleaner idle", "p50, µs", lambda run: run.calm.p50_us),
        line("", "p99, µs", lambda run: run.calm.p99_us),
        line(f"the same while it cleans ({PROBED.title()})", "p50, µs", lambda run: run.busy.p50_us),
        line("", "p99, µs", lambda run: run.busy.p99_us),
        line("", "p99, times that of the idle", lambda run: run.busy.p99_us / run.calm.p99_us, 2),
        line("", "cleaned MB/s meanwhile", lambda run: run.cleaned.rate),
    ]
