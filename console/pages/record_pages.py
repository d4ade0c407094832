"""Records of a topic: searched, one of them whole, as they arrive, and downloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, cast

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sordini.admin.records.search import (
    OFFSET,
    SHOWS,
    STARTS,
    TIME,
    LedPartition,
    Search,
    SearchRequest,
    SearchResult,
    in_time,
)
from sordini.admin.records.seen_records import RecordFilter, RecordFilters, SeenRecord, path_steps, records_of
from sordini.admin.records.tail import Tail
from sordini.admin.topics.slice_fetches import SliceFetches
from sordini.client.errors import ClientError
from sordini.client.record_requests import READ_UNCOMMITTED
from sordini.console.pages.live import event, stream
from sordini.console.pages.session_stream import SessionDownload, refusal_of
from sordini.console.pages.topic_pages import read_topic
from sordini.console.readers.cluster_state import PartitionRow
from sordini.console.records import decoders
from sordini.console.records.download import json_lines
from sordini.console.records.pack_download import write_pack
from sordini.console.records.registered_schemas import NO_SCHEMA
from sordini.console.records.topic_schemas import TopicSchemas
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit, WrongInput
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import Record
from sordini.protocol.records.returned_records import seen_batches
from sordini.system.clock import utc_ms
from sordini.system.named_tuple import NamedTuple

LIMITS: Final = ("25", "100", "500")
WHERES: Final = ("any", "key", "value", "header", "json")
OFFSET_MAX: Final = 2**63 - 1


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/topic/records", show_records),
        gate.get("/topic/record", show_record),
        gate.get("/topic/record/value", download_value),
        gate.get("/topic/records/download", download_records),
        gate.get("/topic/records/pack", download_pack),
        gate.get("/live/records", live_records),
    ]


class ShownRecord(NamedTuple):
    """A record with its texts."""

    seen: SeenRecord
    key: decoders.Decoded
    value: decoders.Decoded
    headers: list[tuple[str, decoders.Decoded]]


async def show_records(visit: Visit) -> Response:
    """The form, and what it finds."""
    name, state, topic_id = await read_topic(visit)
    rows = sorted(state.partitions, key=lambda row: row.partition)
    problem, result = None, SearchResult()
    request = _request(visit, rows)
    try:
        result = await Search(visit.cluster, request).run()
    except ClientError as error:
        problem = str(error)
    await _load_schemas(visit, result.records)
    return visit.page(
        "topic_records.html",
        name=name,
        topic_id=topic_id,
        tab="records",
        count=len(rows),
        result=result,
        problem=problem,
        records=[shown_record(visit, one) for one in result.records],
        following=_following(request, result),
        **form_values(visit),
    )


def form_values(visit: Visit) -> dict[str, Any]:
    """The fields of the form as they were given, and as a query for other pages about the same records."""
    fields = {
        "partition": visit.field("partition"),
        "start": visit.choice("start", STARTS),
        "at": visit.field("at"),
        "limit": visit.choice("limit", LIMITS),
        "text": visit.field("text"),
        "where": visit.choice("where", WHERES),
        "records_shown": visit.choice("records_shown", SHOWS),
        "key_as": visit.choice("key_as", decoders.NAMES),
        "value_as": visit.choice("value_as", decoders.NAMES),
    }
    name, schemas = visit.field("name"), visit.console.schemas
    has_registry = visit.registered is not None
    offered = {
        what: _offered(has_registry or name in codecs) for what, codecs in zip(("key", "value"), schemas, strict=True)
    }
    return {"form": fields, "decoders": offered["value"], "offered": offered, "limits": LIMITS, "shows": SHOWS}


def _offered(has_schema: bool) -> list[str]:  # noqa: FBT001 - the one thing it depends on.
    return [name for name in decoders.NAMES if has_schema or name != decoders.SCHEMA]


def _request(visit: Visit, rows: Sequence[PartitionRow]) -> SearchRequest:
    """What the form asks for. Raises WrongInput."""
    start = visit.choice("start", STARTS)
    limit = int(visit.choice("limit", LIMITS))
    led = _led(_chosen(visit, rows))
    return SearchRequest(led, start, _at(visit, start), limit, _filters(visit), _shows(visit))


def _chosen(visit: Visit, rows: Sequence[PartitionRow]) -> list[PartitionRow]:
    partition = visit.number("partition", -1, -1, 2**31 - 1)
    chosen = [row for row in rows if partition in (-1, row.partition)]
    if not chosen:
        raise WrongInput(f"there is no partition {partition}: the topic has {len(rows)}, from 0 on")
    return chosen


def _led(rows: Sequence[PartitionRow]) -> list[LedPartition]:
    return [LedPartition(row.name, row.leader) for row in rows]


def _at(visit: Visit, start: str) -> int:
    if start == OFFSET:
        return visit.number("at", 0, 0, OFFSET_MAX)
    if start != TIME:
        return 0
    text = visit.needed("at").strip()
    try:
        return max(int(text) if text.isascii() and text.isdecimal() and len(text) > 8 else utc_ms(text), 0)
    except ValueError as error:
        raise WrongInput(f"{error}, or milliseconds since 1970") from None


def _filters(visit: Visit) -> RecordFilters:
    found = RecordFilter(visit.field("text"), visit.choice("where", WHERES))
    if found.where == "json" and found.text:
        try:
            path_steps(found.text.partition("=")[0].strip())
        except ValueError as error:
            raise WrongInput(str(error)) from None
    return (found,) if found.text else ()


def _shows(visit: Visit) -> str:
    return visit.choice("records_shown", SHOWS)


def _following(request: SearchRequest, result: SearchResult) -> int | None:
    """The offset at which a search of one partition continues."""
    if len(request.rows) != 1 or not result.records:
        return None
    following = max(record.offset for record in result.records) + 1
    ends = result.ranges.get(request.rows[0].name)
    return following if ends is not None and following < ends.latest else None


def shown_record(visit: Visit, seen: SeenRecord, *, bytes_max: int = decoders.PREVIEW_BYTES) -> ShownRecord:
    """A record by the decoders that the visitor chose."""
    key_as, value_as = visit.choice("key_as", decoders.NAMES), visit.choice("value_as", decoders.NAMES)
    # Markers of transactions have bytes of their own.
    schemas = visit.console.schemas if seen.kind in ("record", "aborted") else TopicSchemas()
    topic = visit.field("name")
    key, value = schemas.keys.get(topic), schemas.values.get(topic)
    return ShownRecord(
        seen,
        _decoded(visit, key, seen.key, key_as, seen.key_size, bytes_max),
        _decoded(visit, value, seen.value, value_as, seen.value_size, bytes_max),
        [(name, decoders.decode(value, decoders.AUTO)) for name, value in seen.headers],
    )


def _decoded(
    visit: Visit, codec: decoders.Reader | None, data: bytes | None, name: str, size: int, bytes_max: int
) -> decoders.Decoded:
    """By the topic's schema, else by that of the registry."""
    is_row, found = bytes_max == decoders.PREVIEW_BYTES, NO_SCHEMA
    registered = visit.registered
    if codec is None and registered is not None and name in (decoders.AUTO, decoders.SCHEMA):
        found = registered.of(data)
    shown = decoders.decode_with(codec or found.reader, data, name, size, bytes_max=bytes_max, is_row=is_row)
    return shown._replace(schema=found.schema, problem=shown.problem or found.problem)


