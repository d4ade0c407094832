"""The activity example, all of it with one command:

    python -m examples.activity                         five minutes on two free cores, up to fifteen on busy ones
    python -m examples.activity --rate 5000 --seconds 120
    python -m examples.activity --seed 7 --minutes 600 --broken 0.02

Needs what `make demo` installs, and Java 17. Everything is kept in the directory, which is emptied first.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from examples.activity.demo.play import Demo, play
from examples.activity.generator.producing import SendingError
from examples.activity.generator.visits import MINUTE_MS, Plan
from examples.activity.report.findings import differences
from examples.programs import ROOT, ExampleError, stop_on_signals
from examples.progress_output import ProgressOutput
from sordini.pipeline.errors import PipelineError

SPARK_STARTS = 7
MINUTES_REPORTED = "five minutes on two free cores, up to fifteen on busy ones"
"""Of the defaults. Without the installation, which says itself how long it takes."""
AFTER_MINUTES = 90
"""The time played ends so long ago: late phones' records, which come after it, are not of the future either."""


def main() -> int:
    demo = _demo_of(sys.argv[1:])
    stop_on_signals()
    tell = ProgressOutput()
    tell(f"{demo.seconds:g} s of visitors, then Spark is started {SPARK_STARTS} times: {MINUTES_REPORTED} in all")
    try:
        outcome = play(demo, tell)
    except (ExampleError, SendingError, PipelineError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    wrong = differences(outcome.found, outcome.counts)
    for one in wrong:
        print(f"the tables are not what was sent: {one}", file=sys.stderr)
    tell(f"done: {outcome.report}" + ("" if wrong else ", nothing lost, nothing twice"))
    return 1 if wrong else 0


def _demo_of(arguments: list[str]) -> Demo:
    parser = argparse.ArgumentParser(
        prog="python -m examples.activity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=1_000, help="records a second, about")
    parser.add_argument("--seconds", type=float, default=60, help="so long visitors come")
    parser.add_argument("--minutes", type=int, default=180, help="so much of the site's time is played meanwhile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broken", type=float, default=0.004, help="the share of records that are broken")
    parser.add_argument("--partitions", type=int, default=4, help="of each of the three topics")
    parser.add_argument("--directory", type=Path, default=ROOT / "data" / "demo", help="everything is kept here")
    asked = parser.parse_args(arguments)
    if asked.rate <= 0 or asked.seconds <= 0 or asked.minutes <= 0 or not 0 <= asked.broken <= 1:
        parser.error("rate, seconds and minutes are above 0, broken is from 0 to 1")
    end_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - AFTER_MINUTES * MINUTE_MS
    plan = Plan(asked.seed, end_ms - asked.minutes * MINUTE_MS, asked.minutes, round(asked.rate * asked.seconds))
    return Demo(_emptied(asked.directory.resolve(), parser), plan, asked.seconds, asked.broken, asked.partitions)


def _emptied(directory: Path, parser: argparse.ArgumentParser) -> Path:
    """Make room for the run; only what looks like a former run is removed."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / "logs" / "broker.log").exists():
            parser.error(f"{directory} has something else than a former run in it: name another directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


if __name__ == "__main__":
    sys.exit(main())
