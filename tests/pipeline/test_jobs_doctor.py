"""`doctor` of a job compares the table's gaps with the topic: what is missing there is none of the table's fault."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from kafka import KafkaProducer

from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.offset_gaps import Gap, lost
from sordini.pipeline.jobs.table_doctor import of_job
from sordini.pipeline.tables import open_table
from tests.support.frames import LocalFrame

JOB = """\
name: events
source: {bootstrap: $bootstrap, topics: [$topic]}
decode: {mode: raw}
sink: {location: events}
"""


def send(bootstrap: str, topic: str, count: int, transactional_id: str | None = None) -> None:
    with closing(KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)) as producer:
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush(timeout=30)
        if transactional_id is not None:
            producer.commit_transaction()


def test_records_that_the_topic_has_and_the_table_lacks_are_gaps_and_markers_of_transactions_are_not(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    send(bootstrap, topic, 10)
    send(bootstrap, topic, 2, f"{topic}-writer")
    send(bootstrap, topic, 3)
    path = tmp_path / "events.yaml"
    path.write_text(JOB.replace("$bootstrap", bootstrap).replace("$topic", topic))
    offsets = [*range(5), 7, 8, 9, 10, 11, 13, 14, 15]
    rows = pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic] * len(offsets)),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )
    table = open_table("delta", str(tmp_path / "events"), app_id="events")
    table.append(LocalFrame([rows]), 0, {topic: {0: 16}})  # type: ignore[arg-type]
    [report] = of_job(read_job(path, {}))
    assert report.gaps == (Gap(topic, 0, 5, 7),)
    [found] = report.findings()
    assert found.text == f"2 offsets are in the topic and not in the table: {topic}-0@5..6"
    assert "backfill" in found.advice


def test_gaps_are_found_up_to_the_position_under_any_names_and_however_many_they_are(
    bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    send(bootstrap, topic, 40)
    path = tmp_path / "events.yaml"
    named = JOB.replace("mode: raw", "mode: raw, record_prefix: kafka_")
    path.write_text(named.replace("$bootstrap", bootstrap).replace("$topic", topic))
    offsets = range(0, 30, 3)
    rows = pa.RecordBatch.from_pydict(
        {
            "kafka_topic": pa.array([topic] * len(offsets)),
            "kafka_partition": pa.array([0] * len(offsets), pa.int32()),
            "kafka_offset": pa.array(offsets, pa.int64()),
        }
    )
    table = open_table("delta", str(tmp_path / "events"), app_id="events")
    table.append(LocalFrame([rows]), 0, {topic: {0: 32}})  # type: ignore[arg-type]
    every = [*(Gap(topic, 0, at + 1, at + 3) for at in range(0, 27, 3)), Gap(topic, 0, 28, 32)]
    job = read_job(path, {})
    [report] = of_job(job)
    assert list(report.gaps) == every
    assert lost(job, every, {topic: {0: 5}}, reads_max=2) == [Gap(topic, 0, 5, 6), *every[2:]]
