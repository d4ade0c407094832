"""From a job file to a Job: every setting is checked, and defaults are filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from sordini.cli.common.settings_tree import Interval, Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import (
    Aggregate,
    Audit,
    Decode,
    DecodeMode,
    Job,
    JobSource,
    Sink,
    SinkKind,
    SourceFormat,
    SparkSettings,
)
from sordini.pipeline.jobs.job_file_tree import JobSection, read_tree
from sordini.pipeline.jobs.row_columns import (
    DEAD_COLUMNS,
    TIMES,
    check_column,
    check_partition,
    columns_of,
    columns_of_windows,
)
from sordini.pipeline.jobs.source_topics import batch_options
from sordini.pipeline.schemas.avro import read_avro
from sordini.pipeline.schemas.fields import Schema, schema_of
from sordini.pipeline.schemas.named import NAMED
from sordini.pipeline.source.client.settings import parse_servers
from sordini.pipeline.source.options import read_options
from sordini.pipeline.source.sink_options import read_sink_options
from sordini.pipeline.tables.table_factory import check_location, check_options

BOOTSTRAP: Final = "127.0.0.1:9092"
STATES: Final = "SORDINI_PIPELINE_STATE"
"""The environment variable with the folder of the states of jobs, where job files cannot be written beside."""
KEPT: Final = ("key", "headers", "timestampType")
"""Columns of a record that a row may keep in addition to topic, partition, offset and timestamp."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_COLUMN: Final = re.compile(r"[A-Za-z_]\w*")
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def read_job(path: Path, environment: Mapping[str, str], bootstrap: str = "") -> Job:
    """Read a job file. `bootstrap` takes precedence over the file's own address.

    Raises JobFileError, which names the file, the line where it is known, and the setting.
    """
    top = JobSection(path, read_tree(path), "", environment)
    home = path.resolve().parent
    name = top.text("name")
    if not _NAME.fullmatch(name):
        top.wrong("name", f"is {name!r}: up to 80 letters, digits, - and _")
    source = _source(top.section("source"), bootstrap or environment.get("SORDINI_BOOTSTRAP", ""))
    decode = _decode(top.section("decode"), home)
    transform = _transform(top)
    # With a transform Spark finds the columns: see spark_checks.py.
    columns = None if transform else columns_of(decode)
    sink = None
    if "sink" in top:
        sink = _sink(top.section("sink"), home, source, None if columns is None else {**columns, **TIMES})
    dead = top.section("dead_letters")
    job = Job(
        name=name,
        home=home,
        source=source,
        decode=decode,
        sink=sink,
        dead_letters=_dead_letters(dead, home, source, sink),
        state=_location(home, top.text("state", f"{environment.get(STATES) or '.sordini'}/{name}")),
        transform=transform,
        every=_every(top.section("stream")),
        aggregates=_aggregates(top.section("aggregates"), home, source, columns),
        audit=_audit(top.section("audit"), home, columns) if "audit" in top else None,
        spark=_spark(top.section("spark")),
        file=path,
    )
    if sink is None and not job.aggregates:
        top.wrong("", "has neither a sink nor aggregates, so rows have no destination")
    top.finish()
    return job


def milliseconds_of(written: str) -> int:
    """A time in ISO 8601 in milliseconds since 1970; without a zone it is in UTC. Raises ValueError."""
    moment = datetime.fromisoformat(written)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _source(section: Section, elsewhere: str) -> JobSource:
    source = JobSource(
        bootstrap=_bootstrap(section, elsewhere),
        topics=section.texts("topics"),
        pattern=section.text("pattern", "") if "pattern" in section else "",
        format=section.choice("format", SourceFormat.SORDINI),
        starting=section.take("starting", _starting, "earliest"),
        records_max=section.whole("records_max", JobSource.records_max),
        commit_group=section.text("commit_group") if "commit_group" in section else "",
        fail_on_data_loss=section.truth("fail_on_data_loss", default=True),
        options=section.options("options"),
    )
    if bool(source.topics) == bool(source.pattern):
        section.wrong("topics", "or pattern: exactly one of the two is required")
    if source.pattern:
        section.take("pattern", _pattern)
    if source.commit_group and source.format is not SourceFormat.SORDINI:
        section.wrong("commit_group", "goes with the format sordini alone: Spark's own source commits nothing")
    for option in source.options:
        if option.lower() in _OURS:
            section.wrong("options", f"has {option}, which is set by {_OURS[option.lower()]}")
        if option.lower() in {"kafka.group.id", "kafka.auto.offset.reset", "kafka.enable.auto.commit"}:
            section.wrong("options", f"has {option}: positions are the job's own, in the table and its state")
    section.finish()
    try:
        parse_servers(source.bootstrap)
    except PipelineError as error:
        if elsewhere:
            raise PipelineError(f"--bootstrap, or SORDINI_BOOTSTRAP, is {elsewhere!r}: {error}") from None
        section.wrong("bootstrap", f"is {source.bootstrap!r}: {error}")
    _checked(section, source.options, lambda: read_options(batch_options(source), streaming=False))
    return source


