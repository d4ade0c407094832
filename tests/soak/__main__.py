"""Attack a broker with all APIs and versions: `python -m tests.soak --minutes 10 --seed 7`.

Prints once a window what was tried, how long an honest client beside waited, and what the broker has of memory and
descriptors; in the end every finding. Exits with 1 when there is one: a fault in the log, a broker that has ended, an error or a
wrong record of the honest client, growth, a file outside of the log directory, a restart that does not find everything.

`--scripts 812-812` repeats one connection of the seed's. `--between-brokers --requests 100000` is the run of what only
brokers send.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.soak import watch
from tests.soak.run import MIB, Outcome, Wanted, run

WINDOWS = 10
"""Into so many a run is divided."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the attack lasts")
    parser.add_argument("--seed", default=None, help="the same seed makes the same requests; without one, any")
    parser.add_argument("--requests", type=int, default=1 << 62, help="stop after so many")
    parser.add_argument(
        "--scripts", default="0", metavar="A-B", help="these connections of the seed's; A: all from A on"
    )
    parser.add_argument("--between-brokers", action="store_true", help="only requests between brokers")
    parser.add_argument("--keep", type=Path, default=None, metavar="DIRECTORY", help="run here, and leave the files")
    given = parser.parse_args()
    seed = given.seed or str(random.SystemRandom().getrandbits(32))
    seconds = given.minutes * 60
    wanted = Wanted(seed, seconds, given.requests, given.scripts, given.between_brokers, seconds / WINDOWS)
    _print(f"seed {seed}")
    with tempfile.TemporaryDirectory(prefix="soak-") as made:
        directory = given.keep or Path(made)
        outcome = asyncio.run(run(wanted, directory, _print))
    return _reported(outcome)


def _reported(outcome: Outcome) -> int:
    for event, count in sorted(outcome.events.items(), key=lambda one: -one[1]):
        _print(f"{count:8,} log lines   {event}")
    _print(f"memory grew by {watch.growth(outcome.samples) / MIB:.1f} MiB after the warm-up")
    _print(f"{outcome.records:,} records of the honest client were acknowledged")
    for finding in outcome.findings:
        _print(f"FOUND: {finding}")
    _print(f"{len(outcome.findings)} findings")
    return 1 if outcome.findings else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
