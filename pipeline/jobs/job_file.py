"""From a job file to a Job: every setting is checked, and defaults are filled in.

The larger sections have modules: `job_file_source.py`, `job_file_decode.py` and `job_file_sinks.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from sordini.cli.common.settings_tree import Interval, Section
from sordini.pipeline.jobs.job import Aggregate, Audit, Decode, Job, JobSource, Sink, SinkKind, SparkSettings
from sordini.pipeline.jobs.job_file_decode import decode_of
from sordini.pipeline.jobs.job_file_sinks import COLUMN, dead_letters_of, location_of, sink_of
from sordini.pipeline.jobs.job_file_source import source_of
from sordini.pipeline.jobs.job_file_storage import storage_of
from sordini.pipeline.jobs.job_file_tree import JobSection, name_of, read_tree, tree_of
from sordini.pipeline.jobs.job_file_upsert import upsert_of
from sordini.pipeline.jobs.row_columns import TIMES, check_column, check_same_column, columns_of, columns_of_windows
from sordini.pipeline.tables.object_storage import ObjectStorage

STATES: Final = "SORDINI_PIPELINE_STATE"
"""The environment variable with the folder of the states of jobs, where job files cannot be written beside."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def read_job(path: Path, environment: Mapping[str, str], bootstrap: str = "") -> Job:
    """Read a job file. `bootstrap` takes precedence over the file's own address.

    Raises JobFileError, which names the file, the line where it is known, and the setting.
    """
    return _job_of(JobSection(path, read_tree(path), "", environment), path.resolve().parent, bootstrap, path)


def job_of_settings(
    settings: Mapping[str, Any], home: Path, environment: Mapping[str, str], bootstrap: str = ""
) -> Job:
    """The job of settings that a program has. Raises JobFileError, which names the job and the setting."""
    title = Path(f"job {settings.get('name', '')}".strip())
    top = JobSection(title, tree_of(settings), "", environment)
    return _job_of(top, home.resolve(), bootstrap, None)


def _job_of(top: JobSection, home: Path, bootstrap: str, file: Path | None) -> Job:
    environment = top.environment
    name = top.text("name")
    if not _NAME.fullmatch(name):
        top.wrong("name", f"is {name!r}: up to 80 letters, digits, - and _")
    source = source_of(top.section("source"), bootstrap or environment.get("SORDINI_BOOTSTRAP", ""))
    decode = decode_of(top.section("decode"), home)
    function = top.function("transform")
    transform = name_of(function) if function else _transform(top)
    # With a transform Spark finds the columns: see spark_checks.py.
    columns = None if transform else columns_of(decode)
    storage = storage_of(top.section("storage"), home, environment)
    sink = None
    if "sink" in top:
        sink = _sink(top.section("sink"), home, source, decode, columns, storage)
    dead = top.section("dead_letters")
    job = Job(
        name=name,
        home=home,
        source=source,
        decode=decode,
        sink=sink,
        dead_letters=dead_letters_of(dead, home, source, sink, storage),
        state=location_of(home, top.text("state", f"{environment.get(STATES) or '.sordini'}/{name}")),
        transform=transform,
        every=_every(top.section("stream")),
        aggregates=_aggregates(top.section("aggregates"), home, source, columns, storage),
        audit=_audit(top.section("audit"), home, columns, decode.record.timestamp) if "audit" in top else None,
        spark=_spark(top.section("spark")),
        storage=storage,
        file=file,
        function=function,
    )
    if sink is None and not job.aggregates:
        top.wrong("", "has neither a sink nor aggregates, so rows have no destination")
    _check_destinations(top, job)
    top.finish()
    return job


def _sink(
    section: Section,
    home: Path,
    source: JobSource,
    decode: Decode,
    columns: Mapping[str, str] | None,
    storage: ObjectStorage,
) -> Sink:
    upsert = upsert_of(section, section.choice("kind", SinkKind.DELTA), decode, columns)
    sink = sink_of(section, home, source, None if columns is None else {**columns, **TIMES}, storage)
    return replace(sink, upsert=upsert)


