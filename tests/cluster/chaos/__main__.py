"""Suffer and be judged: `python -m tests.cluster.chaos --seeds 1-5 --minutes 10`; `--keep FOLDER` keeps the histories.

Three brokers, a real ZooKeeper and the clients, each in a network namespace of its own, or where that cannot be behind
proxies; a fault every eleven seconds, and ZooKeeper away for longer than that.
Prints each fault as it comes, and what was found at the end; exits with 1 when a law was broken. `--report` writes
one file per seed to docs/evidence/chaos and rewrites its table; `--judge FOLDER` judges a kept history again.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster.chaos.network import become_root
from tests.cluster.chaos.report import summary, write
from tests.cluster.chaos.run import judged, run
from tests.cluster.chaos.schedule import LENGTH_MINUTES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__)
    parser.add_argument("--seeds", default="1-1", metavar="A-B")
    parser.add_argument("--minutes", type=float, default=LENGTH_MINUTES)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave histories, logs and data here")
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="judge what a run left there, and run nothing")
    parser.add_argument("--proxies", action="store_true", help="proxies between the nodes, not namespaces")
    parser.add_argument("--secured", action="store_true", help="TLS, users, access control, and an unauthorized client")
    parser.add_argument("--report", action="store_true", help="write docs/evidence/chaos")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    if arguments.judge:
        outcome = judged(int(first), arguments.minutes, arguments.judge, secured=arguments.secured)
        _say(summary(outcome))
        if arguments.report:
            write(outcome)
        return 1 if outcome.broken else 0
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Where tc is, which is not in every user's path.
    become_root()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # Connections are lost here on purpose.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    broken = 0
    for seed in range(int(first), int(last or first) + 1):
        with tempfile.TemporaryDirectory(prefix="chaos-") as scratch:
            directory = Path(scratch) if arguments.keep is None else arguments.keep / f"seed-{seed}"
            directory.mkdir(parents=True, exist_ok=True)
            _say(f"seed {seed}, {arguments.minutes:g} minutes")
            outcome = run(
                seed,
                arguments.minutes,
                directory,
                _say,
                behind_proxies=arguments.proxies,
                secured=arguments.secured,
            )
        _say(summary(outcome))
        if arguments.report:
            write(outcome)
        broken += bool(outcome.broken)
    return 1 if broken else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