async def _load_schemas(visit: Visit, records: Iterable[SeenRecord]) -> None:
    registered = visit.registered
    if registered is not None:
        await registered.load(data for seen in records for data in (seen.key, seen.value))


async def show_record(visit: Visit) -> Response:
    """One record on a page of its own."""
    name, state, topic_id = await read_topic(visit)
    row, (record, seen) = await _one(visit, state.partitions)
    if record is not None:
        seen = seen._replace(key=record.key, value=record.value)
    await _load_schemas(visit, [seen])
    return visit.page(
        "record.html",
        name=name,
        topic_id=topic_id,
        tab="records",
        row=row,
        record=shown_record(visit, seen, bytes_max=decoders.WHOLE_BYTES),
        is_record=record is not None,
        **form_values(visit),
    )


async def download_value(visit: Visit) -> Response:
    """The bytes of one value, as a file: no browser shows it as a page."""
    _, state, _ = await read_topic(visit)
    row, (record, seen) = await _one(visit, state.partitions)
    if record is None or record.value is None:
        raise WrongInput("the record has no value")
    file = f"{row.topic}-{row.partition}-{seen.offset}.bin"
    return Response(
        bytes(record.value),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{file}"'},
    )


async def _one(visit: Visit, rows: Sequence[PartitionRow]) -> tuple[PartitionRow, tuple[Record | None, SeenRecord]]:
    """The record at an offset, whichever transaction it is of. Raises WrongInput where there is none."""
    visit.needed("partition")
    (row,) = _chosen(visit, rows)
    offset = visit.number("offset", 0, 0, OFFSET_MAX)
    fetches = SliceFetches(visit.cluster, row.name, READ_UNCOMMITTED, in_time, row.leader)
    data = await in_time(fetches.fetched(offset))
    content = cast("memoryview", data.records or b"")  # As in SliceFetches: it was received.
    try:
        for batch in seen_batches(content, offset, ()):
            for record, seen in records_of(row.name, batch):
                if seen.offset == offset:
                    return row, (record, seen)
    except BrokerError as error:
        raise WrongInput(f"partition {row.name} at offset {offset}: {error}") from None
    raise WrongInput(f"partition {row.name} has no record at offset {offset}: compaction may have removed it")


async def download_records(visit: Visit) -> Response:
    """What the form finds, as JSON lines, without its limit."""
    refusal = refusal_of(visit.session)
    if refusal is not None:
        return refusal
    name, state, _ = await read_topic(visit)
    rows = sorted(state.partitions, key=lambda row: row.partition)
    lines = json_lines(visit.console.access.opened(visit.session), _request(visit, rows))
    return SessionDownload(
        visit.session,
        lines,
        media_type="application/x-ndjson",
        headers={"content-disposition": f'attachment; filename="{name}.jsonl"'},
    )


async def download_pack(visit: Visit) -> Response:
    """The records from where the form begins, as a pack; what it seeks is no part of that."""
    name, state, _ = await read_topic(visit)
    rows = sorted(state.partitions, key=lambda row: row.partition)
    return StreamingResponse(
        await write_pack(visit.cluster, name, _request(visit, rows)),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}.pack"'},
    )


async def live_records(visit: Visit) -> Response:
    """Records as they arrive."""
    _, state, _ = await read_topic(visit)
    rows, sought, shows = _chosen(visit, state.partitions), _filters(visit), _shows(visit)
    values = form_values(visit)

    async def steps() -> AsyncIterator[str]:
        # A client of its own: a Fetch that waits would hold up the requests of pages.
        async with visit.console.access.opened(visit.session) as cluster:
            try:
                async for step in Tail(cluster, _led(rows), sought, shows).steps():
                    await _load_schemas(visit, step.records)
                    markup = [
                        visit.markup(
                            "parts/record_row.html", record=shown_record(visit, one), name=rows[0].topic, **values
                        )
                        for one in reversed(step.records)
                    ]
                    yield event("records", html="".join(markup), skipped=step.skipped, problem=step.problem or "")
            except ClientError as error:
                yield event("note", text=str(error))

    return stream(visit, steps)
