"""A segment in the text of Apache Kafka 3.9.1's kafka-dump-log: a line for each batch and, optionally, each record.

    baseOffset: 0 lastOffset: 1 count: 2 ... position: 0 CreateTime: 5 size: 90 magic: 2 compresscodec: none crc: ...
    | offset: 0 CreateTime: 4 keySize: 1 valueSize: 2 sequence: -1 headerKeys: [h] key: k payload: vv

Its mistakes are kept: the brace after the CRC of an old message, the empty line for a record with nothing to show.
Damage that ends the tool with a stack trace, or that it ignores, is a `DamageAt` here, and reading continues if
possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sordini.cli.commands.log.dump.kafka_text import (
    DamageAt,
    DumpOutput,
    Findings,
    Line,
    Pairs,
    java_text,
    optional_long,
)
from sordini.cli.commands.log.files.old_messages import OldMessage, messages_in, read_old
from sordini.cli.commands.log.files.segment_walk import LogEntry, SegmentWalk, is_zeros
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    BatchHeader,
    Record,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import CODEC_NAMES, NO_CODEC
from sordini.protocol.records.control import ABORT, COMMIT, read_marker
from sordini.storage.disk import File
from sordini.storage.producer_state import sequence_after
from sordini.system.named_tuple import NamedTuple

DELETE_HORIZON_BIT: Final = 0x40
BYTES_MAX: Final = 2**31 - 1
_MARKERS: Final = {ABORT: "ABORT", COMMIT: "COMMIT"}
_LOWER: Final = {False: "false", True: "true"}

RecordText = tuple[str | None, str | None]
"""A record's key and payload as text; None if it is not shown."""
Parser = Callable[[int, bytes | None, bytes | None], RecordText]
"""Makes the text of a record's key and value. Raises BrokerError for bytes it cannot decode."""


class LogOptions(NamedTuple):
    """What is shown of a segment."""

    records: bool = False
    """Each record (`--deep-iteration`)."""
    contents: bool = False
    """Also keys and values (`--print-data-log`)."""
    metadata: bool = True
    """Offsets, times and sizes of records."""
    bytes_max: int = BYTES_MAX
    parser: Parser | None = None


def as_strings(_offset: int, key: bytes | None, value: bytes | None) -> RecordText:
    """The parser that shows keys and values as text."""
    return None if key is None else java_text(key), None if value is None else java_text(value)


