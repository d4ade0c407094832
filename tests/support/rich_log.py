"""A partition's directory with everything a dump tool may meet, built byte by byte: for holding two tools together."""

from __future__ import annotations

import random
import struct
import zlib
from typing import Final

from sordini.broker.groups.machine import records as group_records
from sordini.broker.groups.machine.state import CommittedOffset, GroupValue, MemberValue
from sordini.broker.transactions.records import TransactionValue, transaction_key, transaction_value
from sordini.protocol.records.batch import (
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Record,
    assemble_batch,
    build_batch,
    read_header,
)
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.types import TopicPartition
from sordini.storage.producer_snapshots import encode_snapshot
from sordini.storage.producer_state import ProducerEntry, ProducerState

TIME: Final = 1_531_477_349_287
CODECS: Final = (NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD)
DELETE_HORIZON_BIT: Final = 0x40
SEQUENCE_MAX: Final = 2**31 - 1


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


def records_at(base: int, count: int = 3) -> list[Record]:
    return [
        Record(base + number, TIME + base + number, b"key-%d" % number, b"message_%d" % (base + number))
        for number in range(count)
    ]


def odd_records(base: int) -> list[Record]:
    """Keys and values that are missing, empty, no text, or more than a line; headers of all kinds."""
    return [
        Record(base, TIME + base, None, None),
        Record(base + 1, TIME + base, b"", b""),
        Record(base + 2, TIME + base + 5, b"tombstone", None),
        Record(base + 3, TIME + base + 3, None, b"no key"),
        Record(base + 4, TIME + base, b"\xff\xfe", b"a\nb\x00c \xe2\x82 \xc3\xa4"),
        Record(base + 5, TIME + base, b"k", b"v", (("h", b"1"), ("", None), ("h", b"2"))),
    ]


def whole_log() -> bytes:
    """One segment from offset 0 on with all kinds of version 2 batches."""
    parts = [build_batch(records_at(3 * number), base_offset=3 * number, codec=codec, leader_epoch=number)
             for number, codec in enumerate(CODECS)]  # fmt: skip
    parts.append(build_batch(odd_records(15), base_offset=15))
    parts.append(build_batch(records_at(21), base_offset=21, log_append_time=True, codec=GZIP))
    # Two transactions that overlap: one is committed, one is not.
    for producer, base in ((7, 24), (8, 27)):
        parts.append(
            build_batch(records_at(base), base_offset=base, producer_id=producer, producer_epoch=1, base_sequence=0,
                        transactional=True)
        )  # fmt: skip
    for producer, kind, base in ((7, ABORT, 30), (8, COMMIT, 31)):
        marker = Marker(kind, 4)
        parts.append(
            build_marker(
                marker, producer_id=producer, producer_epoch=1, timestamp_ms=TIME, base_offset=base, leader_epoch=3
            )
        )
    # Sequence numbers that wrap, offsets with gaps, and a batch that compaction has emptied.
    parts.append(
        build_batch(records_at(32), base_offset=32, producer_id=9, producer_epoch=0, base_sequence=SEQUENCE_MAX - 1)
    )
    parts.append(build_batch([Record(36, TIME, b"a", b"1"), Record(39, TIME, b"b", b"2")], base_offset=35))
    header = read_header(parts[-2])._replace(base_offset=40, record_count=0, base_sequence=2)
    parts.append(bytes(assemble_batch(header, b"")))
    marker = build_marker(Marker(COMMIT, 5), producer_id=9, producer_epoch=0, timestamp_ms=TIME, base_offset=43)
    header = read_header(marker)
    parts.append(bytes(assemble_batch(header._replace(attributes=header.attributes | DELETE_HORIZON_BIT), marker[61:])))
    return b"".join(parts)


def old_log() -> bytes:
    """Messages of format 0 and 1, alone and in wrappers."""
    parts = []
    offset = 0
    for magic in (0, 1):
        for codec in (NO_CODEC, GZIP, SNAPPY, LZ4):
            parts.append(bytes(write_messages(records_at(offset), magic, codec=codec)))
            offset += 3
    parts.append(bytes(write_messages([Record(offset, TIME, None, None)], 1, log_append_time=True)))
    parts.append(bytes(write_messages(records_at(offset + 1), 1, codec=GZIP, log_append_time=True)))
    parts.append(build_batch(records_at(offset + 4), base_offset=offset + 4))
    # What a broker makes of a producer's wrapper when its topic has the log's time: the inner messages stay.
    wrapper = bytearray(write_messages(records_at(offset + 7), 1, codec=GZIP))
    wrapper[17] |= LOG_APPEND_TIME_BIT
    struct.pack_into(">I", wrapper, 12, zlib.crc32(wrapper[16:]))
    parts.append(bytes(wrapper))
    return b"".join(parts)


