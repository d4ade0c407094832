"""Work on records that may take long, as values: what a child process is given, does and answers.

    Check    one partition's record set of a Produce request        `check_produced`
    Convert  batches of a log for a Fetch of versions 0 to 3        `down_convert`
    Search   one batch for the first record of a time               `first_from`

A job and its outcome have a wire form, a JSON object and bytes: the two processes trust each other's shape but not
each other's memory, and no object is made of what a child says but the few here. `carry_out` is the same function of
the same job wherever it runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, read_header
from sordini.protocol.records.legacy import down_convert, message_header
from sordini.protocol.records.legacy_validation import OldMessages, PlacedMessages
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules, check_produced
from sordini.protocol.records.timestamp_search import first_from

Wire = tuple[dict[str, Any], bytes | bytearray | memoryview]
"""A JSON object, and the bytes it is about."""
GROUP_BYTES = 4096
"""Old messages are indexed together up to this size, which is the default of `index.interval.bytes`."""


class Check(NamedTuple):
    """Check a record set of a Produce request."""

    records: memoryview
    rules: ProduceRules
    now_ms: int
    produce_version: int
    base_offset: int
    """Where the log ends now: messages of format 0 carry their offsets inside what is compressed."""


class Convert(NamedTuple):
    """Rewrite batches in an old format, from the offset `start` on."""

    batches: bytes
    magic: int
    start: int
    bytes_max: int


class Search(NamedTuple):
    """Find the first record of `batch` that has this time (ms) and offset, or later ones."""

    batch: bytes
    timestamp: int
    offset: int


Job = Check | Convert | Search


class Found(NamedTuple):
    """What a search came to; None where no record is late enough."""

    record: tuple[int, int] | None
    """Timestamp in ms, and offset."""


class Converted(NamedTuple):
    """Messages of an old format."""

    messages: bytes


Outcome = CheckedBatches | PlacedMessages | Converted | Found


def carry_out(job: Job) -> Outcome:
    """Do what a job says; raises BrokerError. OutOfTime passes, save for a search, which says how far it came."""
    if isinstance(job, Check):
        checked = check_produced(job.records, job.rules, job.now_ms, produce_version=job.produce_version)
        return placed(checked, job.base_offset) if isinstance(checked, OldMessages) else checked
    if isinstance(job, Convert):
        return Converted(down_convert(job.batches, job.magic, start=job.start, bytes_max=job.bytes_max))
    header = header_of(job.batch)
    return Found(first_from(job.batch, header, job.timestamp, job.offset))


def placed(messages: OldMessages, base_offset: int) -> PlacedMessages:
    """Give messages their offsets, and put those together that are indexed together."""
    end_offset = messages.place(base_offset)
    groups: list[tuple[int, BatchHeader]] = []
    for position, header in messages.batches:
        if groups and groups[-1][1].size + header.size <= GROUP_BYTES:
            start, group = groups[-1]
            merged = group._replace(
                size=group.size + header.size,
                last_offset_delta=header.last_offset - group.base_offset,
                max_timestamp=max(group.max_timestamp, header.max_timestamp),
            )
            groups[-1] = start, merged
        else:
            groups.append((position, header))
    return PlacedMessages(messages.buffer, groups, base_offset, end_offset)


def header_of(batch: bytes) -> BatchHeader:
    """The header of a batch or message that fills `batch`; raises BrokerError."""
    header = (
        read_header(batch) if len(batch) > 60 and batch[16] == CURRENT_MAGIC else message_header(batch, 0, len(batch))
    )
    if header is None:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "neither a batch nor a message")
    return header


# The wire form of jobs.


def job_as_wire(job: Job) -> Wire:
    if isinstance(job, Check):
        about = {"do": "check", "rules": list(job.rules), "args": [job.now_ms, job.produce_version, job.base_offset]}
        return about, job.records
    if isinstance(job, Convert):
        return {"do": "convert", "args": [job.magic, job.start, job.bytes_max]}, job.batches
    return {"do": "search", "args": [job.timestamp, job.offset]}, job.batch


def job_from_wire(about: dict[str, Any], data: bytearray) -> Job:
    if about["do"] == "check":
        return Check(memoryview(data), ProduceRules(*about["rules"]), *about["args"])
    if about["do"] == "convert":
        return Convert(bytes(data), *about["args"])
    assert about["do"] == "search", about
    return Search(bytes(data), *about["args"])


# The wire form of outcomes.


def outcome_as_wire(outcome: Outcome) -> Wire:
    if isinstance(outcome, CheckedBatches):
        return {"made": "batches", "count": len(outcome.batches)}, outcome.buffer
    if isinstance(outcome, PlacedMessages):
        rows = [
            (
                at,
                group.base_offset,
                group.size,
                group.last_offset_delta,
                group.magic,
                group.attributes,
                group.max_timestamp,
            )
            for at, group in outcome.batches
        ]
        return {"made": "messages", "rows": rows, "range": [outcome.base_offset, outcome.end_offset]}, outcome.buffer
    if isinstance(outcome, Converted):
        return {"made": "converted"}, outcome.messages
    return {"made": "found", "record": outcome.record}, b""


def refusal_as_wire(error: BrokerError) -> Wire:
    records = error.records if isinstance(error, RecordsRefused) else None
    return {"code": int(error.code), "message": str(error), "records": records}, b""


def outcome_from_wire(about: dict[str, Any], data: bytearray) -> Outcome:
    """Raises BrokerError, the refusal that a job ended in; KeyError, TypeError or ValueError for what is no outcome."""
    if "code" in about:
        code, message = ErrorCode(about["code"]), str(about["message"])
        if about["records"] is None:
            raise BrokerError(code, message)
        raise RecordsRefused(code, message, [(int(index), str(why)) for index, why in about["records"]])
    made = about["made"]
    if made == "batches":
        buffer = memoryview(data)
        return CheckedBatches(buffer, [(0, read_header(buffer))] if about["count"] else [])
    if made == "messages":
        groups = [(int(at), _group(*map(int, row))) for at, *row in about["rows"]]
        base_offset, end_offset = map(int, about["range"])
        return PlacedMessages(memoryview(data), groups, base_offset, end_offset)
    if made == "converted":
        return Converted(bytes(data))
    if made != "found":
        raise ValueError(f"{made!r} is no outcome")
    record = about["record"]
    return Found(None if record is None else (int(record[0]), int(record[1])))


def _group(
    base_offset: int, size: int, last_offset_delta: int, magic: int, attributes: int, time_ms: int
) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        size=size,
        partition_leader_epoch=-1,
        magic=magic,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=time_ms,
        max_timestamp=time_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=-1,
    )