def _check_destinations(top: Section, job: Job) -> None:
    """That no two sinks are one: a table knows batches by their job. And that no job reads what it writes."""
    sinks = {"sink": job.sink, "dead_letters": job.dead_letters}
    sinks |= {f"aggregates.{one.name}.sink": one.sink for one in job.aggregates}
    found: dict[tuple[str, str, str], str] = {}
    for name, sink in sinks.items():
        if sink is None:
            continue
        place = sink.location.rstrip("/")
        is_topic = sink.kind is SinkKind.KAFKA
        other = found.setdefault((sink.kind.value if is_topic else "", place, sink.options.get("table", "")), name)
        if other != name and not is_topic:
            top.wrong(name, f"has the location of {other}, {place}: each needs a table of its own")
        if is_topic and job.source.reads(place) and _is_here(sink, job.source):
            top.wrong(name, f"is the topic {place}, which the job reads: it would read its own rows again and again")


def _is_here(sink: Sink, source: JobSource) -> bool:
    """Whether a topic is in the cluster that is read."""
    return sink.options.get("kafka.bootstrap.servers", source.bootstrap) == source.bootstrap


def _transform(top: Section) -> str:
    if "transform" not in top:
        return ""
    written = top.text("transform")
    if not _FUNCTION.fullmatch(written):
        top.wrong("transform", f"is {written!r}, not `module:function`")
    return written


def _every(section: Section) -> Interval | None:
    every = section.interval("every") if "every" in section else None
    section.finish()
    return every


def _aggregates(
    section: Section, home: Path, source: JobSource, columns: Mapping[str, str] | None, storage: ObjectStorage
) -> tuple[Aggregate, ...]:
    found = []
    for name in section.names():
        inner = section.section(name)
        if not _NAME.fullmatch(name):
            section.wrong(name, "is no name: letters, digits, - and _")
        window = inner.interval("window")
        by, measures = inner.texts("by"), inner.options("measures") or {"count": "count(*)"}
        made = None if columns is None else columns_of_windows(by, measures, columns)
        aggregate = Aggregate(
            name=name,
            window=window,
            slide=inner.interval("slide", window.text),
            watermark=inner.interval("watermark", "10 minutes"),
            measures=measures,
            sink=sink_of(inner.section("sink"), home, source, made, storage),
            by=by,
            where=inner.text("where", ""),
        )
        _check_aggregate(inner, aggregate)
        for column in by if columns is not None else ():
            check_column(column, columns or {}, partial(inner.wrong, "by"))
        found.append(aggregate)
    section.finish()
    return tuple(found)


def _check_aggregate(section: Section, aggregate: Aggregate) -> None:
    if aggregate.slide.seconds > aggregate.window.seconds:
        section.wrong("slide", "is longer than the window: events between two windows would not be counted")
    columns = ["window_start", "window_end", *aggregate.by, *aggregate.measures]
    for column in columns:
        if not COLUMN.fullmatch(column):
            section.wrong("", f"makes a column {column!r}, which is no name of a column")
        if columns.count(column) > 1:
            section.wrong("", f"makes two columns called {column}")
    if aggregate.sink.kind is SinkKind.KAFKA:
        section.wrong("sink", "is a topic; aggregates need a table, which shows the windows that exist already")
    section.finish()


def _audit(section: Section, home: Path, columns: Mapping[str, str] | None, time: str) -> Audit:
    audit = Audit(
        counts=location_of(home, section.text("counts")),
        window=section.interval("window", "1 minute"),
        time=section.text("time", time),
    )
    section.finish()
    if audit.window.seconds < 1:
        section.wrong("window", f"is {audit.window.text}: the producers' windows are whole seconds")
    if columns is not None:
        check_same_column(audit.time, columns, partial(section.wrong, "time"))
    return audit


def _spark(section: Section) -> SparkSettings:
    settings = SparkSettings(section.text("master", ""), section.options("config"))
    section.finish()
    return settings
