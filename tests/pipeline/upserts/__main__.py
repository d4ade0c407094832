"""`python -m tests.pipeline.upserts`: the suite by itself, at any scale."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

from sordini.testing.registry import KitRegistry
from tests.outside.processes import SordiniProcess
from tests.pipeline.topics import Place
from tests.pipeline.upserts.avro_records import avro_values
from tests.pipeline.upserts.postgres import Postgres
from tests.pipeline.upserts.readers import READERS
from tests.pipeline.upserts.suite import PARTITIONS, TOPIC, Scale, Suite, Values

BATCHES = 6
"""That a round of changes needs at least: most kills come between the first one and the last."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make upserts ARGS=...", description=__doc__)
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--kind", choices=tuple(READERS), default="delta")
    parser.add_argument("--values", choices=("json", "avro"), default="json", help="avro: by a schema registry")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-spark", action="store_true", help="leave Spark's reader out")
    given = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began:7.0f} s  {text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="upserts-") as name:
        folder = Path(name)
        broker = SordiniProcess(folder / "broker").start()
        try:
            Place(broker.bootstrap).make_topic(PARTITIONS, name=TOPIC, configs={"retention.ms": "-1"})
            with ExitStack() as held, Postgres(folder / "postgres") as postgres:
                a_batch = max(1, given.changes // given.kills // BATCHES)
                scale = Scale(given.changes, given.keys, given.kills, given.kind, a_batch)
                values = avro_values(_registry(held, broker)) if given.values == "avro" else Values()
                suite = Suite(folder, broker.bootstrap, postgres, scale, Random(given.seed), say, values)
                kills = suite.run()
                spark = None if given.without_spark else _session(suite)
                outcome = suite.compare(spark)
        finally:
            broker.stop()
    say(f"{outcome.records:,} records, kills {kills}, {outcome.rows:,} rows, {outcome.dead} dead letters")
    for reader, found in outcome.differences.items():
        say(f"{reader}: {'; '.join(found) or 'equal'}")
    return int(any(outcome.differences.values()) or outcome.dead > 0)


def _registry(held: ExitStack, broker: SordiniProcess) -> str:
    """The address of a schema registry beside the broker, in this process: no kill meets it."""
    registry = KitRegistry()
    registry.start([("127.0.0.1", broker.port)])
    held.callback(registry.close)
    return registry.url


def _session(suite: Suite) -> object:
    from sordini.pipeline.jobs.session import open_session

    return open_session([suite.job])


if __name__ == "__main__":
    sys.exit(main())
