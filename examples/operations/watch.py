"""The example itself: records are sent while a stream looks for alerts in them; then the rest is counted.

It uses the jobs as a library, all of them on one Spark session, where the activity example uses the commands.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from deltalake import DeltaTable
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from examples.operations.generator import TOPICS, Record
from examples.programs import ExampleError
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.aggregate import aggregate
from sordini.pipeline.jobs.backfill import close_windows
from sordini.pipeline.jobs.graceful_stop import BatchGate
from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.stream import stream

JOBS = Path(__file__).resolve().parent / "jobs"
ALERTS = "alerts"
PARTITIONS = 3
ALERTS_SECONDS_MAX = 180.0
STARTS_MAX = 3
_FLUSH_SECONDS_MAX = 60.0


class Alert(NamedTuple):
    """One record of the topic `alerts`."""

    host: str
    metric: str
    value: float
    limit: float


class Crawler(NamedTuple):
    """An address that asks for more than a person reads."""

    address: str
    user_agent: str
    requests_a_minute: int
    minutes: int


class Seen(NamedTuple):
    """What the jobs found."""

    alerts: list[Alert]
    crawlers: list[Crawler]
    visits: dict[int, int]
    """By member."""
    partitions: dict[int, set[int]]
    """Member -> the partitions that visits to them are in: one each, as the member is the key."""
    worst: list[dict[str, Any]]
    """The minutes of machines that were most out of the ordinary."""


def job(name: str, bootstrap: str, directory: Path) -> Job:
    """One of the example's jobs, for the run in this directory. Raises JobFileError."""
    return read_job(JOBS / f"{name}.yaml", {"OPERATIONS": str(directory)}, bootstrap)


def make_topics(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (*TOPICS, ALERTS)])
    finally:
        admin.close()


def watch(
    spark: SparkSession,
    bootstrap: str,
    directory: Path,
    records: Sequence[Record],
    alerts: int,
    tell: Callable[[str], None],
) -> Seen:
    """Send the records and find what is in them. Raises ExampleError when fewer than `alerts` alerts come in time."""
    make_topics(bootstrap)
    with _Stream(job("alerts", bootstrap, directory), spark) as alerting:
        tell("a stream watches the measures; sending")
        _send(bootstrap, records)
        found = _alerts(bootstrap, alerts, alerting.check, tell)
    end_ms = records[-1].timestamp_ms + 2 * 3_600_000
    for name in ("machines", "crawlers", "member_visits"):
        tell(f"counting: {name}")
        _count(job(name, bootstrap, directory), spark, end_ms)
    return Seen(found, _crawlers(directory), *_visits(directory), _worst(directory))


class _Stream:
    """The stream of alerts in a thread of its own, from the beginning of a `with` to its end.

    A stream that ended by itself is started again, as a supervisor would, and goes on where it was: on a machine that
    is busy beyond measure one of Spark's workers may come up too late.
    """

    def __init__(self, alerting: Job, spark: SparkSession) -> None:
        self._job = alerting
        self._spark = spark
        self._gate = BatchGate()
        self._is_over = threading.Event()
        self._failures: list[PipelineError] = []
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In this order: a gate that takes the place of the one that is shut is made before the event is looked at.
        self._is_over.set()
        self._gate.shut()
        self._thread.join()

    def check(self) -> None:
        """Raise ExampleError when it has ended for good."""
        if not self._thread.is_alive():
            raise ExampleError(f"the stream of alerts ended: {self._failures[-1] if self._failures else 'unasked'}")

    def _run(self) -> None:
        while len(self._failures) < STARTS_MAX and not self._is_over.is_set():
            try:
                stream(
                    [self._job],
                    self._spark,
                    available_now=False,
                    on_batch=lambda *_: None,
                    notice=lambda _: None,
                    gate=self._gate,
                )
            except PipelineError as error:
                self._failures.append(error)
                self._gate = BatchGate()
            else:
                return


def _send(bootstrap: str, records: Sequence[Record]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20)
    futures = [producer.send(one.topic, key=one.key, value=one.value, timestamp_ms=one.timestamp_ms) for one in records]
    producer.flush(_FLUSH_SECONDS_MAX)
    producer.close()
    failed = [future.exception for future in futures if future.failed()]
    if failed:
        raise ExampleError(f"{len(failed)} records were not acknowledged; the first: {failed[0]}")


def _alerts(bootstrap: str, wanted: int, check: Callable[[], None], tell: Callable[[str], None]) -> list[Alert]:
    """Read alerts as an on-call tool would, until there are as many as wanted."""
    found: list[Alert] = []
    consumer = KafkaConsumer(ALERTS, bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    deadline = time.monotonic() + ALERTS_SECONDS_MAX
    try:
        while len(found) < wanted and time.monotonic() < deadline:
            check()
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    fields = json.loads(record.value)
                    alert = Alert(*(fields[name] for name in ("host", "metric", "value", "limit")))
                    if len(found) < 5:
                        tell(
                            f"ALERT {alert.host}: {alert.metric} is {alert.value:,.1f}, the limit is {alert.limit:,.0f}"
                        )
                    found.append(alert)
    finally:
        consumer.close()
    if len(found) < wanted:
        raise ExampleError(f"{len(found)} alerts came, {wanted} were expected")
    return found


def _count(counting: Job, spark: SparkSession, end_ms: int) -> None:
    """Windows by their watermarks, and those that no watermark has passed."""
    aggregate(
        counting,
        spark,
        list(counting.aggregates),
        available_now=True,
        on_batch=lambda *_: None,
        notice=lambda _: None,
    )
    for one in counting.aggregates:
        close_windows(counting, spark, one, None, end_ms)


def _rows(directory: Path, table: str) -> list[dict[str, Any]]:
    """A table as any reader has it, without Spark."""
    rows: list[dict[str, Any]] = DeltaTable(str(directory / "tables" / table)).to_pyarrow_table().to_pylist()
    return rows


def _crawlers(directory: Path) -> list[Crawler]:
    """Addresses that were flagged in most of their minutes: one busy minute makes nobody a crawler."""
    minutes = defaultdict(list)
    for row in _rows(directory, "addresses"):
        minutes[row["address"], row["user_agent"]].append(row)
    return sorted(
        Crawler(address, name, round(sum(row["requests"] for row in rows) / len(rows)), len(rows))
        for (address, name), rows in minutes.items()
        if sum(row["is_crawler"] for row in rows) * 2 > len(rows)
    )


def _visits(directory: Path) -> tuple[dict[int, int], dict[int, set[int]]]:
    visits: dict[int, int] = defaultdict(int)
    partitions = defaultdict(set)
    for row in _rows(directory, "member_visits"):
        visits[row["member_id"]] += row["visits"]
        partitions[row["member_id"]].add(row["partition"])
    return dict(visits), dict(partitions)


def _worst(directory: Path) -> list[dict[str, Any]]:
    rows = [row for row in _rows(directory, "load") if row["metric"] == "request_ms"]
    return sorted(rows, key=lambda row: row["most"], reverse=True)[:3]
