"""Run many seeds of the simulated cluster: `python -m tests.sim.cluster --seeds 0-999`, or every planted bug: `--planted`.

Prints what each finding run found, and in the end how much was tried. Exits with 1 when anything was found, with
`--planted` when a bug was not.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time

from tests.sim.cluster.campaign import ALL_BUGS, campaign, report, search
from tests.sim.cluster.plan import cluster_scenario
from tests.sim.cluster.scenario import ClusterVerdict, run_cluster_seed

REPORTED_MAX = 10
"""So many findings are printed in full."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster", description=__doc__)
    parser.add_argument("--seeds", default="0-99", metavar="A-B", help="the seeds to run, both ends included")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run side by side")
    parser.add_argument(
        "--planted",
        nargs="?",
        const="",
        metavar="PART",
        help="find planted bugs instead: all, or those with this in their names",
    )
    parser.add_argument("--digests", action="store_true", help="print every run's digest, to compare two machines")
    parser.add_argument("--until-finding", action="store_true", help="stop at the first seed that finds something")
    parser.add_argument("--trace", metavar="FILE", help="run one seed, and write every line of its trace")
    arguments = parser.parse_args()
    if arguments.planted is not None:
        return _planted(arguments.planted, arguments.processes)
    first, _, last = arguments.seeds.partition("-")
    if arguments.trace:
        return _traced(int(first), arguments.trace)
    began = time.monotonic()
    verdicts: list[ClusterVerdict] = []
    bad = 0
    for verdict in campaign(int(first), int(last or first), arguments.processes):
        verdicts.append(verdict)
        if arguments.digests:
            sys.stdout.write(f"{verdict.seed} {verdict.digest}\n")
        if verdict.findings:
            bad += 1
            if bad <= REPORTED_MAX:
                sys.stdout.write(f"{verdict.text()}\n")
                sys.stdout.flush()
            if arguments.until_finding:
                break
    sys.stderr.write(report(verdicts, time.monotonic() - began) + "\n")
    return 1 if bad else 0


def _traced(seed: int, path: str) -> int:
    verdict = run_cluster_seed(cluster_scenario(seed), None)
    pathlib.Path(path).write_text("\n".join(verdict.last_lines) + "\n")
    sys.stdout.write(f"{verdict.text()}\n")
    return 1 if verdict.findings else 0


def _planted(which: str, processes: int) -> int:
    missed = 0
    bugs = [bug for bug in ALL_BUGS if which in bug.name]
    for bug, (found, seconds) in zip(bugs, search([bug.name for bug in bugs], processes), strict=True):
        missed += found is None
        if found is None:
            reported = f"not found in {bug.seeds_max} seeds"
        else:
            reported = f"seed {found.seed}, number {bug.seeds.index(found.seed) + 1}: {found.findings[0][:150]}"
        sys.stdout.write(f"{bug.name}: {reported} ({seconds:.1f} s)\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
