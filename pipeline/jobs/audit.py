"""`audit`: compares the producers' counts with the table, window by window.

Producers count the records that they send by windows of the records' time, and write the counts to a file, as JSON
lines or CSV with a first line of names:

    {"topic": "page_views", "window_start": "2026-11-22T08:00:00Z", "count": 1042}

Lines of the same window are added up, one for each producer. A record is in the table when a row or a dead letter has
its position. Further rows of the same record are counted as `twice`.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.job import Audit, Job, Sink, SinkKind
from sordini.pipeline.schemas.fields import RECORD, RecordColumns
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage, store_of
from sordini.pipeline.tables.store_client import is_missing, open_store, store_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.tables import Table

T = TypeVar("T")
Window = tuple[str, int]
"""A topic, and a window's start in seconds since 1970."""


class AuditRow(NamedTuple):
    """One window of one topic."""

    topic: str
    window_start: str
    sent: int
    rows: int
    """Records that a row was made of."""
    dead: int
    twice: int
    difference: int
    """Records in the table and the dead letters less those sent: negative if some are missing."""


def counts_of(job: Job) -> dict[Window, int]:
    """The counts of the job's producers. Raises PipelineError, also where nothing could be compared with them."""
    if job.audit is None:
        raise PipelineError(f"job {job.name} has no audit: its file needs the section for this command")
    sink = _table_sink(job)
    if open_sink_table(sink, job.name).schema() is None:
        raise PipelineError(f"there is no table at {sink.location} yet")
    return _ours(job, read_counts(job.audit.counts, job.audit.window.seconds, job.storage))


def audit(job: Job, spark: SparkSession, counts: Mapping[Window, int]) -> list[AuditRow]:
    """Compare window by window, in order, the topics that the job reads: others may share the counts and the table.

    Raises PipelineError.
    """
    assert job.audit is not None, "`counts_of` looks first"
    table = open_sink_table(_table_sink(job), job.name)
    found = _counted(table, spark, job.audit, job.audit.time, job.decode.record)
    dead: Mapping[Window, tuple[int, int]] = {}
    if job.dead_letters is not None and job.dead_letters.kind is not SinkKind.KAFKA:
        letters = open_sink_table(job.dead_letters, job.name)
        if letters.schema() is not None:
            # The time inside a dead letter is not known, that of its record is.
            dead = _counted(letters, spark, job.audit, RECORD.timestamp, RECORD)
    return compare(counts, _ours(job, found), _ours(job, dead))


def _table_sink(job: Job) -> Sink:
    if job.sink is None or job.sink.kind is SinkKind.KAFKA:
        raise PipelineError(f"job {job.name} writes into no table whose rows could be counted")
    if job.sink.upsert is not None:
        raise PipelineError(
            f"job {job.name} upserts: its table has the newest row of each key and not a row of each record, so there "
            "is nothing to compare with the producers' counts"
        )
    return job.sink


def _ours(job: Job, counts: Mapping[Window, T]) -> dict[Window, T]:
    return {window: count for window, count in counts.items() if job.source.reads(window[0])}


def compare(
    sent: Mapping[Window, int], found: Mapping[Window, tuple[int, int]], dead: Mapping[Window, tuple[int, int]]
) -> list[AuditRow]:
    """Put counts side by side; `found` and `dead` have records and rows too many of each window."""
    rows = []
    for topic, start in sorted({*sent, *found, *dead}, key=lambda window: (window[1], window[0])):
        window = (topic, start)
        in_table, too_many = found.get(window, (0, 0))
        in_dead, dead_too_many = dead.get(window, (0, 0))
        rows.append(
            AuditRow(
                topic=topic,
                window_start=datetime.fromtimestamp(start, UTC).isoformat().replace("+00:00", "Z"),
                sent=sent.get(window, 0),
                rows=in_table,
                dead=in_dead,
                twice=too_many + dead_too_many,
                difference=in_table + in_dead - sent.get(window, 0),
            )
        )
    return rows


def read_counts(path: str, window_seconds: float, storage: ObjectStorage = NOWHERE) -> dict[Window, int]:
    """Producers' counts, of a file or object, added up by our windows. Raises PipelineError, which names the line."""
    try:
        with _opened_text(path, storage) as file:
            counts: Counter[Window] = Counter()
            for number, entry in _entries(file, is_csv=path.endswith(".csv")):
                try:
                    moment = datetime.fromisoformat(str(entry["window_start"]))
                    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
                    start = int(seconds // window_seconds * window_seconds)
                    counts[str(entry["topic"]), start] += int(entry["count"])
                except (KeyError, TypeError, ValueError) as error:
                    raise PipelineError(f"{path}:{number}: not a count ({type(error).__name__}: {error})") from None
            return dict(counts)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "they are not text in UTF-8"
        raise PipelineError(f"the counts in {path} cannot be read: {reason}") from None


def _opened_text(path: str, storage: ObjectStorage) -> IO[str]:
    """Raises OSError and PipelineError."""
    if not store_of(path):
        return Path(path).open(encoding="utf-8-sig", newline="")  # Spreadsheets begin CSV with a byte order mark.
    folder, _, name = path.rpartition("/")
    try:
        data = bytes(open_store(folder, storage.object_store_options(path)).get(name).bytes())
    except Exception as error:  # All of them - obstore's have no common class with Python's own.
        if isinstance(error, FileNotFoundError) and is_missing(error):
            raise PipelineError(f"the counts in {path} cannot be read: there is no such object") from None
        raise store_error(path, error) from error
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")


def _entries(file: Any, *, is_csv: bool) -> Iterator[tuple[int, Any]]:
    """Lines with their numbers."""
    if is_csv:
        yield from enumerate(csv.DictReader(file), 2)
        return
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _counted(
    table: Table, spark: SparkSession, audit: Audit, time: str, record: RecordColumns
) -> dict[Window, tuple[int, int]]:
    """For each window the records, and the rows beyond one for each."""
    from pyspark.sql import functions as sql

    schema = table.schema()
    if schema is not None and time not in schema.names:
        raise PipelineError(f"audit.time is {time}, and the table has no such column")
    by_record = (
        table.read(spark, columns=[*dict.fromkeys((*record.identity, time))])
        .groupBy(*record.identity, sql.window(time, audit.window.text).start.alias("start"))
        .agg(sql.count(sql.lit(1)).alias("rows"))
    )
    summed = by_record.groupBy(sql.col(record.topic).alias("topic"), "start").agg(
        sql.count(sql.lit(1)).alias("records"), sql.sum(sql.col("rows") - 1).alias("more")
    )
    seconds = sql.unix_seconds("start").alias("seconds")
    return {
        (row["topic"], row["seconds"]): (row["records"], row["more"])
        for row in summed.select("topic", seconds, "records", "more").collect()
    }
