"""Upserts beside Spark's own: a job of ours, and MERGE of Delta's connector in foreachBatch, on one stream.

A topic has a creation of each key, and then updates and deletions of random ones, in Debezium's envelope. Each side has
a fresh Spark session, a fresh table and the same batches. Both run on the PySpark that the connector is for. The rounds
take turns; the table shows medians, of the wall's time and of the processor's, which a busy machine changes less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer

from bench.client import ROOT
from bench.sides import Say
from tests.outside.needs import need_delta
from tests.outside.processes import SordiniProcess
from tests.pipeline.topics import Place

PART = "upserts"
TOPIC = "people"
PARTITIONS = 4
KEYS, CHANGES, RECORDS_MAX = 100_000, 400_000, 50_000
QUICK_SHARE = 20
ROUNDS_MAX = 3
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Took(NamedTuple):
    """A run of one side; rows are the table's."""

    seconds: float
    cpu_seconds: float
    rows: int


def tables(rounds: int, say: Say, *, quick: bool) -> list[str]:
    """The rows of the table. Raises SystemExit when a side fails, or the two tables have other rows."""
    share = QUICK_SHARE if quick else 1
    keys, changes, records_max = KEYS // share, CHANGES // share, RECORDS_MAX // share
    measured: dict[str, list[Took]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory() as folder, SordiniProcess(Path(folder) / "broker") as broker:
        Place(broker.bootstrap).make_topic(PARTITIONS, name=TOPIC, configs={"retention.ms": "-1"})
        records = fill(broker.bootstrap, keys, changes)
        for number in range(1 if quick else min(rounds, ROUNDS_MAX)):
            rows = set()
            for side in ("theirs", "ours") if number % 2 else ("ours", "theirs"):
                place = Path(folder) / f"{side}-{number}"
                place.mkdir()
                took = run(side, broker.bootstrap, place, records_max)
                measured[side].append(took)
                rows.add(took.rows)
                seconds = f"{took.seconds:.1f} s, CPU {took.cpu_seconds:.1f} s"
                say(f"{side}: {records:,} changes in {seconds}, {took.rows:,} rows")
            if len(rows) > 1:
                raise SystemExit(f"the tables have different rows: {rows}")
    theirs, ours = (median(each.seconds for each in measured[side]) for side in ("theirs", "ours"))
    their_cpu, our_cpu = (median(each.cpu_seconds for each in measured[side]) for side in ("theirs", "ours"))
    figures = f"{records / theirs:,.0f} | {records / ours:,.0f} | {theirs / ours:.2f}"
    cpu = f"{1e6 * their_cpu / records:,.0f} | {1e6 * our_cpu / records:,.0f} | {their_cpu / our_cpu:.2f}"
    heads = ["MERGE in foreachBatch, changes/s", "a job that upserts, changes/s", "gain"]
    heads += ["MERGE, CPU us a change", "a job, CPU us a change", "gain in CPU"]
    return [
        f"| upserts of one stream | {' | '.join(heads)} |",
        "| --- |" + " --: |" * len(heads),
        f"| {records:,} changes of {keys:,} keys, {records_max:,} a batch | {figures} | {cpu} |",
    ]


def note() -> str:
    return (
        "One topic, one source, local[2], medians, each side in fresh sessions. Again: "
        f"`make bench ARGS='--only {PART}'` after `python3 scripts/outside.py delta`."
    )


def fill(bootstrap: str, keys: int, changes: int) -> int:
    """Send the changes; how many there are."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    random = Random(1)
    for number in range(keys + changes):
        key = number if number < keys else random.randrange(keys)
        is_deletion = number >= keys and random.random() < 0.05
        row = {"id": key, "name": f"name {key}", "age": number % 100, "score": key / 7}
        before, after, op = ({"id": key}, None, "d") if is_deletion else (None, row, "c" if number < keys else "u")
        value = {"before": before, "after": after, "op": op, "source": {"lsn": number}}
        while True:
            try:
                producer.produce(TOPIC, json.dumps(value), json.dumps({"id": key}))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(60)
    return keys + changes


def run(side: str, bootstrap: str, folder: Path, records_max: int) -> Took:
    packages, jars = need_delta()
    settings = {
        "spark": {**SETTINGS, "spark.jars": ",".join(map(str, jars)), "spark.local.dir": str(folder)},
        "bootstrap": bootstrap,
        "topic": TOPIC,
        "folder": str(folder),
        "records_max": records_max,
    }
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "bench.upsert_job", side, json.dumps(settings)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} ended with status {done.returncode}")
    seconds, cpu, rows = json.loads(done.stdout.splitlines()[-1])
    return Took(float(seconds), float(cpu), int(rows))
