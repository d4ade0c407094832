"""The oldest Spark that our source supports: a batch read and written with its own Kafka source, and read with ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from tests.compat.sent import START_MS
from tests.outside.needs import ROOT, need_connector, need_spark
from tests.outside.versions import OLDEST_PYSPARK

JOB = Path(__file__).with_name("spark_job.py")
COUNT = 40
SECONDS_MAX = 300


@pytest.fixture
def sent(bootstrap: str, make_topic: Callable[..., str]) -> tuple[str, list[list[Any]]]:
    """A topic, and its rows as the job prints them."""
    # The records are from 2024: a broker would soon find them too old.
    topic, rows = make_topic(partitions=2, configs={"retention.ms": "-1"}), []
    with closing(KafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4")) as producer:
        for number in range(COUNT):
            partition, offset = number % 2, number // 2
            key, value = f"key-{number}", f"value-{number}"
            headers = [("n", b"%d" % number)] if number % 3 == 0 else None
            time_ms = START_MS + 1_000 * offset
            record = {"key": key.encode(), "headers": headers, "partition": partition, "timestamp_ms": time_ms}
            producer.send(topic, value.encode(), **record)
            rows.append([partition, offset, time_ms, key, value, [f"n={number}"] if headers else None])
        producer.flush(timeout=15)
    return topic, sorted(rows, key=lambda row: row[:2])


@pytest.mark.slow
def test_spark_reads_rows_offsets_and_times_and_writes_a_batch(
    bootstrap: str, sent: tuple[str, list[list[Any]]], admin: KafkaAdminClient, tmp_path: Path
) -> None:
    topic, rows = sent
    packages, jars = need_spark(), need_connector()
    target = f"{topic}-target"
    admin.create_topics({target: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
    command = [sys.executable, str(JOB), bootstrap, topic, target, *map(str, jars)]
    # The older PySpark is found before the one of this environment, which has all else that our source imports.
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / ".import")])}
    done = subprocess.run(
        command, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["version"] == OLDEST_PYSPARK
    assert found["everything"] == found["ours"] == rows
    assert found["offsets"] == [row for row in rows if (5 if row[0] == 0 else 0) <= row[1] < (8 if row[0] == 0 else 3)]
    assert found["since"] == [row for row in rows if row[0] == 0 and row[2] >= START_MS + 10_000]
    written = sorted((key, value) for *_, key, value, _ in found["written"])
    assert written == sorted((row[3], row[4].upper()) for row in rows if row[1] < 4)
    assert [row[1] for row in found["written"]] == list(range(8))
