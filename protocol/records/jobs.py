"""Record jobs: work on records that may take long, run in a child process; jobs and outcomes are values.

    CheckJob      one partition's record set of a Produce request        `check_produced`
    ConvertJob    batches of a log for a Fetch of versions 0 to 3        `down_convert`
    SearchJob     one batch for the first record of a timestamp          `first_at_or_after`
    FramesJob     one partition's record set for schema ids              `frames_in`
    CopyJob       batches of a log for single records                    `copied_records`
    DecodeJob     one partition's record set by its schemas              `broker/records/schemas/decoding.py`

A job and its outcome have a wire form, a JSON object and bytes: the broker does not trust the memory of a child that
has opened hostile records, and builds only the objects of this module from its answer. `run_job` gives the same
outcome in every process. A DecodeJob has children of its own, since it needs libraries that the others do without.
"""

from __future__ import annotations

from typing import Any

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, read_header
from sordini.protocol.records.copied_records import CopiedRecords, copied_records
from sordini.protocol.records.legacy import message_header
from sordini.protocol.records.legacy_validation import LegacyMessages, OffsetMessages
from sordini.protocol.records.message_down_conversion import down_convert
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.records.schema_frames import Frames, Listed, frames_in
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.system.named_tuple import NamedTuple

Wire = tuple[dict[str, Any], bytes | bytearray | memoryview]
"""A JSON object, and the bytes it describes."""
GROUP_BYTES = 4096
"""Old messages share an index entry up to this size, the default of `index.interval.bytes`."""


class CheckJob(NamedTuple):
    """Check a record set of a Produce request."""

    records: memoryview
    rules: ProduceRules
    now_ms: int
    produce_version: int
    base_offset: int
    """The log end offset: messages of format 0 have their offsets inside the compressed data."""


class ConvertJob(NamedTuple):
    """Rewrite batches in an old format, from the offset `start` on."""

    batches: bytes
    magic: int
    start: int
    bytes_max: int


class SearchJob(NamedTuple):
    """Find the first record of `batch` that has this time (ms) and offset, or later ones."""

    batch: bytes
    timestamp: int
    offset: int


class FramesJob(NamedTuple):
    """Find the schema ids in a record set of a Produce request."""

    records: memoryview
    expanded_bytes_max: int


class CopyJob(NamedTuple):
    """Copy the keys and values of the records at these offsets, which are sorted."""

    batches: bytes
    offsets: list[int]
    bytes_max: int


class DecodeJob(NamedTuple):
    """Decode the values in a record set of a Produce request, each by the schema of its id."""

    records: memoryview
    expanded_bytes_max: int
    schemas: list[dict[str, Any]]
    """Those of the ids, and before each those that it refers to:
    {"type": "AVRO", "text": "...", "references": [[name, subject, version, place in this list]]}."""
    places: dict[int, int]
    """Of an id in that list."""


RecordJob = CheckJob | ConvertJob | SearchJob | FramesJob | CopyJob
Job = RecordJob | DecodeJob


class Found(NamedTuple):
    """The result of a search; None where no record is late enough."""

    record: tuple[int, int] | None
    """Timestamp in ms, and offset."""


class Converted(NamedTuple):
    """Messages of an old format."""

    messages: bytes


class Decoded(NamedTuple):
    """What came of the values of a record set."""

    misfits: list[tuple[int, str]]
    """The index of a record, and why its schema does not decode its value; at most LISTED_MAX of them."""
    total: int


Outcome = CheckedBatches | OffsetMessages | Converted | Found | Frames | CopiedRecords | Decoded


def run_job(job: RecordJob) -> Outcome:
    """Run a job; raises BrokerError, and CpuTimeExceeded but for a search, which returns how far it came."""
    if isinstance(job, CheckJob):
        checked = check_produced(job.records, job.rules, job.now_ms, produce_version=job.produce_version)
        return with_offsets(checked, job.base_offset) if isinstance(checked, LegacyMessages) else checked
    if isinstance(job, ConvertJob):
        return Converted(down_convert(job.batches, job.magic, start=job.start, bytes_max=job.bytes_max))
    if isinstance(job, FramesJob):
        return frames_in(job.records, job.expanded_bytes_max)
    if isinstance(job, CopyJob):
        return copied_records(job.batches, job.offsets, job.bytes_max)
    header = header_of(job.batch)
    return Found(first_at_or_after(job.batch, header, job.timestamp, job.offset))