def _checked(section: Section, options: Mapping[str, str], read: Callable[[], object]) -> None:
    """Call `read`, and raise its errors with the option's name and line."""
    try:
        read()
    except PipelineError as error:
        said = str(error)
        named = next((name for name in options if said.lower().startswith(f"{name.lower()}:")), "")
        if named:
            section.section("options").wrong(named, f"cannot be: {said[len(named) + 1 :].strip()}")
        section.wrong("options", f"cannot be: {said}")


_OURS: Final = {
    "kafka.bootstrap.servers": "source.bootstrap",
    "subscribe": "source.topics",
    "subscribepattern": "source.pattern",
    "assign": "source.topics",
    "startingoffsets": "source.starting",
    "startingtimestamp": "source.starting",
    "endingoffsets": "the command",
    "maxoffsetspertrigger": "source.records_max",
    "failondataloss": "source.fail_on_data_loss",
    "commit_group": "source.commit_group",
    "includeheaders": "decode.keep",
    "columns": "decode.keep",
}


def _bootstrap(section: Section, elsewhere: str) -> str:
    written = section.text("bootstrap", BOOTSTRAP)
    return elsewhere or written


def _starting(written: str) -> str:
    return written if written in {"earliest", "latest"} else str(milliseconds_of(written))


def _pattern(written: str) -> str:
    try:
        re.compile(written)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return written


def _decode(section: Section, home: Path) -> Decode:
    mode = section.choice("mode", DecodeMode.RAW)
    if mode is DecodeMode.RAW and "schema" in section:
        section.wrong("schema", "says nothing where the mode is raw")
    decode = Decode(
        mode=mode,
        schema=None if mode is DecodeMode.RAW else _schema(section, home),
        schemas=_writers(section, home) if mode is DecodeMode.SCHEMA_ID_PREFIX else {},
        keep=section.texts("keep"),
        between=section.text("between", "&"),
        equals=section.text("equals", "="),
    )
    for kept in decode.keep:
        if kept not in KEPT:
            section.wrong("keep", f"has {kept!r}; it can be {', '.join(KEPT)}")
    if decode.schema and {field.name for field in decode.schema.fields} & set(decode.keep):
        section.wrong("keep", "names a column that the schema has, too")
    if mode is not DecodeMode.KEY_VALUE and ("between" in section or "equals" in section):
        section.wrong("", "has between or equals, which go with the mode key_value alone")
    section.finish()
    return decode


def _schema(section: Section, home: Path) -> Schema:
    if section.is_section("schema"):
        inner = section.section("schema")
        fields = inner.options("fields")
        event_time = inner.text("event_time") if "event_time" in inner else ""
        inner.finish()
        try:
            return schema_of(inner.title, fields, event_time)
        except PipelineError as error:
            inner.wrong("fields", f"cannot be a schema: {error}")
    return section.take("schema", lambda written: _named_schema(written, home))  # type: ignore[no-any-return]


def _named_schema(written: str, home: Path) -> Schema:
    if written in NAMED:
        return NAMED[written]
    if not written.endswith((".avsc", ".json")):
        raise ValueError(f"neither one of {', '.join(NAMED)} nor a file of Avro's (.avsc)")
    return read_avro(_text_of(home / written), written)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def _writers(section: Section, home: Path) -> dict[int, str]:
    """Schema ids and their Avro schemas: files, or names of built-in ones."""
    inner = section.section("schemas")
    found: dict[int, str] = {}
    for name in inner.names():
        if not name.isdecimal() or int(name) > 2**31 - 1:
            inner.wrong(name, "is no id of a schema, which are whole numbers")
        found[int(name)] = inner.take(name, lambda written: _avro_text(written, home))
    if not found:
        section.wrong("schemas", "is missing: it says which schema has which id, as `1: page_view` or `1: views.avsc`")
    inner.finish()
    return found


