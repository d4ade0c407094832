"""Record sets of all formats, compressed and nested: an error of Produce's, or what is stored can be read.

    input = uint8 shape | uint8 rules | bytes

The shape says what the bytes are: a whole record set; or the inside of one, which is sealed with a right CRC; or what is
inside of wrappers and codecs. So that changed bytes get behind the CRC and into the codecs.
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Final

from crc32c import crc32c

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import batch_filter, legacy, legacy_writing, message_down_conversion
from sordini.protocol.records.batch import HEADER_SIZE, BatchHeader, Record, assemble_batch, build_batch, read_header
from sordini.protocol.records.compression import compress
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.records.legacy_validation import LegacyMessages
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules
from sordini.protocol.records.produced_records import check_produced
from sordini.protocol.records.record_scan import WALKED_RECORDS_MAX
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.varint import read_varint, varint
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from tests.fuzz.target import Broken
from tests.support.builders import RULES

EXPANDED_BYTES_MAX: Final = 64 * 1024
NOW: Final = 1_700_000_000_000
STEPS: Final = 200_000
OVERLONG: Final = "does not end within"
AS_IT_IS, SEALED, INSIDE = range(3)
CODES: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
RULE_SETS: Final[tuple[tuple[ProduceRules, int], ...]] = tuple(
    (RULES._replace(**{"expanded_bytes_max": EXPANDED_BYTES_MAX, "check_compressed": True, **changes}), version)
    for changes, version in (
        ({}, 9),
        ({"key_required": True}, 9),
        ({"log_append_time": True}, 9),
        ({"codec": 3}, 9),
        ({"magic": 1}, 9),
        ({"magic": 0}, 9),
        ({"timestamp_after_ms_max": 1_000}, 9),
        ({"check_compressed": False}, 9),
        ({}, 2),
        ({"magic": 1}, 2),
        ({"magic": 1, "log_append_time": True, "key_required": True}, 2),
        ({"magic": 0}, 1),
        ({"magic": 1, "codec": 2}, 1),
        ({"magic": 0, "zstd": False}, 2),
    )
)


def sealed(data: bytes) -> bytes:
    """The first batch or message with a size and a CRC that are right."""
    made = bytearray(data)
    if len(made) < legacy.ENTRY_BYTES_MIN:
        return data
    struct.pack_into(">i", made, 8, len(made) - 12)
    if made[16] >= 2:
        if len(made) >= HEADER_SIZE:
            struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    else:
        struct.pack_into(">I", made, 12, zlib.crc32(bytes(made[16:])))
    return bytes(made)


def inside(data: bytes) -> bytes:
    """Codecs and formats by the first bytes; the rest is what they hold, up to three deep."""
    if len(data) < 2:
        return data
    layers, rest = data[0], data[1:]
    magic, codec, depth = layers & 3, (layers >> 2) % 5, 1 + (layers >> 5) % 3
    if magic >= 2:
        count = rest[0]
        header = BatchHeader(0, 0, -1, 2, 0, codec, max(count - 1, 0), NOW, NOW, -1, -1, -1, count)
        return bytes(assemble_batch(header, compress(codec, rest[1:])))
    for _ in range(depth):
        body = compress(codec, rest) if codec else rest
        stamp = struct.pack(">bb", magic, codec & 7) + (struct.pack(">q", NOW) if magic else b"")
        message = stamp + struct.pack(">i", -1) + struct.pack(">i", len(body)) + body
        rest = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    return rest


class Records:
    name = "records"
    share = 0.17
    instrumented = ("sordini.protocol.records",)

    def draw(self, chance: random.Random) -> bytes:
        shape = chance.choice((AS_IT_IS, SEALED, SEALED, INSIDE, INSIDE))
        rules = chance.randrange(len(RULE_SETS))
        records = [
            Record(
                number,
                NOW + chance.choice((0, 0, number, -5)),
                chance.choice((None, b"", b"key")),
                chance.choice((None, b"value", bytes(100), b"x" * 20)),
                chance.choice(((), (), (("header", b"x"),))),
            )
            for number in range(chance.choice((1, 1, 2, 3, 20)))
        ]
        magic = chance.randrange(3) if shape != INSIDE else chance.randrange(2)
        codec = chance.randrange(5) if magic == 2 else chance.choice((0, 0, 1, 2, 3))
        if chance.random() < 0.01:
            records = [Record(0, NOW, b"k", bytes(EXPANDED_BYTES_MAX + chance.choice((-100, 100, 100_000))))]
            return bytes((AS_IT_IS, rules)) + bytes(build_batch(records, codec=chance.randrange(1, 5)))
        if chance.random() < 0.1:
            return bytes((INSIDE, rules, 2 | chance.randrange(5) << 2, len(records))) + _odd_body(records, chance)
        if shape == INSIDE and chance.random() < 0.5:
            body = build_batch(records)[HEADER_SIZE:]
            return bytes((shape, rules, 2 | chance.randrange(5) << 2, len(records))) + bytes(body)
        if magic == 2:
            whole = bytes(build_batch(records, codec=codec, transactional=chance.random() < 0.05))
        else:
            plain = [record._replace(headers=(), timestamp=max(record.timestamp, 0)) for record in records]
            whole = legacy_writing.write_messages(plain, magic, codec=codec)
        if shape == INSIDE:
            return bytes((shape, rules, magic | chance.randrange(1, 4) << 2 | chance.randrange(3) << 5)) + whole
        return bytes((shape, rules)) + whole

    def close(self) -> None:
        """Nothing is kept open."""

    def run(self, data: bytes) -> int:
        if len(data) < 2:
            return 1
        body = data[2:]
        if data[0] % 3 == SEALED:
            body = sealed(body)
        elif data[0] % 3 == INSIDE:
            body = inside(body)
        rules, version = RULE_SETS[data[1] % len(RULE_SETS)]
        self._produced(body, rules, version)
        self._read(body)
        return 1

    def _produced(self, body: bytes, rules: ProduceRules, version: int) -> None:
        try:
            stored = check_produced(
                memoryview(bytearray(body)), rules, NOW, produce_version=version, budget=WorkBudget(STEPS)
            )
        except BrokerError as refused:
            if refused.code not in CODES:
                raise Broken(f"refused by {refused.code.name}: {refused}") from refused
            return
        except BudgetExceeded:
            return
        if isinstance(stored, LegacyMessages):
            try:
                stored.assign_offsets(1_000)
            except BrokerError as refused:
                if refused.code != ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                return
        if not rules.check_compressed:
            return
        buffer = bytes(stored.buffer)
        for entry in legacy.entries(buffer):
            piece = buffer[entry.position : entry.position + entry.size]
            header = legacy.message_header(piece, 0, len(piece)) if entry.magic < 2 else read_header(piece)
            if header is None:
                raise Broken("a stored message has no header")
            try:
                legacy.read_any(piece, header)
            except BrokerError as unreadable:
                # Numbers with more bytes than the format allows are known to be taken: docs/evidence/record-checks.md, "Compiled".
                if OVERLONG not in str(unreadable) or header.record_count <= WALKED_RECORDS_MAX:
                    raise
                return
            check_fetched(memoryview(bytearray(piece)))
            # In a format of old it may have grown: each record has a head of its own.
            if header.magic == 2 and len(batch_filter.expand(memoryview(piece), header)) > EXPANDED_BYTES_MAX:
                raise Broken("a batch is stored that expands to more than it may")

    def _read(self, body: bytes) -> None:
        """What a follower, an old consumer, a look-up and the cleaner make of the same bytes."""
        for read in (self._fetched, self._converted, self._searched, self._cleaned):
            try:
                read(body)
            except BrokerError as refused:
                if refused.code not in CODES:
                    raise Broken(f"{read.__name__}: {refused.code.name}: {refused}") from refused
            except BudgetExceeded:
                pass

    def _fetched(self, body: bytes) -> None:
        checked = check_fetched(memoryview(bytearray(body)))
        assert isinstance(checked, CheckedBatches)

    def _converted(self, body: bytes) -> None:
        for magic in (0, 1):
            made = message_down_conversion.down_convert(
                body, magic, expanded_bytes_max=EXPANDED_BYTES_MAX, budget=WorkBudget(STEPS)
            )
            for entry in legacy.entries(made):
                if entry.magic > magic:
                    raise Broken(f"format {entry.magic} where {magic} was asked for")

    def _searched(self, body: bytes) -> None:
        for header, piece in _pieces(body):
            first_at_or_after(piece, header, NOW, 0, WorkBudget(STEPS))

    def _cleaned(self, body: bytes) -> None:
        for header, piece in _pieces(body):
            if header.magic == 2 and header.record_count < 1_000:
                expanded = batch_filter.expand(memoryview(piece), header)
                keys = batch_filter.read_keys(expanded, header)
                count = len(keys.keys)
                if count:
                    batch_filter.batch_with_some_records(header, expanded, [1] * count)


def _odd_body(records: list[Record], chance: random.Random) -> bytes:
    """Records one of which has another byte in front of its fields: attributes that some take for a longer number."""
    made = []
    odd = chance.randrange(len(records))
    for record in records:
        plain = build_batch([record._replace(timestamp=NOW)], base_offset=record.offset)[HEADER_SIZE:]
        _, start = read_varint(plain, 0)
        content = bytearray(plain[start:])
        content[2:3] = varint(record.offset)
        if record.offset == odd:
            content[:1] = chance.choice((b"\x80", b"\x80\x00", b"\xff\x01", b"\x01\x00"))
        made.append(varint(len(content)) + bytes(content))
    return b"".join(made)


def _pieces(body: bytes) -> list[tuple[BatchHeader, bytes]]:
    found = []
    for entry in legacy.entries(body):
        piece = body[entry.position : entry.position + entry.size]
        header = legacy.message_header(piece, 0, len(piece)) if entry.magic < 2 else None
        if entry.magic >= 2 and len(piece) >= HEADER_SIZE:
            header = read_header(piece)
        if header is not None:
            found.append((header, piece))
    return found