def with_offsets(messages: LegacyMessages, base_offset: int) -> OffsetMessages:
    """Give messages their offsets, and merge the headers of those that share an index entry."""
    end_offset = messages.assign_offsets(base_offset)
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
    return OffsetMessages(messages.buffer, groups, base_offset, end_offset)


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
    if isinstance(job, CheckJob):
        about = {"do": "check", "rules": list(job.rules), "args": [job.now_ms, job.produce_version, job.base_offset]}
        return about, job.records
    if isinstance(job, ConvertJob):
        return {"do": "convert", "args": [job.magic, job.start, job.bytes_max]}, job.batches
    if isinstance(job, FramesJob):
        return {"do": "frames", "args": [job.expanded_bytes_max]}, job.records
    if isinstance(job, CopyJob):
        return {"do": "copy", "args": [job.offsets, job.bytes_max]}, job.batches
    if isinstance(job, DecodeJob):
        about = {"do": "decode", "args": [job.expanded_bytes_max]}
        return about | {"schemas": job.schemas, "places": list(job.places.items())}, job.records
    return {"do": "search", "args": [job.timestamp, job.offset]}, job.batch


def job_from_wire(about: dict[str, Any], data: bytearray) -> Job:
    if about["do"] == "check":
        return CheckJob(memoryview(data), ProduceRules(*about["rules"]), *about["args"])
    if about["do"] == "convert":
        return ConvertJob(bytes(data), *about["args"])
    if about["do"] == "frames":
        return FramesJob(memoryview(data), *about["args"])
    if about["do"] == "copy":
        return CopyJob(bytes(data), *about["args"])
    if about["do"] == "decode":
        return DecodeJob(memoryview(data), about["args"][0], about["schemas"], dict(about["places"]))
    assert about["do"] == "search", about
    return SearchJob(bytes(data), *about["args"])


# The wire form of outcomes.


def outcome_as_wire(outcome: Outcome) -> Wire:
    if isinstance(outcome, CheckedBatches):
        return {"made": "batches", "count": len(outcome.batches)}, outcome.buffer
    if isinstance(outcome, OffsetMessages):
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
    if isinstance(outcome, Frames):
        return {"made": "frames", "ids": list(outcome.ids.items()), "unframed": outcome.unframed}, b""
    if isinstance(outcome, CopiedRecords):
        return _copies_as_wire(outcome)
    if isinstance(outcome, Decoded):
        return {"made": "decoded", "misfits": outcome.misfits, "total": outcome.total}, b""
    return {"made": "found", "record": outcome.record}, b""


def error_as_wire(error: BrokerError) -> Wire:
    records = error.records if isinstance(error, RecordsRefused) else None
    return {"code": int(error.code), "message": str(error), "records": records}, b""


def outcome_from_wire(about: dict[str, Any], data: bytearray) -> Outcome:
    """Raises BrokerError, the error of a job; KeyError, TypeError or ValueError for a malformed outcome."""
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
        return OffsetMessages(memoryview(data), groups, base_offset, end_offset)
    if made == "converted":
        return Converted(bytes(data))
    if made == "frames":
        return Frames({int(key): _listed(row) for key, row in about["ids"]}, _listed(about["unframed"]))
    if made == "decoded":
        return Decoded([(int(index), str(why)) for index, why in about["misfits"]], int(about["total"]))
    if made == "copies":
        return _copies_from_wire(about, memoryview(data))
    if made != "found":
        raise ValueError(f"{made!r} is no outcome")
    record = about["record"]
    return Found(None if record is None else (int(record[0]), int(record[1])))


def _copies_as_wire(outcome: CopiedRecords) -> Wire:
    """Lengths by offset, -1 for null, and the bytes one behind the other."""
    rows = [(offset, *map(_length, texts)) for offset, texts in outcome.records.items()]
    return {"made": "copies", "rows": rows, "end": outcome.end}, b"".join(
        text for texts in outcome.records.values() for text in texts if text is not None
    )


def _length(text: bytes | None) -> int:
    return -1 if text is None else len(text)


def _copies_from_wire(about: dict[str, Any], data: memoryview) -> CopiedRecords:
    records: dict[int, tuple[bytes | None, bytes | None]] = {}
    position = 0
    for offset, key_length, value_length in about["rows"]:
        value_at = position + max(int(key_length), 0)
        end = value_at + max(int(value_length), 0)
        key = bytes(data[position:value_at]) if key_length >= 0 else None
        records[int(offset)] = key, bytes(data[value_at:end]) if value_length >= 0 else None
        position = end
    if position != len(data):
        raise ValueError(f"{len(data)} bytes, of which {position} are described")
    return CopiedRecords(records, int(about["end"]))


def _listed(row: Any) -> Listed:
    first, total = row
    return Listed([int(index) for index in first], int(total))


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
