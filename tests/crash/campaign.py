"""Many seeds: run side by side, summed up, and the script of what was found printed."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.crash.planted import planted
from tests.crash.run import Outcome, Run
from tests.crash.script import OPERATIONS, draw

CHUNK = 50


class Summary(NamedTuple):
    """What a campaign did and found. `digest` is the same whenever the same seeds are run on the same code."""

    seeds: int
    findings: tuple[tuple[int, str], ...]
    tally: Counter[str]
    digest: int

    @property
    def crashes(self) -> int:
        """Processes that ended, for any reason."""
        kinds = ("kills", "power losses", "start: kills", "start: power losses")
        return sum(self.tally[kind] for kind in kinds)


def run_seed(seed: int) -> Outcome:
    return asyncio.run(Run(draw(seed)).go())


def run_seeds(seeds: Iterable[int], bug: str = "") -> Summary:
    """Run seeds in this process, with a bug planted or none."""
    return summed(asyncio.run(_run(list(seeds), bug)))


def first_finding(seeds: Iterable[int], bug: str) -> Outcome | None:
    """The first seed that finds a planted bug."""

    async def search() -> Outcome | None:
        with planted(bug):
            for seed in seeds:
                outcome = await Run(draw(seed)).go()
                if outcome.finding:
                    return outcome
        return None

    return asyncio.run(search())


def campaign(first: int, last: int, processes: int) -> Iterator[Summary]:
    """Run the seeds from `first` to `last` in several processes; a summary of each portion, in order."""
    portions = [range(start, min(start + CHUNK, last + 1)) for start in range(first, last + 1, CHUNK)]
    if processes == 1:
        yield from map(run_seeds, portions)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_seeds, portions)


def summed(outcomes: Iterable[Outcome]) -> Summary:
    tally: Counter[str] = Counter()
    findings, seeds, digest = [], 0, 0
    for outcome in outcomes:
        seeds += 1
        tally += outcome.tally
        digest = (digest * 31 + outcome.digest) % 2**64
        if outcome.finding:
            findings.append((outcome.seed, outcome.finding))
    return Summary(seeds, tuple(findings), tally, digest)


def together(summaries: Iterable[Summary]) -> Summary:
    tally: Counter[str] = Counter()
    findings: list[tuple[int, str]] = []
    seeds, digest = 0, 0
    for summary in summaries:
        seeds += summary.seeds
        tally += summary.tally
        findings += summary.findings
        digest = (digest * 31 + summary.digest) % 2**64
    return Summary(seeds, tuple(findings), tally, digest)


def reported(seed: int, finding: str) -> str:
    """The text of a finding: how to repeat it, what was done, what was wrong."""
    return f"{draw(seed)}\n{finding}\nagain: .venv/bin/python -m tests.crash --seeds {seed}\n"


def report(summary: Summary, seconds: float) -> str:
    """The figures of a campaign."""
    tally = summary.tally
    operations = {name: tally[name] for name in (*OPERATIONS, "close")}
    died = {name.removeprefix("died in "): count for name, count in tally.items() if name.startswith("died in ")}
    rest = {name: count for name, count in tally.items() if name not in operations and not name.startswith("died in ")}
    return "\n".join(
        (
            f"{summary.seeds} seeds in {seconds:.1f} s ({summary.seeds * 60 / seconds:.0f} a minute)",
            f"{summary.crashes} crashes; {sum(operations.values())} operations, digest {summary.digest:016x}",
            f"operations: {_listed(operations)}",
            f"died inside: {_listed(died)}",
            f"struck: {_listed(rest)}",
            f"{len(summary.findings)} findings in seeds "
            + (" ".join(str(seed) for seed, _ in summary.findings) or "none"),
        )
    )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


async def _run(seeds: list[int], bug: str) -> list[Outcome]:
    with planted(bug):
        return [await Run(draw(seed)).go() for seed in seeds]
