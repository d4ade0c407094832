"""What `sordini tail` reads and prints. Our own requests read: aiokafka returns neither markers nor aborted records."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.records.search import END, TIME, Bounds, LedPartition, Search, SearchRequest, SearchResult
from sordini.admin.records.seen_records import ABORTED, RECORD, RecordFilters, SeenRecord
from sordini.admin.records.tail import ALL, Tail
from sordini.admin.selections import PartitionSelection
from sordini.admin.topics.topic_descriptions import partitions_of
from sordini.cli.commands.records.line_formats import record_document
from sordini.cli.commands.records.schema_options import RecordCodecs
from sordini.cli.common.options import Client
from sordini.cli.common.output import bytes_as_text, bytes_in_json, json_line, print_json_line, size_text
from sordini.cli.common.terminal import check_reader, echo, echo_spans
from sordini.cli.common.waiting_line import waiting_line
from sordini.client import routing
from sordini.protocol.records.batch import NO_TIMESTAMP
from sordini.protocol.types import TopicPartition
from sordini.schemas.codecs import Codec, Unregistered, ValueRefused
from sordini.system.clock import utc_text
from sordini.system.named_tuple import NamedTuple

RECORDS_MAX: Final = 100_000
"""Records that are kept to be sorted, where no number was asked for."""
SIZE_MAX: Final = 1 << 40


class TailOptions(NamedTuple):
    """What is read, and printed."""

    wanted: tuple[PartitionSelection, ...]
    follows: bool
    newest: int | None
    """The newest so many; None: all since `since_ms`."""
    since_ms: int | None
    filters: RecordFilters
    shows: str


def show_tail(client: Client, options: TailOptions, codecs: RecordCodecs) -> None:
    """Print what was found, and with `follows` what arrives, until Ctrl-C. Raises Failure."""
    asyncio.run(client.without_timeout(lambda cluster: _show(client, cluster, options, codecs)))


async def _show(client: Client, cluster: ClusterClient, options: TailOptions, codecs: RecordCodecs) -> None:
    if sys.stdout is None:
        raise Failure("there is no standard output to print records on")
    async with waiting_line("searching the newest records"):
        led = await client.within_timeout(cluster, _led(cluster, options))
        found = await _newest(client, cluster, options, led)
    printer = _Printer(codecs, as_json=client.as_json)
    for record in found.records:
        printer.show(record)
    if found.stopped:
        echo(f"sordini: not all was searched: {found.stopped}", err=True)
    if options.follows:
        await _follow(cluster, options, led, found, printer)
    if printer.unreadable:
        noun = "record does" if printer.unreadable == 1 else "records do"
        raise Failure(f"{printer.unreadable:,} {noun} not fit the schema")


async def _led(cluster: ClusterClient, options: TailOptions) -> list[LedPartition]:
    names = await partitions_of(cluster, options.wanted)
    topics = await cluster.retry(lambda: cluster.topics({name.topic for name in names}))
    leaders = {
        TopicPartition(topic.name or "", partition): leader.broker_id if leader.broker_id >= 0 else None
        for topic in topics
        for partition, leader in routing.partition_leaders(topic).items()
    }
    missing = [name for name in names if name not in leaders]
    if missing:
        raise Failure(f"there is no partition {missing[0]}")
    return [LedPartition(name, leaders[name]) for name in names]


async def _newest(
    client: Client, cluster: ClusterClient, options: TailOptions, led: list[LedPartition]
) -> SearchResult:
    """What the options ask for, oldest first."""
    limit = RECORDS_MAX if options.newest is None else options.newest
    from_time = options.since_ms is not None and options.newest is None
    start, at = (TIME, options.since_ms or 0) if from_time else (END, 0)
    request = SearchRequest(led, start, at, limit, options.filters, options.shows)
    found = await Search(cluster, request, Bounds(sys.maxsize, SIZE_MAX, client.timeout_s)).run()
    if from_time and len(found.records) == limit:
        found.stopped = f"{limit:,} records were found"
    # The time of a record may be before that of its offset's: producers have clocks of their own.
    found.records = [one for one in found.records if one.timestamp_ms >= (options.since_ms or NO_TIMESTAMP)]
    found.records.sort(key=lambda record: (record.timestamp_ms, record.name, record.offset))
    return found


async def _follow(
    cluster: ClusterClient, options: TailOptions, led: list[LedPartition], found: SearchResult, printer: _Printer
) -> None:
    starts = {name: one.latest for name, one in found.ranges.items()}
    problem = None
    async for step in Tail(cluster, led, options.filters, options.shows, ALL).steps(starts):
        for record in step.records:
            printer.show(record)
        if step.problem is not None and problem is None:
            echo(f"sordini: {step.problem}; still waiting", err=True)
        problem = step.problem
        sys.stdout.flush()
        check_reader()


class _Printer:
    """Prints records, each as one line."""

    def __init__(self, codecs: RecordCodecs, *, as_json: bool) -> None:
        self._codecs = codecs
        self._as_json = as_json
        self.unreadable = 0

    def show(self, record: SeenRecord) -> None:
        key = self._decoded(record, self._codecs.key, record.key, record.key_size)
        value = self._decoded(record, self._codecs.value, record.value, record.value_size)
        if self._as_json:
            print_json_line(_document(record, key, value))
        else:
            echo_spans(self._spans(record, key, value))

    def _decoded(self, record: SeenRecord, codec: Codec | None, data: bytes | None, size: int) -> Any:
        """A key or value as JSON; what does not fit its schema is named, and stays what it is."""
        if codec is None or data is None:
            return bytes_in_json(data)
        value, problem = None, None
        try:
            value = codec.decode(data)
        except Unregistered:
            return bytes_in_json(data)
        except ValueRefused as refused:
            problem = str(refused)
        if len(data) < size:
            problem = f"{size_text(size)} are not decoded here, `sordini consume` does it"
        if problem is None:
            return value
        self.unreadable += 1
        echo(f"sordini: {record.name} offset {record.offset}: {problem}", err=True)
        return bytes_in_json(data)

    def _spans(self, record: SeenRecord, key: Any, value: Any) -> list[tuple[str, str]]:
        spans = [(utc_text(record.timestamp_ms) if record.timestamp_ms >= 0 else "no time", "faint")]
        spans += [("  ", ""), (f"{record.name.topic}:{record.name.partition}@{record.offset}", "ok"), ("  ", "")]
        if record.kind != RECORD:
            spans += [(record.kind, "note")]
        if record.kind == ABORTED:
            spans.append(("  ", ""))
        if record.kind in (RECORD, ABORTED):
            spans += [("-" if record.key is None else _text(record.key, key, record.key_size), "name"), ("  ", "")]
            spans.append((_text(record.value, value, record.value_size), ""))
            if record.headers:
                pairs = " ".join(f"{name}={bytes_as_text(data)}" for name, data in record.headers)
                spans.append((f"  {pairs}", "faint"))
        return spans


def _text(data: bytes | None, decoded: Any, size: int) -> str:
    """A key or value on a line of text: as it is, and where it is not text, as JSON has it."""
    if data is None:
        return "null"
    text = decoded if isinstance(decoded, str) else json_line(decoded).decode().rstrip("\n")
    return f"{text}... ({size_text(size)})" if len(data) < size else text


def _document(record: SeenRecord, key: Any, value: Any) -> dict[str, Any]:
    """As `consume --format json` has it; what is no record says what it is."""
    place = (*record.name, record.offset, record.timestamp_ms)
    document = record_document(place, key, value, record.headers, is_log_append_time=record.is_log_append_time)
    if record.kind != RECORD:
        document["kind"] = record.kind
    if len(record.value or b"") < record.value_size:
        document["value_bytes"] = record.value_size
    return document
