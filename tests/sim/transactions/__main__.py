"""Run many seeds of transactions on one simulated broker: `python -m tests.sim.transactions --seeds 0-99`.

Prints what each finding run found, and in the end how much was tried. Exits with 1 when anything was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.sim.transactions.single import SingleVerdict, run_one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.transactions", description=__doc__)
    parser.add_argument("--seeds", default="0-99", metavar="A-B", help="the seeds to run, both ends included")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run side by side")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    began, verdicts = time.monotonic(), list[SingleVerdict]()
    with ProcessPoolExecutor(arguments.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for verdict in pool.map(run_one, range(int(first), int(last or first) + 1), chunksize=4):
            verdicts.append(verdict)
            if verdict.findings:
                sys.stdout.write(f"{verdict.text()}\n")
                sys.stdout.flush()
    sys.stderr.write(f"{_report(verdicts, time.monotonic() - began)}\n")
    return 1 if any(verdict.findings for verdict in verdicts) else 0


def _report(verdicts: list[SingleVerdict], seconds: float) -> str:
    tally, faults = Counter[str](), Counter[str]()
    for verdict in verdicts:
        tally.update(verdict.tally)
        faults.update(verdict.faults)
    bad = [str(verdict.seed) for verdict in verdicts if verdict.findings]
    counts = ", ".join(f"{name} {count}" for name, count in sorted(tally.items()))
    return f"{len(verdicts)} seeds in {seconds:.1f} s, {faults.total()} faults, {counts}; findings in seeds {bad or 'none'}"


if __name__ == "__main__":
    sys.exit(main())
