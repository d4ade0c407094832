"""What a job is: a job file, checked and complete. docs/pipeline.md has the file's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.schemas.fields import Schema


class JobFileError(PipelineError):
    """A job file that is wrong; the text begins with the file and the place in it."""


class SourceFormat(Enum):
    """Whose Spark source reads: ours, or Spark's own, which needs JARs."""

    SORDINI = "sordini"
    KAFKA = "kafka"


class DecodeMode(Enum):
    """How columns are made of a record's value."""

    RAW = "raw"
    JSON = "json"
    KEY_VALUE = "key_value"
    SCHEMA_ID_PREFIX = "schema_id_prefix"


class SinkKind(Enum):
    """What keeps the rows."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"
    KAFKA = "kafka"


class Interval(NamedTuple):
    """A length of time as it was written, for Spark, and in seconds."""

    text: str
    seconds: float


@dataclass(frozen=True)
class JobSource:
    """Which topics, from where, and how much at a time."""

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
        """What a client of our own needs of the source's options: those that begin with `kafka.`."""
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
    """For key_value: what stands between two pairs, and `equals` between a name and its value."""
    equals: str = "="

    @property
    def event_time(self) -> str:
        """The column that says when an event happened: the schema's, or else the record's time."""
        return self.schema.event_time if self.schema and self.schema.event_time else "timestamp"


@dataclass(frozen=True)
class Sink:
    """Where rows go. For Kafka `location` is the topic."""

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
    """Whose counts the table's are compared with."""

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
    """All of a job file. `home` is the folder it lies in."""

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
    """None where the job was made otherwise."""
