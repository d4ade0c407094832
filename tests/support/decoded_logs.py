"""Partitions to decode, as hypothesis draws them, and kafka-python's record reader as the judge of what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st
from kafka.record import MemoryRecords

from sordini.pipeline.source.decode import COLUMNS, Aborted, Decoded, Decoder, DecodeRequest
from sordini.protocol.records.batch import CRC_POSITION, BatchHeader, Record, assemble_batch, build_batch
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from sordini.protocol.records.legacy_writing import write_messages

CODECS = [NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD]
ALL = frozenset(COLUMNS)
TIME = 1_700_000_000_000

Row = tuple[bytes | None, bytes | None, int, int, int, list[tuple[str, bytes | None]] | None]
"""Key, value, offset, timestamp in ms, its type, headers."""


def wanted(
    start: int = 0, end: int = 2**63 - 1, *, columns: frozenset[str] = ALL, read_committed: bool = False
) -> DecodeRequest:
    return DecodeRequest("views", 3, start, end, columns, read_committed)


def decode(records: memoryview, request: DecodeRequest, aborted: Sequence[Aborted] = ()) -> Decoded:
    """Decode one Fetch response's records, for one response alone. Raises BrokenRecords."""
    return Decoder(request).feed(records, aborted)


def judged(log: bytes) -> list[Row]:
    """What kafka-python reads; control records are left out."""
    rows: list[Row] = []
    reader = MemoryRecords(log)
    while reader.has_next():
        batch = reader.next_batch()
        if batch is None:
            break
        assert batch.validate_crc()
        if getattr(batch, "is_control_batch", False):
            continue
        for record in batch:
            kind = -1 if record.timestamp_type is None else record.timestamp_type
            time = -1 if record.timestamp is None else record.timestamp
            headers = list(record.headers) or None
            rows.append((record.key, record.value, record.offset, time, kind, headers))
    return rows


def decoded(log: bytes | memoryview, asked: DecodeRequest | None = None) -> list[Row]:
    decoder = Decoder(asked or wanted())
    batches = [piece.batch for piece in decoder.pieces(memoryview(log), ()) if piece.batch is not None]
    return [row for batch in batches for row in rows_of(batch)]


def rows_of(batch) -> list[Row]:
    batch.validate(full=True)
    assert set(batch.column("topic").to_pylist()) == {"views"}
    assert set(batch.column("partition").to_pylist()) == {3}
    rows: list[Row] = []
    times = batch.column("timestamp").cast("int64").to_pylist()
    for row, time in zip(batch.to_pylist(), times, strict=True):
        headers = None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]]
        rows.append((row["key"], row["value"], row["offset"], time // 1000, row["timestampType"], headers))
    return rows


class Shape(NamedTuple):
    """How the records of one stretch look."""

    key: bytes | None
    value_bytes: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    step_ms: int
    gap: int
    grows: int


SHAPES = st.builds(
    Shape,
    key=st.sampled_from([None, b"", b"key", b"k" * 64, b"k" * 70]),
    value_bytes=st.sampled_from([None, 0, 1, 20, 54, 60, 100, 130, 8200]),
    headers=st.sampled_from([(), (), (("h", b"v"),), (("h", None), ("", b""), ("\u00e9" * 40, b"x" * 70))]),
    step_ms=st.sampled_from([0, 1, 7, 300, -1, 2**40]),
    gap=st.sampled_from([0, 0, 0, 1, 100]),
    grows=st.sampled_from([0, 0, 1]),
)


@st.composite
def records(draw: st.DrawFn, base: int, lengths: tuple[int, ...] = (1, 2, 5, 40, 70)) -> list[Record]:
    """Stretches of alike records, with what lies between them."""
    found: list[Record] = []
    offset, time = base, TIME + draw(st.integers(-1000, 1000))
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(SHAPES)
        for number in range(draw(st.sampled_from(lengths))):
            size = None if shape.value_bytes is None else shape.value_bytes + number * shape.grows
            value = None if size is None else bytes([offset & 0xFF]) * size
            found.append(Record(offset, time, shape.key, value, shape.headers))
            offset += 1 + shape.gap
            time += shape.step_ms
    return found


@st.composite
def batches(draw: st.DrawFn, base: int) -> tuple[bytes, int]:
    """One batch of format 2, or messages of an old format, and the next offset; the first may leave some out."""
    found = draw(records(base + draw(st.integers(0, 2))))
    magic, codec = draw(st.sampled_from([2, 2, 2, 2, 1, 0])), draw(st.sampled_from(CODECS))
    by_log, next_offset = draw(st.booleans()), found[-1].offset + 1
    if magic == 2:
        base_offset = found[0].offset
        return build_batch(found, codec=codec, base_offset=base_offset, log_append_time=by_log), next_offset
    # Zstandard came later, and kafka-python reads LZ4 of format 0 only with one more library.
    codec = codec if codec < (ZSTD if magic else LZ4) else NO_CODEC
    return write_messages(found, magic, codec=codec, log_append_time=by_log), next_offset


@st.composite
def logs(draw: st.DrawFn, batches_max: int = 4) -> list[bytes]:
    """The batches of a partition, one after another."""
    log: list[bytes] = []
    base = draw(st.sampled_from([0, 5, 2**40]))
    for _ in range(draw(st.integers(1, batches_max))):
        batch, base = draw(batches(base))
        log.append(batch)
    return log


def with_right_crc(header: BatchHeader, body: bytes) -> bytes:
    """A batch whose CRC is right, whatever its records are."""
    return bytes(assemble_batch(header, body))


def with_wrong_crc(batch: bytes) -> bytes:
    return batch[:CRC_POSITION] + bytes([batch[CRC_POSITION] ^ 1]) + batch[CRC_POSITION + 1 :]
