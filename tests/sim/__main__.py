"""Run many simulated seeds: `python -m tests.sim --seeds 0-99`.

Prints what each finding run found, and in the end how much was tried. Exits with 1 when anything was found.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import time

from sordini.testing.simulation.trace import LINES_KEPT
from tests.sim.broker import SimBroker
from tests.sim.planted_bugs import BUGS, search
from tests.sim.planted_static_bugs import STATIC_BUGS
from tests.sim.scenario import Verdict, run_seed, scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", default="0-99", metavar="A-B", help="the seeds to run, both ends included")
    parser.add_argument("--digests", action="store_true", help="print every run's digest, to compare two machines")
    parser.add_argument("--until-finding", action="store_true", help="stop at the first seed that finds something")
    parser.add_argument(
        "--planted",
        nargs="?",
        const="",
        metavar="PART",
        help="print in which seed each bug of consumer groups is found, or each with this in its name",
    )
    parser.add_argument("--trace", metavar="FILE", help="write every line of the last run's trace")
    arguments = parser.parse_args()
    if arguments.planted is not None:
        return _search_for_planted(arguments.planted)
    first, _, last = arguments.seeds.partition("-")
    began = time.monotonic()
    verdicts: list[Verdict] = []
    for seed in range(int(first), int(last or first) + 1):
        try:
            verdict = run_seed(scenario(seed), SimBroker, None if arguments.trace else LINES_KEPT)
        except Exception as error:  # noqa: BLE001 - the other seeds are run all the same.
            verdict = Verdict.of_escaped(seed, error)
        verdicts.append(verdict)
        if arguments.digests:
            sys.stdout.write(f"{seed} {verdict.digest}\n")
        if verdict.findings:
            sys.stdout.write(f"{verdict.text()}\n")
            sys.stdout.flush()
            if arguments.until_finding:
                break
        if arguments.trace:
            pathlib.Path(arguments.trace).write_text("\n".join(verdict.last_lines) + "\n")
    bad = [verdict for verdict in verdicts if verdict.findings]
    sys.stderr.write(_summary(verdicts, bad, time.monotonic() - began))
    return 1 if bad else 0


def _search_for_planted(part: str) -> int:
    missed = 0
    for bug in (*BUGS, *STATIC_BUGS):
        if part not in bug.name:
            continue
        found = search(bug)
        missed += found is None
        where = "nowhere" if found is None else f"{found.seed} | {found.attempt} | {', '.join(found.laws)}"
        sys.stdout.write(f"| {bug.name} | {where} |\n")
        sys.stdout.flush()
    return 1 if missed else 0


def _summary(verdicts: list[Verdict], bad: list[Verdict], seconds: float) -> str:
    faults: collections.Counter[str] = collections.Counter()
    for verdict in verdicts:
        faults.update(verdict.faults)
    lines = [
        f"{len(verdicts)} seeds in {seconds:.1f} s ({len(verdicts) * 60 / seconds:.1f} a minute)",
        f"{sum(verdict.seconds for verdict in verdicts):.0f} virtual seconds",
        f"{faults.total()} faults: {', '.join(f'{kind} {count}' for kind, count in sorted(faults.items()))}",
        f"{sum(verdict.acknowledged for verdict in verdicts)} records acknowledged",
        f"{sum(verdict.polled for verdict in verdicts)} records polled",
        f"{sum(verdict.fenced for verdict in verdicts)} batches of past epochs refused",
        f"{sum(verdict.committed for verdict in verdicts)} offsets committed",
        f"{sum(verdict.generations for verdict in verdicts)} generations of groups",
        f"{sum(verdict.tenures for verdict in verdicts)} partitions given to members of consumer groups",
        f"{sum(verdict.fenced_members for verdict in verdicts)} members of the consumer protocol fenced",
        f"{sum(verdict.claims for verdict in verdicts)} claims of instance ids answered",
        f"{sum(verdict.consumed for verdict in verdicts)} records consumed in groups",
        f"{sum(len(verdict.findings) for verdict in bad)} findings in seeds "
        + (" ".join(str(verdict.seed) for verdict in bad) or "none"),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
