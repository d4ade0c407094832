"""Many seeds of the simulated cluster: side by side, summed up, and searched for planted bugs."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.sim.cluster.plan import ClusterScenario, cluster_scenario
from tests.sim.cluster.planted_bugs import BUGS, Bug, planted
from tests.sim.cluster.planted_group_bugs import GROUP_BUGS
from tests.sim.cluster.scenario import ClusterVerdict, run_cluster_seed
from tests.sim.transactions.planted_bugs import TRANSACTION_BUGS

ALL_BUGS = (*BUGS, *TRANSACTION_BUGS, *GROUP_BUGS)


def campaign(first: int, last: int, processes: int) -> Iterator[ClusterVerdict]:
    """Run the seeds from `first` to `last` in several processes; their verdicts in order."""
    seeds = range(first, last + 1)
    if processes == 1 or len(seeds) == 1:
        yield from map(run_one, seeds)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_one, seeds, chunksize=4)


def search(names: Sequence[str], processes: int) -> Iterator[tuple[ClusterVerdict | None, float]]:
    """Look for planted bugs, several side by side: for each, in order, the first finding and the seconds it took."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_search_one, names)


def _search_one(name: str) -> tuple[ClusterVerdict | None, float]:
    began = time.monotonic()
    found = first_finding(next(bug for bug in ALL_BUGS if bug.name == name))
    return found, time.monotonic() - began


def run_one(seed: int, scenario: Callable[[int], ClusterScenario] = cluster_scenario) -> ClusterVerdict:
    """One seed's verdict, without its trace."""
    try:
        verdict = dataclasses.replace(run_cluster_seed(scenario(seed), 1), last_lines=[])
    except Exception as error:  # noqa: BLE001 - the other seeds are run all the same.
        verdict = ClusterVerdict.of_escaped(seed, error)
    gc.collect()  # A world is one large reference cycle: without an explicit collection gigabytes of them accumulate.
    return verdict


def first_finding(bug: Bug) -> ClusterVerdict | None:
    """The first seed that finds a planted bug."""
    with planted(bug):
        return next((verdict for seed in bug.seeds if (verdict := run_one(seed, bug.scenario)).findings), None)


def report(verdicts: Sequence[ClusterVerdict], seconds: float) -> str:
    """The figures of a campaign."""
    tally, faults = Counter[str](), Counter[str]()
    for verdict in verdicts:
        tally.update(verdict.tally)
        faults.update(verdict.faults)
    bad = [str(verdict.seed) for verdict in verdicts if verdict.findings]
    return "\n".join(
        (
            f"{len(verdicts)} seeds in {seconds:.1f} s ({len(verdicts) * 60 / seconds:.0f} a minute)",
            f"{sum(verdict.seconds for verdict in verdicts):.0f} virtual seconds",
            f"{faults.total()} faults: {_listed(faults)}",
            _listed(tally),
            f"{sum(len(verdict.findings) for verdict in verdicts)} findings in seeds {' '.join(bad) or 'none'}",
        )
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
