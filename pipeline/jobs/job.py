"""A job: the contents of a job file, checked and complete. docs/pipeline.md describes the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from sordini.cli.common.settings_tree import Interval
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.fields import Schema


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
    PARQUET = "parquet"
    KAFKA = "kafka"


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
        """The source's options for Sordini's client: those that begin with `kafka.`."""
        ours = {key: value for key, value in self.options.items() if key.startswith("kafka.")}
        return {**ours, "kafka.bootstrap.servers": self.bootstrap}


@dataclass(frozen=True)
class Decode:
    """How a record becomes a row."""

    mode: DecodeMode = DecodeMode.RAW
    schema: Schema | None = None
    """None for raw records."""
    schemas: Mapping[int, str] = field(default_factory=dict)
    """For schema_id_prefix: id -> the Avro schema it was written with, as JSON text."""
    keep: tuple[str, ...] = ()
    between: str = "&"
    """For key_value: the separator of two pairs; `equals` separates a name and its value."""
    equals: str = "="

    @property
    def event_time(self) -> str:
        """The column with the time of an event: the schema's, or else the record's timestamp."""
        return self.schema.event_time if self.schema and self.schema.event_time else "timestamp"


@dataclass(frozen=True)
class Sink:
    """A destination of rows. For Kafka `location` is the topic."""

    kind: SinkKind
    location: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


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
    """All of a job file. `home` is its folder."""

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
    file: Path | None = field(default=None, compare=False)
    """None if the job was not read from a file."""
