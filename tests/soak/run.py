"""One run: a broker with small limits, the attack, the honest client beside, and what is found wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.outside.processes import ProcessError, SordiniProcess
from tests.soak import watch
from tests.soak.generator import GROUPS, TOPICS
from tests.soak.honest import Honest, Line, Took
from tests.soak.watch import LogLines, Sample

KIB: Final = 1024
MIB: Final = 1024 * KIB
REPOSITORY: Final = Path(__file__).resolve().parents[2]
LIMITS: Final[dict[str, object]] = {
    "broker.id": 0,
    "num.partitions": 2,
    "socket.request.max.bytes": 1 * MIB,
    "queued.max.request.bytes": 16 * MIB,
    "connections.max.idle.ms": 5_000,
    "max.connections": 200,
    "fetch.max.bytes": 1 * MIB,
    "message.max.bytes": 64 * KIB,
    "sordini.create.partitions.max": 32,
    "sordini.open.segments.max": 64,
    "max.incremental.fetch.session.cache.slots": 20,
    "log.retention.bytes": 1 * MIB,
    "log.segment.bytes": 256 * KIB,
    "log.retention.check.interval.ms": 5_000,
    "log.segment.delete.delay.ms": 1_000,
    "log.index.size.max.bytes": 64 * KIB,
    "log.cleaner.dedupe.buffer.size": 2 * MIB,
    "log.cleaner.backoff.ms": 1_000,
    "producer.id.expiration.ms": 60_000,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.segment.bytes": 256 * KIB,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 5_000,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.max.session.timeout.ms": 5_000,
    "group.max.size": 20,
}


class Wanted(NamedTuple):
    """What a run is to be."""

    seed: str
    seconds: float
    """How long the attack lasts at most."""
    requests: int = 1 << 62
    """After how many it is over earlier."""
    scripts: str = "0"
    between_brokers: bool = False
    window_s: float = 60.0
    """Interval of the figures."""


class Outcome(NamedTuple):
    """What came of it."""

    tally: dict[str, Any]
    samples: list[Sample]
    events: dict[str, int]
    records: int
    findings: list[str]


class SoakBroker(SordiniProcess):
    """A broker of small limits, whose log lines are JSON, and whose log directory is two levels below its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, LIMITS)
        self.logs = directory / "deep" / "logs"
        self.overrides["log.dirs"] = str(self.logs)

    def command(self) -> list[str]:
        return [*super().command(), "--log-format", "json"]


Report = Callable[[str], object]


async def run(wanted: Wanted, directory: Path, report: Report) -> Outcome:
    """Make one run in an empty directory; `report` gets one line at a time."""
    broker = SoakBroker(directory)
    broker.start()
    try:
        return await Run(wanted, broker, report).run()
    finally:
        broker.kill()


