"""Metrics of running queries in Prometheus' text format, from a listener of Spark's progress.

All names begin with `sordini_pipeline_`, and have the label `query`, which is the job's name, or job/aggregate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from pyspark.sql.streaming.listener import StreamingQueryListener

from sordini.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from sordini.pipeline.jobs.upkeep import UpkeepStep

PREFIX: Final = "sordini_pipeline_"
_QUERY: Final = ("query",)
_PARTITION: Final = ("query", "topic", "partition")


class _Meters(NamedTuple):
    batches: Counter
    records: Counter
    late: Counter
    rows: Counter
    dead: Counter
    running: Gauge
    batch_seconds: Gauge
    finished: Gauge
    watermark: Gauge
    state_rows: Gauge
    lag: Gauge
    files: Counter
    upkeep: Counter
    upkeep_seconds: Counter


class Metrics(StreamingQueryListener):
    """Counts Spark's progress reports as a listener of a session. `wrote` counts rows and dead letters."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._meters = _meters(self.registry)
        self._names: dict[str, str] = {}
        self._counting: set[str] = set()

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics in another thread; returns the port, which the system picks for 0."""
        try:
            server, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            raise PipelineError(f"metrics cannot be served at {host}:{port}: {error.strerror}") from None
        return server.server_port

    def wrote(self, query: str, rows: int, dead: int, records: int | None = None) -> None:
        """Count a batch's rows and dead letters, and its records, which Spark counts twice where it reads them twice.

        Without `records` Spark's count is taken.
        """
        self._meters.rows.labels(query).inc(rows)
        self._meters.dead.labels(query).inc(dead)
        if records is not None:
            self._counting.add(query)
            self._meters.records.labels(query).inc(records)

    def kept_up(self, query: str, files: int, steps: Sequence[UpkeepStep]) -> None:
        """Count a batch's files, and the upkeep after it."""
        self._meters.files.labels(query).inc(files)
        for step in steps:
            self._meters.upkeep.labels(query, step.action, "failed" if step.failure else "done").inc()
            self._meters.upkeep_seconds.labels(query, step.action).inc(step.seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name, here and below.
        self._names[str(event.runId)] = event.name or ""
        self._meters.running.labels(event.name or "").set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.progressed(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """No records: nothing changes."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The event has only the id of the run."""
        name = self._names.pop(str(event.runId), None)
        if name is not None:
            self._meters.running.labels(name).set(0)

    def progressed(self, progress: dict[str, Any]) -> None:
        """Process one progress report of Spark's (its JSON form)."""
        query, meters = progress.get("name") or "", self._meters
        meters.batches.labels(query).inc()
        if query not in self._counting:
            meters.records.labels(query).inc(progress.get("numInputRows", 0))
        meters.batch_seconds.labels(query).set(progress.get("durationMs", {}).get("triggerExecution", 0) / 1000)
        meters.finished.labels(query).set(_seconds(progress["timestamp"]))
        operators = progress.get("stateOperators", [])
        meters.late.labels(query).inc(sum(one.get("numRowsDroppedByWatermark", 0) for one in operators))
        if operators:
            meters.state_rows.labels(query).set(sum(one.get("numRowsTotal", 0) for one in operators))
        if "watermark" in progress.get("eventTime", {}):
            meters.watermark.labels(query).set(_seconds(progress["eventTime"]["watermark"]))
        for source in progress.get("sources", []):
            for topic, partition, lag in lags(source):
                meters.lag.labels(query, topic, partition).set(lag)


def lags(source: dict[str, Any]) -> list[tuple[str, str, int]]:
    """How far each partition is behind, from a source's part of a progress report; none if it has no offsets."""
    end, latest = source.get("endOffset"), source.get("latestOffset")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return []
    return [
        (topic, partition, max(0, at - end.get(topic, {}).get(partition, 0)))
        for topic, partitions in latest.items()
        if not topic.startswith("$")  # What our source notes besides offsets.
        for partition, at in partitions.items()
    ]


def _seconds(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()


def _meters(registry: CollectorRegistry) -> _Meters:
    def counter(name: str, about: str, labels: tuple[str, ...] = _QUERY) -> Counter:
        return Counter(f"{PREFIX}{name}", about, labels, registry=registry)

    def gauge(name: str, about: str, labels: tuple[str, ...] = _QUERY) -> Gauge:
        return Gauge(f"{PREFIX}{name}", about, labels, registry=registry)

    return _Meters(
        batches=counter("batches", "Batches that ended."),
        records=counter("records", "Records that were read."),
        late=counter("late_rows", "Rows that came when their window was closed."),
        rows=counter("rows", "Rows that were written."),
        dead=counter("dead_letters", "Records that could not be decoded."),
        running=gauge("running", "1 while the query runs."),
        batch_seconds=gauge("batch_seconds", "How long the last batch took."),
        finished=gauge("last_batch_timestamp_seconds", "When the last batch began, in seconds since 1970."),
        watermark=gauge("watermark_timestamp_seconds", "Events older than this come too late."),
        state_rows=gauge("state_rows", "Open windows and groups."),
        lag=gauge("lag_offsets", "Offsets that are still to be read.", _PARTITION),
        files=counter("files", "Files that batches added to the table."),
        upkeep=counter("upkeep", "Upkeep of tables between batches.", (*_QUERY, "action", "outcome")),
        upkeep_seconds=counter("upkeep_seconds", "How long that took.", (*_QUERY, "action")),
    )