class LogPrinter:
    """The text of one segment. Irregularities of its offsets are added to the findings."""

    def __init__(self, file: File, path: str, options: LogOptions, findings: Findings) -> None:
        self._file = file
        self._path = path
        self._options = options
        self._parser = options.parser or as_strings
        self._findings = findings
        self._last_offset = -1

    def lines(self) -> Iterator[DumpOutput]:
        """The lines, with damage in between."""
        bytes_max = self._options.bytes_max
        walk = SegmentWalk(self._file, 0, bytes_max)
        next_offset = -1
        for entry in walk:
            header = read_header(entry.data) if entry.is_batch else None
            last_offset = read_old(entry.data).offset if header is None else header.last_offset
            yield from self._batch(entry, header)
            first_offset = last_offset if header is None else header.base_offset
            if first_offset < next_offset:
                yield DamageAt(entry.position, f"offset {first_offset} comes where at least {next_offset} is due")
            next_offset = max(next_offset, last_offset + 1)
            if self._options.records:
                yield from self._records(entry, header)
        left = walk.end - walk.position
        if left > 0 and bytes_max == BYTES_MAX:
            name = self._path.rpartition("/")[2]
            if is_zeros(self._file, walk.position, walk.end) and left >= HEADER_SIZE:
                yield DamageAt(walk.position, f"{left} bytes of zeros up to the end of the file")
            else:
                yield Line(f"Found {left} invalid bytes at the end of {name}")
                yield DamageAt(walk.position, walk.fault or "no batch begins here")

    def _batch(self, entry: LogEntry, header: BatchHeader | None) -> Iterator[DumpOutput]:
        if header is None:
            message = read_old(entry.data)
            is_valid, codec = message.is_valid, message.codec
            kind = _timestamp_type(message)
            start = f"offset: {message.offset}"
            times, crc = f"{kind}: {message.timestamp}", message.crc
        else:
            # The magic byte is not covered by the CRC; a newer format is read as a batch, as the tool does.
            is_valid, codec = crc_is_right(entry.data, 0, header._replace(magic=CURRENT_MAGIC)), header.codec
            start = _batch_start(header)
            times, crc = f"{_timestamp_type(header)}: {header.max_timestamp}", header.crc
        yield Line(
            f"{start} position: {entry.position} {times} size: {entry.size} magic: {entry.magic} "
            f"compresscodec: {codec_name(codec)} crc: {crc} isvalid: {_LOWER[is_valid]}"
        )
        if not is_valid:
            yield DamageAt(entry.position, "the CRC is wrong")
        if entry.magic > CURRENT_MAGIC:
            yield DamageAt(entry.position, f"format {entry.magic} is not known")
        if codec not in CODEC_NAMES:
            yield DamageAt(entry.position, f"codec {codec} is not known")

    def _records(self, entry: LogEntry, header: BatchHeader | None) -> Iterator[DumpOutput]:
        try:
            if header is None:
                for message in messages_in(entry):
                    self._follow(message.offset)
                    yield Line(self._old_line(message))
            else:
                for record in read_records(entry.data, header):
                    self._follow(record.offset)
                    yield Line(self._line(record, header))
        except BrokerError as error:
            yield DamageAt(entry.position, f"the records cannot be read: {error}")

    def _follow(self, offset: int) -> None:
        if self._last_offset >= 0 and offset != self._last_offset + 1:
            self._findings.gaps.setdefault(self._path, Pairs()).add(self._last_offset, offset)
        self._last_offset = offset

    def _line(self, record: Record, header: BatchHeader) -> str:
        words = ""
        if self._options.metadata:
            sequence = sequence_after(header.base_sequence, record.offset - header.base_offset)
            names = ",".join(java_text(key.encode(errors="surrogateescape")) for key, _ in record.headers)
            words = (
                f"| offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
                f"sequence: {sequence if header.base_sequence >= 0 else -1} headerKeys: [{names}]"
            )
            if header.is_control:
                words += _marker(record)
        if self._options.contents and not header.is_control:
            words += self._contents(record.offset, record.key, record.value)
        return words

    def _old_line(self, message: OldMessage) -> str:
        words = ""
        if self._options.metadata:
            words = (
                f"| offset: {message.offset} {_timestamp_type(message)}: {message.timestamp} "
                f"keySize: {max(message.key_size, -1)} valueSize: {max(message.value_size, -1)} "
                f"isValid: {_LOWER[message.is_valid]} crc: {message.crc}}}"
            )
        if self._options.contents:
            words += self._contents(message.offset, message.key, message.value)
        return words

    def _contents(self, offset: int, key: bytes | None, value: bytes | None) -> str:
        shown_key, payload = self._parser(offset, key, value)
        words = ""
        if shown_key is not None:
            words = f"{' ' if self._options.metadata else '| '}key: {shown_key}"
        return words if payload is None else f"{words} payload: {payload}"


def codec_name(codec: int) -> str:
    """As Apache Kafka spells it."""
    return "none" if codec == NO_CODEC else CODEC_NAMES.get(codec, f"unknown ({codec})")


def _timestamp_type(of: BatchHeader | OldMessage) -> str:
    if of.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if of.is_log_append_time else "CreateTime"


def _batch_start(header: BatchHeader) -> str:
    horizon = header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_LOWER[header.is_transactional]} "
        f"isControl: {_LOWER[header.is_control]} deleteHorizonMs: {optional_long(horizon)}"
    )


def _marker(record: Record) -> str:
    marker = read_marker(record)
    if marker.kind in _MARKERS:
        return f" endTxnMarker: {_MARKERS[marker.kind]} coordinatorEpoch: {marker.coordinator_epoch}"
    return f" controlType: UNKNOWN({marker.kind})"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
