"""A segment in the text of Apache Kafka 2.0's kafka-dump-log: one line for each record.

    offset: 5376 position: 102124 CreateTime: 1531477349287 isvalid: true keysize: -1 valuesize: 12 magic: 2
    compresscodec: NONE producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: []
    payload: message_5376

(in one line). The position is that of the record's batch; `isvalid` is whether the batch's CRC is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.cli.commands.log.dump.kafka_log import BYTES_MAX, LogOptions, as_strings, codec_name
from sordini.cli.commands.log.dump.kafka_text import DamageAt, DumpOutput, Line, java_text
from sordini.cli.commands.log.files.old_messages import OldMessage, messages_in, read_old
from sordini.cli.commands.log.files.segment_walk import LogEntry, SegmentWalk
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import BatchHeader, Record, crc_is_right, read_header, read_records
from sordini.protocol.records.control import ABORT, COMMIT, read_marker
from sordini.storage.disk import File
from sordini.storage.producer_state import sequence_after

_MARKERS = {ABORT: "ABORT", COMMIT: "COMMIT"}
_LOWER = {False: "false", True: "true"}


def classic_log(file: File, options: LogOptions) -> Iterator[DumpOutput]:
    """Every record of a segment, even if `options` selects no records."""
    walk = SegmentWalk(file, 0, options.bytes_max)
    parser = options.parser or as_strings
    for entry in walk:
        is_valid = True
        try:
            if entry.is_batch:
                header = read_header(entry.data)
                is_valid = crc_is_right(entry.data, 0, header)
                for record in read_records(entry.data, header):
                    words = _record(entry, record, header, is_valid=is_valid)
                    shows = options.contents and not header.is_control
                    yield Line(words + (_contents(*parser(record.offset, record.key, record.value)) if shows else ""))
            else:
                outer = read_old(entry.data)
                is_valid = outer.is_valid
                for message in messages_in(entry):
                    words = _message(entry, message, outer.codec)
                    shown = parser(message.offset, message.key, message.value) if options.contents else (None, None)
                    yield Line(words + _contents(*shown))
        except BrokerError as error:
            yield DamageAt(entry.position, f"the records cannot be read: {error}")
        if not is_valid:
            yield DamageAt(entry.position, "the CRC is wrong")
    left = walk.end - walk.position
    if left > 0 and options.bytes_max == BYTES_MAX:
        yield Line(f"Found {left} invalid bytes at the end of {file.path.rpartition('/')[2]}")
        yield DamageAt(walk.position, walk.fault or "no batch begins here")


def _record(entry: LogEntry, record: Record, header: BatchHeader, *, is_valid: bool) -> str:
    kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    sequence = -1
    if header.base_sequence >= 0:
        sequence = sequence_after(header.base_sequence, record.offset - header.base_offset)
    names = ",".join(java_text(key.encode(errors="surrogateescape")) for key, _ in record.headers)
    words = (
        f"offset: {record.offset} position: {entry.position} {kind}: {record.timestamp} isvalid: {_LOWER[is_valid]} "
        f"keysize: {_size(record.key)} valuesize: {_size(record.value)} magic: {entry.magic} "
        f"compresscodec: {codec_name(header.codec).upper()} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} sequence: {sequence} "
        f"isTransactional: {_LOWER[header.is_transactional]} headerKeys: [{names}]"
    )
    if not header.is_control:
        return words
    marker = read_marker(record)
    return f"{words} endTxnMarker: {_MARKERS.get(marker.kind, 'UNKNOWN')} coordinatorEpoch: {marker.coordinator_epoch}"


def _message(entry: LogEntry, message: OldMessage, codec: int) -> str:
    kind = "NoTimestampType"
    if message.magic:
        kind = "LogAppendTime" if message.is_log_append_time else "CreateTime"
    return (
        f"offset: {message.offset} position: {entry.position} {kind}: {message.timestamp} "
        f"isvalid: {_LOWER[message.is_valid]} keysize: {max(message.key_size, -1)} "
        f"valuesize: {max(message.value_size, -1)} magic: {message.magic} "
        f"compresscodec: {codec_name(codec).upper()}"
    )


def _contents(key: str | None, payload: str | None) -> str:
    return ("" if key is None else f" key: {key}") + ("" if payload is None else f" payload: {payload}")


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
