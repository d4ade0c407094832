"""The options of `spark.read.format("sordini")` and `readStream`: parsed and checked. Pure.

Names and meanings are the JVM source's; docs/spark-source.md has the table. Spark hands options over with their names
in lower case. An option that is misspelt, contradicts another or has no effect on this kind of query is an error: if
it were ignored, the query would read the wrong records.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.batch_planning import Admission
from sordini.pipeline.source.client import ClientSettings
from sordini.pipeline.source.decode import COLUMNS
from sordini.pipeline.source.positions import Offsets, parse_assignment, parse_offsets

EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1


class Edge(Enum):
    """The ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Timestamps(NamedTuple):
    """The first offsets at or after a time."""

    of_all: int | None
    """Milliseconds since 1970, for every partition; None if `of_each` has one for each."""
    of_each: Offsets
    or_latest: bool
    """Where there is no such record: start at the end of the log if true, else raise an error."""


OffsetsOrEdge = Edge | Timestamps | Offsets
"""Where to start or end; in Offsets, -2 stands for the earliest and -1 for the latest."""


class Subscription(NamedTuple):
    """Which partitions are read; exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assignment: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class SourceOptions:
    """All options of a reader."""

    client: ClientSettings
    subscription: Subscription
    starting: OffsetsOrEdge
    ending: OffsetsOrEdge
    columns: tuple[str, ...]
    read_committed: bool
    fail_on_data_loss: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    admission: Admission
    commit_group: str | None


_BOTH: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
)
_BATCH: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commit_group")
_JVM_ONLY: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Tuning of the JVM source: accepted, so that queries can move here, and without effect."""
_ISOLATION: Final = "kafka.isolation.level"
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DURATION_MS: Final = {"ms": 1, None: 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check the options of a reader; raises BadSetting, BadPosition, or what the client's settings raise."""
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options, streaming=streaming)
    fail_on_data_loss = _boolean(options, "failOnDataLoss", default=True)
    isolation = options.get(_ISOLATION, "read_uncommitted")
    if isolation not in {"read_committed", "read_uncommitted"}:
        raise BadSetting(f"{_ISOLATION}: {isolation!r} is neither read_committed nor read_uncommitted")
    return SourceOptions(
        client=ClientSettings.from_options(_of_client(options)),
        subscription=_subscription(options),
        starting=_where(options, "starting", Edge.LATEST if streaming else Edge.EARLIEST, streaming=streaming),
        ending=_where(options, "ending", Edge.LATEST, streaming=streaming),
        columns=read_columns(options),
        read_committed=isolation == "read_committed",
        fail_on_data_loss=fail_on_data_loss,
        partitions_min=_positive(options, "minPartitions"),
        records_per_partition_max=_positive(options, "maxRecordsPerPartition"),
        admission=_admission(options),
        commit_group=options.get("commit_group"),
    )


def check_names(options: Iterable[str], known: Iterable[str], unfit: Mapping[str, str]) -> None:
    """Refuse options that are neither in `known` nor `kafka.*`, and those in `unfit` with the reason there."""
    names = {name.lower(): name for name in known}
    for option in map(str.lower, options):
        if option in names and names[option] in unfit:
            raise BadSetting(f"{names[option]}: {unfit[names[option]]}")
        if option not in names and not option.startswith("kafka."):
            near = difflib.get_close_matches(option, names, n=1)
            hint = f"; did you mean {names[near[0]]}?" if near else ""
            raise BadSetting(f"{option}: there is no such option{hint}")


def _check_names(options: Mapping[str, str], *, streaming: bool) -> None:
    unfit = (
        dict.fromkeys(_BATCH, "a stream has no end; this is an option of batch reads")
        if streaming
        else dict.fromkeys(_STREAM, "this is an option of streams, and this is a batch read")
    )
    check_names(options, (*_BOTH, *_BATCH, *_STREAM, *_JVM_ONLY), unfit)


