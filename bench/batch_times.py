"""How long a batch takes at its 10th, 100th, 1,000th and 10,000th: tables without brokers and without Spark.

    python -m bench.batch_times --batches 10000 [--kind delta] [--no-upkeep]

Each batch is two small files, as of two tasks, written and committed as a stream does it, with the upkeep of a job file
without settings. A line has the medians of the batches around that number: seconds of the wall and of the processor,
the bytes that the process read and wrote, and what upkeep took, per batch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

from sordini.pipeline.jobs.state_folder import StateFolder
from sordini.pipeline.jobs.upkeep import Upkeep, UpkeepSettings
from sordini.pipeline.tables import open_table
from tests.support.frames import KINDS, frame
from tests.support.own_work import bytes_moved

MARKS = (10, 100, 300, 1000, 3000, 10_000)
AROUND = 50
OFF = UpkeepSettings(small_files_max=0, versions_max=0, vacuum_seconds=0)


class Took(NamedTuple):
    """One batch."""

    seconds: float
    cpu_seconds: float
    moved: int
    upkeep_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--no-upkeep", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind in arguments.kind or KINDS:
        with tempfile.TemporaryDirectory(prefix="batch-times-") as folder:
            _table(kind, Path(folder), arguments.batches, OFF if arguments.no_upkeep else UpkeepSettings())


def _table(kind: str, folder: Path, batches: int, settings: UpkeepSettings) -> None:
    table = open_table(kind, str(folder / "events"), app_id="bench")
    upkeep = Upkeep(table, settings, StateFolder(str(folder / "state")))
    took: list[Took] = []
    for number in range(batches):
        began, cpu, moved = time.perf_counter(), time.process_time(), bytes_moved()
        rows = frame(range(number * 8, number * 8 + 8))
        written = table.append(rows, number, {"t": {0: number * 8 + 8}})
        middle = time.perf_counter()
        seconds, cpu_seconds, moved = middle - began, time.process_time() - cpu, bytes_moved() - moved
        for step in upkeep.after_batch(written.files, written.bytes):
            if step.failure:
                _say(f"{kind}: {step}")
        took.append(Took(seconds, cpu_seconds, moved, time.perf_counter() - middle))
        if number + 1 in MARKS or number + 1 == batches:
            _report(kind, number + 1, took[-AROUND:])


def _report(kind: str, number: int, took: list[Took]) -> None:
    _say(
        f"{kind:8} batch {number:6,}: {1000 * median(each.seconds for each in took):7.1f} ms, "
        f"CPU {1000 * median(each.cpu_seconds for each in took):7.1f} ms, "
        f"{median(each.moved for each in took) / 1024:9,.0f} KiB, "
        f"upkeep {1000 * mean(each.upkeep_seconds for each in took):6.1f} ms"
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