def _avro_text(written: str, home: Path) -> str:
    from sordini.pipeline.schemas.avro import avro_text

    if written in NAMED:
        return avro_text(NAMED[written])
    text = _text_of(home / written)
    read_avro(text, written)  # An invalid schema is reported here.
    return text


def _sink(
    section: Section, home: Path, source: JobSource, columns: Mapping[str, str] | None, default: Sink | None = None
) -> Sink:
    """A sink; `columns` are those of its rows, as far as known; `default` has the settings that the file omits."""
    kind = section.choice("kind", default.kind if default else SinkKind.DELTA)
    location = section.text("location", default.location if default and kind is default.kind else None)
    inherited = default.options if default and kind is default.kind else {}
    sink = Sink(
        kind=kind,
        location=location if kind is SinkKind.KAFKA else _location(home, location),
        partition_by=section.texts("partition_by"),
        options={**inherited, **section.options("options")},
    )
    if kind is SinkKind.KAFKA and sink.partition_by:
        section.wrong("partition_by", "says nothing where the sink is a topic; options.key names the column of the key")
    if kind is SinkKind.KAFKA and "kafka.transactional.id" in sink.options:
        section.wrong("options", "has kafka.transactional.id: tasks cannot share a transaction, it would hang")
    for column in sink.partition_by:
        if not _COLUMN.fullmatch(column):
            section.wrong("partition_by", f"has {column!r}, which is no name of a column")
        if columns is not None:
            check_partition(column, columns, lambda problem: section.wrong("partition_by", problem))
    section.finish()
    try:
        check_location(kind.value, sink.location)
    except PipelineError as error:
        section.wrong("location", f"cannot be: {error}")
    _checked(section, sink.options, lambda: _check_sink_options(sink, source))
    if kind is SinkKind.KAFKA and columns is not None and "key" in sink.options:
        check_column(sink.options["key"], columns, lambda problem: section.wrong("options", f"key {problem}"))
    return sink


def _check_sink_options(sink: Sink, source: JobSource) -> None:
    if sink.kind is not SinkKind.KAFKA:
        check_options(sink.kind.value, sink.options)
        return
    options = {name: value for name, value in sink.options.items() if name != "key"}
    connection = {**source.client_options(), **options, "topic": sink.location}
    read_sink_options(connection, {"key": "string", "value": "string"})


def _dead_letters(section: Section, home: Path, source: JobSource, sink: Sink | None) -> Sink | None:
    """By default like the sink, with its options, beside it."""
    if sink is None and not section.names():
        return None
    default = None
    if sink is not None:
        # The table's name and the key column apply to the sink's own rows only.
        options = {name: value for name, value in sink.options.items() if name not in {"table", "key"}}
        if "table" in sink.options:
            options["table"] = f"{sink.options['table']}_dead"
        default = Sink(sink.kind, f"{sink.location.rstrip('/')}-dead", (), options)
    return _sink(section, home, source, DEAD_COLUMNS, default)


def _location(home: Path, written: str) -> str:
    """A URI unchanged, a path made absolute: Spark's workers have other working directories."""
    return written if _URI.match(written) else str((home / Path(written).expanduser()).resolve())


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
    section: Section, home: Path, source: JobSource, columns: Mapping[str, str] | None
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
            sink=_sink(inner.section("sink"), home, source, made),
            by=by,
            where=inner.text("where") if "where" in inner else "",
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
        if not _COLUMN.fullmatch(column):
            section.wrong("", f"makes a column {column!r}, which is no name of a column")
        if columns.count(column) > 1:
            section.wrong("", f"makes two columns called {column}")
    if aggregate.sink.kind is SinkKind.KAFKA:
        section.wrong("sink", "is a topic; aggregates need a table, which shows the windows that exist already")
    section.finish()


def _audit(section: Section, home: Path, columns: Mapping[str, str] | None) -> Audit:
    audit = Audit(
        counts=_location(home, section.text("counts")),
        window=section.interval("window", "1 minute"),
        time=section.text("time", "timestamp"),
    )
    section.finish()
    if columns is not None:
        check_column(audit.time, columns, partial(section.wrong, "time"))
    return audit


def _spark(section: Section) -> SparkSettings:
    settings = SparkSettings(section.text("master", "") if "master" in section else "", section.options("config"))
    section.finish()
    return settings