def _of_client(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.startswith("kafka.") and name != _ISOLATION}


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in options]
    if len(given) != 1:
        raise BadSetting(
            f"one of subscribe, subscribePattern and assign says what is read; given: {', '.join(given) or 'none'}"
        )
    text = options[given[0].lower()].strip()
    if not text:
        raise BadSetting(f"{given[0]} is empty")
    if given == ["subscribe"]:
        return Subscription(topics=tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()})))
    if given == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise BadSetting(f"subscribePattern: {text!r} is no regular expression ({error})") from None
        return Subscription(pattern=text)
    assignment = parse_assignment(text, "assign")
    if not any(assignment.values()):
        raise BadSetting("assign names no partition")
    return Subscription(assignment=tuple((topic, tuple(numbers)) for topic, numbers in sorted(assignment.items())))


def _where(options: Mapping[str, str], end: str, default: Edge, *, streaming: bool) -> OffsetsOrEdge:
    """As in the JVM source, one timestamp for all takes precedence over one for each, and both over offsets."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error")
    if strategy not in {"error", "latest"}:
        raise BadSetting(f"startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
    or_latest = end == "ending" or strategy == "latest"
    of_all = _whole(options, f"{end}Timestamp")
    if of_all is not None:
        return Timestamps(of_all, {}, or_latest)
    by_timestamp = f"{end}OffsetsByTimestamp"
    if by_timestamp.lower() in options:
        of_each = parse_offsets(options[by_timestamp.lower()], by_timestamp)
        if any(timestamp < 0 for each in of_each.values() for timestamp in each.values()):
            raise BadSetting(f"{by_timestamp}: a timestamp is in milliseconds since 1970, and not negative")
        return Timestamps(None, of_each, or_latest)
    return _where_by_offsets(options.get(f"{end}offsets".lower()), end, default, streaming=streaming)


def _where_by_offsets(text: str | None, end: str, default: Edge, *, streaming: bool) -> OffsetsOrEdge:
    option = f"{end}Offsets"
    # A batch that starts at the end, or ends at the start, is always empty.
    senseless = {"starting": None if streaming else Edge.LATEST, "ending": Edge.EARLIEST}[end]
    if text is None:
        return default
    if text.strip().lower() in {"earliest", "latest"}:
        edge = Edge(text.strip().lower())
        if edge is senseless:
            raise BadSetting(f"{option}: {edge.value!r} in a batch read would read nothing")
        return edge
    if not text.strip().startswith("{"):
        raise BadSetting(
            f'{option}: {text!r} is neither earliest, latest, nor offsets such as {{"topic": {{"0": 23}}}}'
        )
    offsets = parse_offsets(text, option)
    refused = {None: None, Edge.LATEST: LATEST_OFFSET, Edge.EARLIEST: EARLIEST_OFFSET}[senseless]
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if offset < EARLIEST_OFFSET or offset == refused:
                raise BadSetting(f"{option}: {offset} is not valid for {topic!r}, partition {partition}")
    return offsets


def read_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a reader, in the order of the JVM source's, whatever the order in the option."""
    options = {name.lower(): value for name, value in given.items()}
    with_headers = _boolean(options, "includeHeaders", default=False)
    if "columns" not in options:
        return tuple(column for column in COLUMNS if column != "headers" or with_headers)
    asked = {column.strip().lower() for column in options["columns"].split(",") if column.strip()}
    by_name = {column.lower(): column for column in COLUMNS}
    if not asked or asked - by_name.keys():
        unknown = ", ".join(sorted(asked - by_name.keys())) or "nothing"
        raise BadSetting(f"columns: {unknown} is not among {', '.join(COLUMNS)}")
    return tuple(column for column in COLUMNS if column.lower() in asked or (column == "headers" and with_headers))


def _admission(options: Mapping[str, str]) -> Admission:
    most, least = _positive(options, "maxOffsetsPerTrigger"), _positive(options, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise BadSetting(f"minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger, {most}")
    text = options.get("maxtriggerdelay", "15m")
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise BadSetting(f"maxTriggerDelay: {text!r} is not a duration; write 500ms, 30s, 15m or 1h")
    return Admission(most, least, int(found[1]) * _DURATION_MS[found[2]])


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in {"true", "false"}:
        raise BadSetting(f"{name}: {text!r} is neither true nor false")
    return text == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    number = _whole(options, name)
    if number == 0:
        raise BadSetting(f"{name}: 0 would read nothing")
    return number


def _whole(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is not None and not text.strip().isdecimal():
        raise BadSetting(f"{name}: {text!r} is no whole number from 0 on")
    return None if text is None else int(text)
