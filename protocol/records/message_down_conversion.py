"""Batches of a log for clients older than 0.11: rewritten in message formats 0 and 1."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, Record, read_header, read_records
from sordini.protocol.records.compression import NO_CODEC, ZSTD
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX
from sordini.protocol.records.legacy import DEPTH_READ, ENTRY_BYTES_MIN, codec_of, corrupt, entries, read_entry
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, CpuTimeExceeded, WorkBudget

WRAPPER_BYTES = 1024 * 1024
"""A batch that expands to more is sent to old clients in wrappers of at least this size each."""
UNLIMITED = 2**63 - 1
WHOLE_RECORDS_MAX = 10_000
"""In a compressed batch with more records, those before the requested offset are skipped."""


def down_convert(
    batches: bytes | memoryview,
    magic: int,
    *,
    start: int = 0,
    bytes_max: int = UNLIMITED,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
    budget: WorkBudget = UNBOUNDED,
) -> bytes:
    """Rewrite batches of a log in format 0 or 1, for Fetch versions 0-1 or 2-3.

    Offsets stay; headers and control batches are left out. Records below `start` are left out of an uncompressed
    batch, because an old client takes every message there as requested; a wrapper stays whole. Batches whose format is
    old enough are copied. A truncated last batch is dropped. The result ends with the message or wrapper that reaches
    `bytes_max`. Raises BudgetExceeded when `budget` is spent, and BrokerError:
    UNSUPPORTED_COMPRESSION_TYPE for zstd, which the old formats do not have, and for damaged records.
    """
    assert magic in {0, 1}, magic
    view = memoryview(batches)
    parts: list[bytes] = []
    size = 0
    for entry in entries(view):
        piece = view[entry.position : entry.position + entry.size]
        budget.spend(RECORD_STEPS)
        if entry.magic <= magic:
            made: Iterable[bytes] = [bytes(piece)]
        elif entry.magic == CURRENT_MAGIC:
            made = _batch_as_messages(piece, magic, start, expanded_bytes_max, budget)
        else:
            records = read_entry(view, entry, expanded_bytes_max, depth_max=DEPTH_READ, budget=budget)
            made = _in_wrappers(records, magic, codec_of(view, entry), start, budget)
        try:
            for part in made:
                parts.append(part)
                size += len(part)
                if size >= bytes_max:
                    return b"".join(parts)
        except CpuTimeExceeded:
            if not parts:
                raise
            break  # The consumer continues from there.
        except struct.error as problem:
            raise corrupt(f"an offset or a time is beyond 64 bits: {problem}") from problem
    return b"".join(parts)


def _batch_as_messages(
    batch: memoryview, magic: int, start: int, expanded_bytes_max: int, budget: WorkBudget
) -> Iterator[bytes]:
    if len(batch) < HEADER_SIZE:
        raise corrupt(f"a batch of {len(batch)} bytes")
    header = read_header(batch)
    if header.is_control:
        return
    if header.codec >= ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.codec} has no message format {magic}")
    # An old client skips the earlier messages of a wrapper, so what fits into one wrapper is sent whole.
    skipped = start if header.record_count > WHOLE_RECORDS_MAX else 0
    records = read_records(batch, header, expanded_bytes_max=expanded_bytes_max, budget=budget, start=skipped)
    yield from _in_wrappers(records, magic, header.codec, start, budget, log_append_time=header.is_log_append_time)


def _in_wrappers(
    records: Iterable[Record],
    magic: int,
    codec: int,
    start: int,
    budget: WorkBudget,
    *,
    log_append_time: bool = False,
) -> Iterator[bytes]:
    """The records as messages or, compressed, in wrappers; those without a record from `start` on are left out."""
    taken: list[Record] = []
    size = 0
    for record in records:
        budget.spend(2 * RECORD_STEPS)
        if codec == NO_CODEC:
            if record.offset >= start:
                yield write_messages([record], magic, log_append_time=log_append_time)
            continue
        taken.append(record)
        size += ENTRY_BYTES_MIN + len(record.key or b"") + len(record.value or b"")
        if size >= WRAPPER_BYTES:
            if record.offset >= start:
                yield write_messages(taken, magic, codec=codec, log_append_time=log_append_time, budget=budget)
            taken, size = [], 0
    if taken:
        yield write_messages(taken, magic, codec=codec, log_append_time=log_append_time, budget=budget)