class Run:
    """A run while it lasts."""

    def __init__(self, wanted: Wanted, broker: SoakBroker, report: Report) -> None:
        self._wanted = wanted
        self._broker = broker
        self._report = report
        self._honest = Honest(broker.port)
        self._lines = LogLines(broker.log_path)
        self._samples: list[Sample] = []
        self._tally: dict[str, Any] = {"findings": []}
        self._findings: list[str] = []

    async def run(self) -> Outcome:
        await self._honest.prepare()
        topic_ids = await _prepared(self._broker.port)
        before = watch.around(self._broker.directory, self._broker.logs)
        first = watch.sample(self._broker.pid, 0.0)
        honest = asyncio.create_task(self._honest.run())
        try:
            await self._attack(topic_ids)
        finally:
            self._honest.is_over = True
            await honest
        if self._broker.is_running:
            await self._after(first)
        self._lines.read()
        self._judge(before)
        return Outcome(self._tally, self._samples, dict(self._lines.events), self._honest.end, self._findings)

    async def _attack(self, topic_ids: Sequence[bytes]) -> None:
        wanted = self._wanted
        arguments = [
            str(self._broker.port),
            wanted.seed,
            "--scripts",
            wanted.scripts,
            "--requests",
            str(wanted.requests),
        ]
        arguments += ["--topic-ids", ",".join(topic_id.hex() for topic_id in topic_ids)]
        arguments += ["--between-brokers"] if wanted.between_brokers else []
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.soak.attack", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=REPOSITORY,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        began = reported = time.monotonic()
        async for line in process.stdout:
            now = time.monotonic()
            self._tally = json.loads(line)
            self._lines.read()
            if not self._look(now - began):
                break
            if now - reported >= wanted.window_s:
                self._report(self._figures(now - began, reported))
                reported = now
            if now - began >= wanted.seconds:
                process.stdin.close()
        self._report(self._figures(time.monotonic() - began, reported))
        process.stdin.close()
        if await process.wait():
            self._findings.append(f"the attack ended with status {process.returncode}")

    def _look(self, at: float) -> bool:
        """Take a sample; False when the broker has ended."""
        if not self._broker.is_running:
            self._findings.append(f"the broker ended after {at:.0f} s:\n{self._broker.tail()}")
            return False
        with contextlib.suppress(OSError):
            self._samples.append(watch.sample(self._broker.pid, at))
        return True

    def _figures(self, at: float, since: float) -> str:
        took = [one for one in self._honest.took if one.at >= since]
        resident, files = (self._samples[-1].resident_bytes, self._samples[-1].files) if self._samples else (0, 0)
        produced, fetched = _quantiles(took, lambda one: one.produce_ms), _quantiles(took, lambda one: one.fetch_ms)
        tally = self._tally
        return (
            f"{at:6.0f} s: {tally.get('requests', 0):,} requests ({tally.get('between', 0):,} of brokers), "
            f"{tally.get('answers', 0):,} answers, {tally.get('closed', 0):,} of {tally.get('scripts', 0):,} connections "
            f"closed; honest: {len(took):,} rounds, produce {produced}, fetch {fetched}; "
            f"memory {resident / MIB:.1f} MiB, {files} descriptors"
        )

    async def _after(self, first: Sample) -> None:
        """When the attack is over: administration, descriptors, and what is found after a stop and a kill."""
        self._findings += await self._honest.administer()
        last = await self._settled(first)
        if last.files > first.files + watch.FILES_MAX:
            self._findings.append(f"{last.files} descriptors are open, {first.files} were before")
        await self._read_again("before a stop")
        for how, stop in (("a stop", self._broker.stop), ("a kill", self._broker.kill)):
            self._lines.read()
            status = await asyncio.to_thread(stop)
            if status not in (0, None):
                self._findings.append(f"after {how}: status {status}\n{self._broker.tail()}")
            self._lines.read()
            try:
                await asyncio.to_thread(self._broker.start)
            except ProcessError as error:
                self._findings.append(f"no start after {how}: {error}")
                return
            await self._read_again(f"after {how}")
            self._findings += [f"after {how}: {wrong}" for wrong in await self._honest.administer()]

    async def _settled(self, first: Sample) -> Sample:
        """Open descriptors after the attack's connections have closed: checked until they are few enough."""
        deadline = time.monotonic() + LIMITS["connections.max.idle.ms"] / 1000  # type: ignore[operator]
        last = watch.sample(self._broker.pid, 0.0)
        while last.files > first.files + watch.FILES_MAX and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            last = watch.sample(self._broker.pid, 0.0)
        return last

    async def _read_again(self, when: str) -> None:
        found = await self._honest.read_all()
        if found != self._honest.end:
            self._findings.append(f"{when}: {found} of {self._honest.end} acknowledged records are there")

    def _judge(self, before: set[str]) -> None:
        """What the run as a whole shows."""
        wanted, directory, logs = self._wanted, self._broker.directory, self._broker.logs
        self._findings += self._tally["findings"]
        self._findings += [f"honest client: {error}" for error in self._honest.errors]
        self._findings += [f"log: {line}" for line in self._lines.findings]
        made = watch.around(directory, logs) - before
        self._findings += [f"{name} was made outside of the log directory" for name in sorted(made)]
        self._findings += [f"{name!r} in the log directory is no partition" for name in watch.strangers(logs)]
        grown = watch.growth(self._samples)
        if grown > watch.GROWTH_BYTES_MAX:
            self._findings.append(f"memory grew by {grown / MIB:.1f} MiB after the warm-up")
        if self._tally.get("requests", 0) < min(wanted.requests, wanted.seconds):
            self._findings.append(f"only {self._tally.get('requests', 0)} requests were made")


async def _prepared(port: int) -> list[bytes]:
    """Make the topics that requests name, and the one of groups; the topics' ids."""
    line = await Line.open(port)
    for number, topic in enumerate(TOPICS[:-2]):
        settings = {"cleanup_policy": "compact"} if "compacted" in topic else {}
        await line.create(topic, partitions=1 + number % 3, **settings)
    for group in GROUPS:
        await line.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group]))
    ids = [await line.topic_id(topic) for topic in TOPICS[:-2]]
    line.close()
    return ids


def _quantiles(took: Iterable[Took], of: Callable[[Took], float]) -> str:
    found = sorted(map(of, took))
    if not found:
        return "-"
    half, most, last = (found[min(len(found) - 1, int(len(found) * part))] for part in (0.5, 0.99, 1.0))
    return f"p50 {half:.1f} p99 {most:.1f} max {last:.0f} ms"
