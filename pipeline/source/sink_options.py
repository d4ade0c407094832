"""The options of `frame.write.format("sordini")` and `writeStream`, and which columns they take.

Connection settings are those of the reader (`client.settings`); settings of a producer are parsed here. Pure, but for
the working directory, which a relative staging location is below.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar, get_args

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client import ClientSettings
from sordini.pipeline.source.options import check_names

T = TypeVar("T")
Acks = Literal[0, 1, "all"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
_READ_ONLY: Final = frozenset({"offset", "timestamp", "timestampType"})
"""Columns of records that were read; the broker assigns new values when they are written."""
_ACKS: Final[Mapping[str, Acks]] = {"0": 0, "1": 1, "all": "all", "-1": "all"}

_PRODUCER: Final = frozenset(
    {
        "kafka.acks",
        "kafka.enable.idempotence",
        "kafka.compression.type",
        "kafka.batch.size",
        "kafka.max.request.size",
        "kafka.transactional.id",
        "kafka.transaction.timeout.ms",
        # Tuning of Java's producer; without effect.
        "kafka.linger.ms",
        "kafka.buffer.memory",
        "kafka.max.block.ms",
        "kafka.retries",
        "kafka.delivery.timeout.ms",
        "kafka.max.in.flight.requests.per.connection",
    }
)


class TransactionOptions(NamedTuple):
    """How a sink writes in transactions."""

    transactional_id: str
    timeout_ms: int
    """After so long without an end the brokers abort."""
    staging: str
    """Where tasks leave what the driver writes: a path or URI that all of them reach."""


class SinkOptions(NamedTuple):
    """All options of a writer."""

    client: ClientSettings
    topic: str | None
    """For all rows; without it, each row names its own."""
    acks: Acks
    is_idempotent: bool
    """A batch that is sent again by one task is appended once."""
    compression: Compression
    batch_bytes: int
    request_bytes_max: int
    transaction: TransactionOptions | None = None
    """None: records are visible at once, and written at least once."""


_SPARKS_OWN: Final = ("checkpointLocation",)
"""Options of Spark itself, which it passes on to the sink."""
TRANSACTIONAL_ID: Final = "kafka.transactional.id"
STAGING: Final = "stagingLocation"
_STAGING_FOLDER: Final = "sordini-sink"
"""Below the checkpoint, where no other place is given."""


def read_sink_options(given: Mapping[str, str], columns: Mapping[str, str]) -> SinkOptions:
    """Check the options of a writer, and the columns (name -> Spark's short name of the type) that it writes.

    Raises BadSetting.
    """
    options = {name.lower(): value for name, value in given.items()}
    check_names(options, ("topic", "includeHeaders", STAGING, *_SPARKS_OWN), {})
    for name in ("key.serializer", "value.serializer"):
        if f"kafka.{name}" in options:
            raise BadSetting(f"kafka.{name}: the columns key and value are written as they are; convert them")
    acks = _choice(options, "acks", "all", _ACKS)
    is_idempotent = _choice(options, "enable.idempotence", str(acks == "all"), {"true": True, "false": False})
    if is_idempotent and acks != "all":
        raise BadSetting("kafka.enable.idempotence needs kafka.acks=all")
    compressions: dict[str, Compression] = {name: name for name in get_args(Compression)}
    read = SinkOptions(
        topic=options.get("topic"),
        acks=acks,
        is_idempotent=is_idempotent,
        compression=_choice(options, "compression.type", "none", compressions),
        batch_bytes=_number(options, "batch.size", 512 * 1024),
        request_bytes_max=_number(options, "max.request.size", 1024 * 1024),
        client=ClientSettings.from_options(_of_connections(options)),
        transaction=_transaction(options, is_idempotent=is_idempotent),
    )
    _check_columns(columns, has_topic=read.topic is not None)
    return read


def _transaction(options: Mapping[str, str], *, is_idempotent: bool) -> TransactionOptions | None:
    given = options.get(TRANSACTIONAL_ID)
    if given is None:
        for name in ("kafka.transaction.timeout.ms", STAGING):
            if name.lower() in options:
                raise BadSetting(f"{name}: there is no transaction without kafka.transactional.id")
        return None
    if not given.strip():
        raise BadSetting("kafka.transactional.id is empty")
    if not is_idempotent:
        raise BadSetting("kafka.transactional.id needs kafka.acks=all and kafka.enable.idempotence=true")
    staging = options.get(STAGING.lower(), "")
    if not staging and options.get("checkpointlocation"):
        staging = f"{options['checkpointlocation'].rstrip('/')}/{_STAGING_FOLDER}"
    if not staging:
        raise BadSetting(
            f"kafka.transactional.id needs {STAGING}, a folder that the driver and all executors reach "
            "(for a stream with the option checkpointLocation, it is below that)"
        )
    timeout_ms = _number(options, "transaction.timeout.ms", 60_000, "milliseconds")
    return TransactionOptions(given, timeout_ms, absolute(staging))


def absolute(location: str) -> str:
    """A path from the root, as other processes need it; a URI unchanged."""
    return location if ":" in location.partition("/")[0] else str(Path(location).absolute())


def _of_connections(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.startswith("kafka.") and name not in _PRODUCER}


def _check_columns(columns: Mapping[str, str], *, has_topic: bool) -> None:
    for name, kind in columns.items():
        if name not in _COLUMNS:
            if name in _READ_ONLY:
                continue
            raise BadSetting(f"a record has no column {name!r}; make {', '.join(_COLUMNS)} of what is to be written")
        if kind not in _COLUMNS[name]:
            raise BadSetting(f"the column {name} is {kind}, it has to be {' or '.join(_COLUMNS[name])}")
    if "value" not in columns:
        raise BadSetting("there is no column named value")
    if "topic" not in columns and not has_topic:
        raise BadSetting("there is neither an option nor a column named topic")


def _choice(options: Mapping[str, str], name: str, default: str, choices: Mapping[str, T]) -> T:
    text = options.get(f"kafka.{name}", default).strip().lower()
    if text not in choices:
        raise BadSetting(f"kafka.{name} is {text!r}: this sink supports {', '.join(choices)}")
    return choices[text]


def _number(options: Mapping[str, str], name: str, default: int, unit: str = "bytes") -> int:
    text = options.get(f"kafka.{name}", str(default)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise BadSetting(f"kafka.{name} is {text!r}, which is no number of {unit}")
    return int(text)
