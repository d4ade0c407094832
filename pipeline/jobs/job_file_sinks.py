"""The sinks of a job file: of rows, of dead letters, of aggregates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.jobs.job import JobSource, Sink, SinkKind
from sordini.pipeline.jobs.job_file_tree import check_by
from sordini.pipeline.jobs.job_file_upkeep import upkeep_of
from sordini.pipeline.jobs.row_columns import DEAD_COLUMNS, check_column, check_kinds, check_partition
from sordini.pipeline.jobs.upkeep import UpkeepSettings
from sordini.pipeline.source.sink_options import STAGING, TRANSACTIONAL_ID, read_sink_options
from sordini.pipeline.tables.object_storage import ObjectStorage
from sordini.pipeline.tables.table_factory import check_options

COLUMN: Final = re.compile(r"[A-Za-z_]\w*")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def sink_of(
    section: Section,
    home: Path,
    source: JobSource,
    columns: Mapping[str, str] | None,
    storage: ObjectStorage,
    default: Sink | None = None,
) -> Sink:
    """A sink; `columns` are those of its rows, as far as known; `default` has the settings that the file omits."""
    kind = section.choice("kind", default.kind if default else SinkKind.DELTA)
    location = section.text("location", default.location if default and kind is default.kind else None)
    inherited = default.options if default and kind is default.kind else {}
    options = {**inherited, **section.options("options")}
    sink = Sink(
        kind=kind,
        location=location if kind is SinkKind.KAFKA else location_of(home, location),
        partition_by=section.texts("partition_by"),
        options=options,
        storage=storage,
        files_per_batch=section.whole("files_per_batch", default.files_per_batch if default else 0, least=0),
        upkeep=upkeep_of(section, kind, options, columns, default.upkeep if default else UpkeepSettings()),
    )
    if kind is SinkKind.KAFKA and sink.partition_by:
        section.wrong("partition_by", "says nothing where the sink is a topic; options.key names the column of the key")
    for column in sink.partition_by:
        if not COLUMN.fullmatch(column):
            section.wrong("partition_by", f"has {column!r}, which is no name of a column")
        if columns is not None:
            check_partition(column, columns, lambda problem: section.wrong("partition_by", problem))
    if columns is not None:
        check_kinds(kind.value, columns, lambda problem: section.wrong("kind", problem))
    section.finish()
    check_by(section, sink.options, lambda: _check_sink_options(sink, source))
    if kind is SinkKind.KAFKA and columns is not None and "key" in sink.options:
        check_column(sink.options["key"], columns, lambda problem: section.wrong("options", f"key {problem}"))
    return sink


def _check_sink_options(sink: Sink, source: JobSource) -> None:
    if sink.kind is not SinkKind.KAFKA:
        check_options(sink.kind.value, sink.options)
        return
    options = {name: value for name, value in sink.options.items() if name != "key"}
    connection = {STAGING: "state", **source.client_options(), **options, "topic": sink.location}
    if TRANSACTIONAL_ID not in options and STAGING not in options:
        del connection[STAGING]  # It is below the job's state.
    read_sink_options(connection, {"key": "string", "value": "string"})


def dead_letters_of(
    section: Section, home: Path, source: JobSource, sink: Sink | None, storage: ObjectStorage
) -> Sink | None:
    """By default like the sink, with its options, beside it."""
    if sink is None and not section.names():
        return None
    default = None
    if sink is not None:
        # The table's name and the key column apply to the sink's own rows only.
        options = {name: value for name, value in sink.options.items() if name not in {"table", "key"}}
        if "table" in sink.options:
            options["table"] = f"{sink.options['table']}_dead"
        if TRANSACTIONAL_ID in sink.options:
            options[TRANSACTIONAL_ID] = f"{sink.options[TRANSACTIONAL_ID]}-dead"
        upkeep = replace(sink.upkeep, cluster_by=())
        location = f"{sink.location.rstrip('/')}-dead"
        default = Sink(sink.kind, location, (), options, files_per_batch=sink.files_per_batch, upkeep=upkeep)
    dead_letters = sink_of(section, home, source, DEAD_COLUMNS, storage, default)
    given = None if sink is None else sink.options.get(TRANSACTIONAL_ID)
    if given is not None and dead_letters.options.get(TRANSACTIONAL_ID) == given:
        section.wrong("options", f"has {TRANSACTIONAL_ID}={given}, as the sink has: they would fence each other")
    return dead_letters


def location_of(home: Path, written: str) -> str:
    """A URI unchanged, a path made absolute: Spark's workers have other working directories."""
    return written if _URI.match(written) else str((home / Path(written).expanduser()).resolve())
