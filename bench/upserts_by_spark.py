"""Upserts beside Spark's own: a job of ours, and MERGE of Delta's connector in foreachBatch, on one stream.

A topic has a creation of each key, and then updates and deletions of random ones, in Debezium's envelope. Each side has
a fresh Spark session, a fresh table and the same batches. Both run on the PySpark that the connector is for. The rounds
take turns; the table shows medians, of the wall's time and of the processor's, which a busy machine changes less.

The table is in a folder, and then in a bucket of an S3 server on this machine: theirs by Hadoop's file system with
Amazon's libraries, which are 690 MB of jars, ours without any. The server's own time of the processor is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from confluent_kafka import Producer

from bench.client import ROOT
from bench.sides import Say
from tests.outside.needs import need_delta_s3
from tests.outside.processes import SordiniProcess
from tests.outside.s3_server import KEYS as STORE_KEYS
from tests.outside.s3_server import REGION, S3Server
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


class Stream(NamedTuple):
    """What both sides read: so many changes of so many keys, in batches of so many."""

    bootstrap: str
    changes: int
    keys: int
    records_max: int


def tables(rounds: int, say: Say, *, quick: bool) -> list[str]:
    """The rows of the table. Raises SystemExit when a side fails, or the two tables have other rows."""
    share = QUICK_SHARE if quick else 1
    rounds = 1 if quick else min(rounds, ROUNDS_MAX)
    keys, changes = KEYS // share, CHANGES // share
    heads = ["MERGE in foreachBatch, changes/s", "a job that upserts, changes/s", "gain"]
    heads += ["MERGE, CPU us a change", "a job, CPU us a change", "gain in CPU"]
    found = [f"| upserts of one stream | {' | '.join(heads)} |", "| --- |" + " --: |" * len(heads)]
    with tempfile.TemporaryDirectory() as directory, SordiniProcess(Path(directory) / "broker") as broker:
        Place(broker.bootstrap).make_topic(PARTITIONS, name=TOPIC, configs={"retention.ms": "-1"})
        stream = Stream(broker.bootstrap, fill(broker.bootstrap, keys, changes), keys, RECORDS_MAX // share)
        found.append(_row("folder", stream, Path(directory) / "folder", None, rounds, say))
        with _store(Path(directory) / "store") as store:
            found.append(_row("bucket", stream, Path(directory) / "bucket", store, rounds, say))
    return found


@contextmanager
def _store(directory: Path) -> Iterator[S3Server]:
    directory.mkdir()
    with S3Server(directory) as server:
        yield server


def _row(name: str, stream: Stream, directory: Path, store: S3Server | None, rounds: int, say: Say) -> str:
    measured: dict[str, list[Took]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        rows = set()
        for side in ("theirs", "ours") if number % 2 else ("ours", "theirs"):
            folder = directory / f"{side}-{number}"
            folder.mkdir(parents=True)
            took = run(side, stream, folder, store)
            measured[side].append(took)
            rows.add(took.rows)
            seconds = f"{took.seconds:.1f} s, CPU {took.cpu_seconds:.1f} s"
            say(f"{side}, {name}: {stream.changes:,} changes in {seconds}, {took.rows:,} rows")
        if len(rows) > 1:
            raise SystemExit(f"the tables have different rows: {rows}")
    theirs, ours = (median(each.seconds for each in measured[side]) for side in ("theirs", "ours"))
    their_cpu, our_cpu = (median(each.cpu_seconds for each in measured[side]) for side in ("theirs", "ours"))
    records = stream.changes
    figures = f"{records / theirs:,.0f} | {records / ours:,.0f} | {theirs / ours:.2f}"
    cpu = f"{1e6 * their_cpu / records:,.0f} | {1e6 * our_cpu / records:,.0f} | {their_cpu / our_cpu:.2f}"
    work = f"{records:,} changes of {stream.keys:,} keys, {stream.records_max:,} a batch, into a {name}"
    return f"| {work} | {figures} | {cpu} |"


def note() -> str:
    return (
        "One topic, one source, local[2], medians, each side in fresh sessions. Again: "
        f"`make bench ARGS='--only {PART}'` after `python3 scripts/outside.py delta-s3`."
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


def run(side: str, stream: Stream, folder: Path, store: S3Server | None) -> Took:
    packages, jars = need_delta_s3()
    spark = {**SETTINGS, "spark.jars": ",".join(map(str, jars)), "spark.local.dir": str(folder)}
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable}
    location, storage = str(folder / "people"), {}
    if store is not None:
        location = f"{store.make_bucket(folder.name)}/people"
        spark |= hadoop(store)
        storage = {"endpoint": store.endpoint, "region": REGION, "allow_http": True}
        environment |= {"AWS_ACCESS_KEY_ID": STORE_KEYS.access_key, "AWS_SECRET_ACCESS_KEY": STORE_KEYS.secret_key}
    settings = {
        "spark": spark,
        "bootstrap": stream.bootstrap,
        "topic": TOPIC,
        "folder": str(folder),
        "location": location,
        "storage": storage,
        "records_max": stream.records_max,
    }
    command = [sys.executable, "-m", "bench.upsert_job", side, json.dumps(settings)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} ended with status {done.returncode}")
    seconds, cpu, rows = json.loads(done.stdout.splitlines()[-1])
    return Took(float(seconds), float(cpu), int(rows))


def hadoop(store: S3Server) -> Mapping[str, str]:
    """Hadoop's file system for the store; the keys come by the environment. Delta's connector says `s3a`."""
    return {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