def flipped(data: bytes, at: int) -> bytes:
    """The same with one bit of one byte changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def random_records(seed: int) -> bytes:
    """Keys and values that are no text: how each tool shows them must not differ."""
    source = random.Random(seed)
    leads = bytes(range(0xC0, 0x100)) + b"a\xed\xa0\x80\xbf\x90\x9f"
    records = [
        Record(number, TIME, bytes(source.choices(leads, k=source.randint(0, 12))), source.randbytes(20))
        for number in range(200)
    ]
    return build_batch(records)


def offset_index(log: bytes, base: int, *, padded_to: int = 0) -> bytes:
    """An entry for every batch but the first."""
    entries = b"".join(
        struct.pack(">ii", header.last_offset - base, position) for position, header in headers(log) if position
    )
    return entries.ljust(padded_to, b"\0")


def time_index(log: bytes, base: int, *, padded_to: int = 0) -> bytes:
    """An entry for every batch whose time is greater than all before it."""
    entries, greatest = b"", -1
    for _, header in headers(log):
        if header.max_timestamp > greatest and header.record_count:
            greatest = header.max_timestamp
            entries += struct.pack(">qi", greatest, header.last_offset - base)
    return entries.ljust(padded_to, b"\0")


def headers(log: bytes) -> list[tuple[int, BatchHeader]]:
    found, position = [], 0
    while position < len(log):
        header = read_header(log, position)
        found.append((position, header))
        position += header.size
    return found


def snapshot() -> bytes:
    return encode_snapshot(
        ProducerState(
            [
                ProducerEntry(9, 0, 5, 42, 2, TIME, 5, -1),
                ProducerEntry(7, 1, -1, -1, 0, TIME + 1, 4, -1),
                ProducerEntry(8, 1, 1, 29, 4, TIME + 2, -1, 27),
            ]
        )
    )


def aborts() -> bytes:
    return struct.pack(">hqqqq", 0, 7, 24, 30, 27) + struct.pack(">hqqqq", 0, 8, 50, 60, 61)


def offsets_topic() -> bytes:
    """What a group coordinator writes, in every version that is read, and what none writes."""
    subscriptions = [
        b"\0\0" + struct.pack(">ih1s", 1, 1, b"t") + struct.pack(">i", -1),
        b"\0\1"
        + struct.pack(">ih1s", 1, 1, b"t")
        + struct.pack(">i2s", 2, b"ud")
        + struct.pack(">ih1sii", 1, 1, b"t", 1, 0),
        b"\0\3"
        + struct.pack(">i", 0)
        + struct.pack(">i", -1)
        + struct.pack(">i", 0)
        + struct.pack(">ih2s", 9, 2, b"ra"),
        b"",
    ]
    assignment = b"\0\1" + struct.pack(">ih1siii", 1, 1, b"t", 2, 0, 3) + struct.pack(">i", -1)
    members = tuple(
        MemberValue(
            f"m-{n}", f"static-{n}" if n else None, 'cl\n\x1f"\\\u00e4', "/h", 30, 10, data, assignment if n else b""
        )
        for n, data in enumerate(subscriptions)
    )
    consumer = GroupValue("consumer", 5, "range", "m-0", TIME, members)
    connect = consumer._replace(protocol_type="connect")
    empty = GroupValue("", 6, None, None, TIME, ())
    committed = CommittedOffset(42, 3, "note \u00e4", TIME)
    flexible = b"\0\4" + struct.pack(">qi", 7, 2) + b"\x02n" + struct.pack(">q", TIME) + b"\0"
    old_key = b"\0\0" + group_records.offset_key("g", "t", 1)[2:]
    pairs: list[tuple[bytes | None, bytes | None]] = [
        (group_records.offset_key("g", "t", 0), group_records.offset_value(committed)),
        (old_key, group_records.offset_value(committed._replace(expires_ms=TIME + 5))),
        (group_records.offset_key("g", "t", 2), b"\0\2" + struct.pack(">qh", 5, 0) + struct.pack(">q", TIME)),
        (group_records.offset_key("g", "t", 3), b"\0\0" + struct.pack(">qh", 5, 0) + struct.pack(">q", TIME)),
        (group_records.offset_key("g", "t", 4), flexible),
        (group_records.offset_key("g", "t", 0), None),
        (group_records.group_key("g"), group_records.group_value(consumer)),
        (group_records.group_key("g-\u00e4"), group_records.group_value(connect)),
        (group_records.group_key("g"), group_records.group_value(empty)),
        (group_records.group_key("g"), None),
        (b"\0\x63key", b"value"),
    ]
    records = [Record(number, TIME, key, value) for number, (key, value) in enumerate(pairs)]
    return build_batch(records, codec=GZIP)


def transactions_topic() -> bytes:
    """Transactions in every state, with few partitions and many."""
    source = random.Random(1)
    pairs: list[tuple[bytes, bytes | None]] = [(transaction_key("gone"), None)]
    for state in range(8):
        for count in (0, 1, 4, 5, 12, 40, 200):
            partitions = {TopicPartition(f"topic-{source.randint(0, 6)}", source.randint(0, 99)) for _ in range(count)}
            held = () if state == 0 else tuple(sorted(partitions))
            value = TransactionValue(1 + count, 2, 60_000, state, held, TIME, -1)
            pairs.append((transaction_key(f"id-{state}-{count}"), transaction_value(value)))
    return build_batch([Record(number, TIME, key, value) for number, (key, value) in enumerate(pairs)])


def at_offset(log: bytes, base: int) -> bytes:
    """The same batches, `base` offsets later."""
    moved = bytearray(log)
    for position, header in headers(log):
        struct.pack_into(">q", moved, position, header.base_offset + base)
    return bytes(moved)
