"""Builders that tests share: small values with sensible defaults, of which a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX
from sordini.protocol.records.produce_validation import UNLIMITED, ProduceRules

BASE_TIMESTAMP = 1_700_000_000_000
RULES = ProduceRules(
    message_bytes_max=1_048_588,
    key_required=False,
    log_append_time=False,
    timestamp_before_ms_max=UNLIMITED,
    timestamp_after_ms_max=UNLIMITED,
    codec=None,
    codec_level=None,
    check_compressed=False,
    expanded_bytes_max=EXPANDED_BYTES_MAX,
)
"""A topic's default rules for produced records."""


def some_records(
    count: int = 3,
    *,
    base_offset: int = 0,
    timestamp: int = BASE_TIMESTAMP,
    key: bytes | None = None,
    value: bytes | None = None,
) -> list[Record]:
    """Records with consecutive offsets and timestamps 1 ms apart; values differ unless one is given."""
    return [
        Record(
            base_offset + index,
            timestamp + index,
            key,
            b"value-%d" % (base_offset + index) if value is None else value,
        )
        for index in range(count)
    ]


def a_batch(
    records: int | Sequence[Record] = 3,
    *,
    base_offset: int = 0,
    timestamp: int = BASE_TIMESTAMP,
    key: bytes | None = None,
    value: bytes | None = None,
    **fields: Any,
) -> bytes:
    """One version 2 batch; `fields` go to `build_batch` (codec, leader_epoch, producer_id, base_sequence...)."""
    if isinstance(records, int):
        records = some_records(records, base_offset=base_offset, timestamp=timestamp, key=key, value=value)
    return build_batch(records, base_offset=base_offset, **fields)


def an_idempotent_batch(
    records: int = 3, *, producer_id: int = 7, producer_epoch: int = 0, sequence: int = 0, **fields: Any
) -> bytes:
    """A batch as an idempotent producer sends it."""
    return a_batch(records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, **fields)


def writable(data: bytes) -> memoryview:
    """The bytes as a request's frame holds them: one writable view."""
    return memoryview(bytearray(data))
