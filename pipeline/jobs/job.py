"""A job: the contents of a job file, checked and complete. docs/pipeline.md describes the file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordini.cli.common.settings_tree import Interval
from sordini.pipeline.changes.envelope import Envelope
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.upkeep import UpkeepSettings
from sordini.pipeline.schemas.fields import Field, RecordColumns, Schema
from sordini.pipeline.schemas.registry_settings import RegistrySettings
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[[DataFrame], DataFrame]


_READING = frozenset({"kafka.isolation.level"})
"""Options of the source that say what is read, and not how a cluster is reached."""


class JobFileError(PipelineError):
    """An invalid job file; the text begins with the file and the line."""


class SourceFormat(Enum):
    """The Spark source: Sordini's, or Spark's own, which needs JARs."""

    SORDINI = "sordini"
    KAFKA = "kafka"


class DecodeMode(Enum):
    """How a record's value is decoded to columns."""

    RAW = "raw"
    JSON = "json"
    KEY_VALUE = "key_value"
    SCHEMA_ID_PREFIX = "schema_id_prefix"


class SinkKind(Enum):
    """The kind of table, or a topic."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    KAFKA = "kafka"


class SinkMode(Enum):
    """Whether rows are added, or replace those of their keys."""

    APPEND = "append"
    UPSERT = "upsert"


@dataclass(frozen=True)
class JobSource:
    """The topics, the first position, and the size of batches."""

    bootstrap: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """Instead of topics: a regular expression for their names."""
    format: SourceFormat = SourceFormat.SORDINI
    starting: str = "earliest"
    """earliest, latest, or milliseconds since 1970 as text."""
    records_max: int = 1_000_000
    commit_group: str = ""
    fail_on_data_loss: bool = True
    options: Mapping[str, str] = field(default_factory=dict)

    def reads(self, topic: str) -> bool:
        """Whether a topic is one of the source's."""
        return bool(re.fullmatch(self.pattern, topic)) if self.pattern else topic in self.topics

    def client_options(self) -> dict[str, str]:
        """The source's options of connections, for the client of a sink: those that begin with `kafka.`."""
        ours = {key: value for key, value in self.options.items() if key.lower().startswith("kafka.")}
        ours = {key: value for key, value in ours.items() if key.lower() not in _READING}
        return {**ours, "kafka.bootstrap.servers": self.bootstrap}


@dataclass(frozen=True)
class Decode:
    """How a record becomes a row."""

    mode: DecodeMode = DecodeMode.RAW
    schema: Schema | None = None
    """None for raw records, and where the registry has the columns."""
    schemas: Mapping[int, str] = field(default_factory=dict)
    """For schema_id_prefix: id -> the Avro schema it was written with, as JSON text."""
    keep: tuple[str, ...] = ()
    between: str = "&"
    """For key_value: the separator of two pairs; `equals` separates a name and its value."""
    equals: str = "="
    changes: Envelope = Envelope.NONE
    """For json and schema_id_prefix: the envelope in which values are changes of rows."""
    columns: Mapping[str, tuple[str, Field]] = field(default_factory=dict)
    """Columns taken from the envelope: name -> the path in it, and the field."""
    registry: RegistrySettings | None = None
    """For schema_id_prefix, instead of `schemas`."""
    record_prefix: str = ""
    """Before the names of the record's columns, for schemas with fields of those names."""

    @property
    def event_time(self) -> str:
        """The column with the time of an event: the schema's, or else the record's timestamp."""
        return self.schema.event_time if self.schema and self.schema.event_time else self.record.timestamp

    @property
    def record(self) -> RecordColumns:
        """The columns with the record's position and time."""
        return RecordColumns.prefixed(self.record_prefix)


@dataclass(frozen=True)
class UpsertSettings:
    """How rows replace others; `delete_when` is a condition in Spark's SQL, or empty."""

    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    delete_when: str
    deletions_kept: Interval


@dataclass(frozen=True)
class Sink:
    """A destination of rows. For Kafka `location` is the topic."""

    kind: SinkKind
    location: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    storage: ObjectStorage = field(default=NOWHERE, repr=False)
    """The job's."""
    upsert: UpsertSettings | None = None
    """None if rows are appended."""
    files_per_batch: int = 0
    """At most, for each value of the partition columns; 0: by the number of rows, see batch_files.py."""
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)


@dataclass(frozen=True)
class Aggregate:
    """Measures by windows of time; the texts are Spark's SQL."""

    name: str
    window: Interval
    slide: Interval
    watermark: Interval
    measures: Mapping[str, str]
    sink: Sink
    by: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True)
class Audit:
    """The producers' counts, with which the table's are compared."""

    counts: str
    window: Interval
    time: str = "timestamp"


@dataclass(frozen=True)
class SparkSettings:
    """The session: `master` empty means the command's, or local[*]."""

    master: str = ""
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """All of a job file. `home` is its folder.

    `from_file` reads one, `of` takes the same settings from a program.
    """

    name: str
    home: Path
    source: JobSource
    decode: Decode
    sink: Sink | None
    dead_letters: Sink | None
    state: str
    transform: str = ""
    every: Interval | None = None
    aggregates: tuple[Aggregate, ...] = ()
    audit: Audit | None = None
    spark: SparkSettings = field(default_factory=SparkSettings)
    storage: ObjectStorage = NOWHERE
    file: Path | None = field(default=None, compare=False)
    """None if the job was not read from a file."""
    function: Transform | None = field(default=None, compare=False)
    """The transform of a job that a program made with a function; `transform` is its name then."""

    @classmethod
    def from_file(cls, path: str | Path, *, bootstrap: str = "") -> Job:
        """Read and check a job file (YAML or TOML). `bootstrap` takes precedence over the file's address.

        `${NAME}` is the environment's variable. Raises JobFileError.
        """
        from sordini.pipeline.jobs.job_file import read_job

        return read_job(Path(path), os.environ, bootstrap)

    @classmethod
    def of(cls, *, home: str | Path = ".", bootstrap: str = "", **settings: Any) -> Job:
        """Check the settings of a job file, given as keywords: `Job.of(name="views", source={...}, sink={...})`.

        Relative paths are below `home`. `transform` may be a function, DataFrame in, DataFrame out. Settings from the
        environment (`${NAME}`, SORDINI_BOOTSTRAP, ...) apply as they do to a file. Raises JobFileError.
        """
        from sordini.pipeline.jobs.job_file import job_of_settings

        return job_of_settings(settings, Path(home), os.environ, bootstrap)
