"""Crash the log by seeds: `python -m tests.crash --seeds 0-19999`, or every planted bug: `--planted`.

Prints what each finding run did and found, and in the end how much was tried. Exits with 1 when anything was found,
with `--planted` when a bug was not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.crash.campaign import Summary, campaign, first_finding, report, reported, together
from tests.crash.planted import BUGS

PRINTED_MAX = 5
"""So many findings are printed in full."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--seeds", default="0-19999", metavar="A-B", help="the seeds to run, both ends included")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many run side by side")
    parser.add_argument("--planted", action="store_true", help="find every planted bug instead")
    arguments = parser.parse_args()
    if arguments.planted:
        return _planted()
    first, _, last = arguments.seeds.partition("-")
    began = time.monotonic()
    summaries: list[Summary] = []
    printed = 0
    for summary in campaign(int(first), int(last or first), arguments.processes):
        summaries.append(summary)
        for seed, finding in summary.findings:
            if printed < PRINTED_MAX:
                sys.stdout.write(f"{reported(seed, finding)}\n")
                sys.stdout.flush()
            printed += 1
    whole = together(summaries)
    sys.stderr.write(report(whole, time.monotonic() - began) + "\n")
    return 1 if whole.findings else 0


def _planted() -> int:
    missed = 0
    for name, bug in BUGS.items():
        began = time.monotonic()
        found = first_finding(range(bug.seed, bug.seed + bug.seeds_max), name)
        missed += found is None
        seconds = time.monotonic() - began
        reported_ = (
            f"not found in {bug.seeds_max} seeds" if found is None else f"seed {found.seed}: {found.finding[:150]}"
        )
        sys.stdout.write(f"{name}: {reported_} ({seconds:.1f} s)\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
