"""The rules of a topic for produced records, and the checks of one batch by them, as Apache Kafka 3.9 makes them.

Its header is checked, its CRC-32C, and when it is not compressed its records (`record_scan.scan`). Compressed batches
are not expanded unless a rule needs their records. A batch is rewritten where the topic stores another codec.
docs/evidence/record-checks.md lists the checks, the error codes, and the differences to Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Protocol

from sordini.protocol.crc import crc32c
from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records import compiled_reader, record_scan
from sordini.protocol.records.batch import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assemble_batch,
    read_header,
    read_records,
    stamp_append_time,
    stamp_max_timestamp,
)
from sordini.protocol.records.compression import NO_CODEC, ZSTD, check_beginning, compress, unknown_codec
from sordini.protocol.records.expansion import decompress
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple

UNLIMITED = 2**63 - 1
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_new = tuple.__new__
_FIRST_VERSION_OF_ZSTD = 7


class ProduceRules(NamedTuple):
    """The rules of a topic for produced records, from the configuration."""

    message_bytes_max: int
    """`max.message.bytes`: of a whole batch, as it arrives and as it is stored."""
    key_required: bool
    """The topic is compacted."""
    log_append_time: bool
    """`message.timestamp.type` is LogAppendTime: the broker's time replaces the producer's."""
    timestamp_before_ms_max: int
    timestamp_after_ms_max: int
    codec: int | None
    """`compression.type` as a codec number; None keeps the producer's."""
    codec_level: int | None
    check_compressed: bool
    """Expand compressed batches to check their records."""
    expanded_bytes_max: int
    magic: int = CURRENT_MAGIC
    """The message format that is stored: `message.format.version`, if `inter.broker.protocol.version` allows it."""
    zstd: bool = True
    """Whether brokers of `inter.broker.protocol.version` support zstd (KIP-110)."""
    check_schema_ids: bool = False
    """`sordini.schema.validate`: a value begins with a schema id that is registered for the topic."""
    decode_values: bool = False
    """`sordini.schema.validate=full`: and its schema can decode what follows."""


class CheckedBatches(NamedTuple):
    """Checked batches: a writable buffer, and the positions of its batches. No batch: nothing was sent."""

    buffer: memoryview
    batches: list[tuple[int, BatchHeader]]


def invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def check_batch(
    records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, produce_version: int, budget: WorkBudget
) -> CheckedBatches:
    """Check the one batch that fills `records`; raises BrokerError, and BudgetExceeded as `check_produced`."""
    codec = check_header(records, header, rules, produce_version)
    target = codec if rules.codec is None else rules.codec
    if codec != target:
        return _recompress(records, header, rules, now_ms, budget)
    if codec == NO_CODEC:
        body = bytes(records[HEADER_SIZE:])
        max_timestamp = check_records(body, header, rules, now_ms, budget)
    elif rules.check_compressed or rules.key_required:
        body = decompress(codec, records[HEADER_SIZE:], rules.expanded_bytes_max, budget)
        max_timestamp = check_records(body, header, rules, now_ms, budget)
    else:
        # Apache Kafka opens every one. 600 records of 100 bytes pass in 5 µs; opened they take 59 (lz4) to 366 (gzip).
        check_beginning(codec, records[HEADER_SIZE:])
        max_timestamp = header.max_timestamp
        if times_are_bounded(rules):
            _check_ends(header, rules, now_ms)
    if records.readonly:
        records = memoryview(bytearray(records))
    if rules.log_append_time:
        stamp_append_time(records, 0, now_ms)
        header = read_header(records)
    elif max_timestamp != header.max_timestamp:
        stamp_max_timestamp(records, 0, max_timestamp)
        header = read_header(records)
    return _new(CheckedBatches, (records, [(0, header)]))


def check_header(records: memoryview, header: BatchHeader, rules: ProduceRules, produce_version: int) -> int:
    """Check the header and the CRC; return the codec."""
    (base_offset, size, _, _, crc, attributes, last_delta, _, _, producer_id, epoch, sequence, count) = header
    codec = attributes & CODEC_MASK
    if codec == ZSTD:
        if produce_version < _FIRST_VERSION_OF_ZSTD:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce version {produce_version} (KIP-110)"
            )
        check_target(codec, rules)
    if base_offset != 0:
        raise invalid(f"the base offset is {base_offset}, a producer's is 0")
    if size > rules.message_bytes_max:
        raise too_large(size, rules)
    # 3.6 µs for 64 KiB, most of what a header costs.
    if crc32c(records[CHECKED_FROM:]) != crc:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC is wrong")
    if codec > ZSTD:
        raise unknown_codec(codec)
    if count <= 0 or last_delta != count - 1:
        raise invalid(f"{count} records with a last offset delta of {last_delta}")
    if attributes & CONTROL_BIT:
        raise invalid("a client may not write control batches")
    if producer_id >= 0:
        if sequence < 0 or epoch < 0:
            raise invalid(f"sequence {sequence} and epoch {epoch} of producer {producer_id}")
    elif attributes & TRANSACTIONAL_BIT:
        raise invalid("a transactional batch without a producer id")
    if attributes & LOG_APPEND_TIME_BIT:
        raise BrokerError(ErrorCode.INVALID_TIMESTAMP, "a client may not set the log append time")
    return codec


def check_target(codec: int, rules: ProduceRules) -> None:
    """Refuse to store zstd while there may be brokers that cannot read it; `codec` is the produced one."""
    if not rules.zstd and (codec if rules.codec is None else rules.codec) == ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "inter.broker.protocol.version is older than zstd")


def too_large(size: int, rules: ProduceRules) -> BrokerError:
    return BrokerError(
        ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, the topic takes {rules.message_bytes_max}"
    )


def check_records(
    body: bytes, header: BatchHeader, rules: ProduceRules, now_ms: int, budget: WorkBudget = UNBOUNDED
) -> int:
    """Check the expanded records; return the batch's true max timestamp."""
    least, greatest, has_null_key = record_scan.scan(
        body, header.record_count, want_keys=rules.key_required, budget=budget
    )
    if rules.key_required and has_null_key:
        refusal = _scan_error(body, header, ErrorCode.INVALID_RECORD, KEYLESS, budget)
        assert refusal is not None, "a record without a key was found"
        raise refusal
    least += header.base_timestamp
    greatest += header.base_timestamp
    if least < _INT64_MIN or greatest > _INT64_MAX:
        raise BrokerError(ErrorCode.INVALID_TIMESTAMP, f"timestamps from {least} to {greatest}")
    # Usually every timestamp is between the topic's bounds, which is checked without an object.
    is_inside = now_ms - rules.timestamp_before_ms_max <= least and greatest <= now_ms + rules.timestamp_after_ms_max
    if not is_inside and times_are_bounded(rules):
        times = window(rules, now_ms)
        # The range is not enough where only some records have no timestamp.
        if not times.holds(least) or not times.holds(greatest) or least <= NO_TIMESTAMP <= greatest:
            refusal = _scan_error(body, header, ErrorCode.INVALID_TIMESTAMP, times, budget)
            if refusal is not None:
                raise refusal
    return max(greatest, NO_TIMESTAMP)


def times_are_bounded(rules: ProduceRules) -> bool:
    return not rules.log_append_time and (
        rules.timestamp_before_ms_max < UNLIMITED or rules.timestamp_after_ms_max < UNLIMITED
    )


def _check_ends(header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    """Check the timestamps in the header of a batch that is not expanded."""
    times = window(rules, now_ms)
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if not times.holds(timestamp):
            raise BrokerError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is not between {times.oldest_ms} and {times.newest_ms}",
            )


class Dated(Protocol):
    """The fields of a record that these rules use."""

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> Any: ...


class Rule(Protocol):
    """A rule for each record."""

    def is_wrong(self, record: Dated) -> bool: ...

    def why(self, record: Dated) -> str:
        """Why a record is wrong."""


class _Window(NamedTuple):
    """The timestamps a topic accepts now (KIP-937), both ends included; -1 is none, and always accepted."""

    oldest_ms: int
    newest_ms: int

    def holds(self, timestamp: int) -> bool:
        return timestamp == NO_TIMESTAMP or self.oldest_ms <= timestamp <= self.newest_ms

    def is_wrong(self, record: Dated) -> bool:
        return not self.holds(record.timestamp)

    def why(self, record: Dated) -> str:
        return f"timestamp {record.timestamp} is not between {self.oldest_ms} and {self.newest_ms}"


def window(rules: ProduceRules, now_ms: int) -> _Window:
    return _Window(now_ms - rules.timestamp_before_ms_max, now_ms + rules.timestamp_after_ms_max)


class _Keyless:
    """A compacted topic accepts no record without a key."""

    def is_wrong(self, record: Dated) -> bool:
        return record.key is None

    def why(self, record: Dated) -> str:
        del record
        return "a compacted topic takes no record without a key"


KEYLESS = _Keyless()


def invalid_records_error(records: Iterable[Dated], code: ErrorCode, rule: Rule) -> RecordsRefused | None:
    """The error that lists the records that break a rule; None when there are none."""
    listed: list[tuple[int, str]] = []
    count = 0
    is_wrong = rule.is_wrong
    for index, record in enumerate(records):
        if is_wrong(record):
            count += 1
            if count <= RecordsRefused.LISTED_MAX:
                listed.append((index, rule.why(record)))
    return RecordsRefused(code, listed[0][1], listed, count) if listed else None


def _scan_error(
    body: bytes, header: BatchHeader, code: ErrorCode, rule: Rule, budget: WorkBudget
) -> RecordsRefused | None:
    """As `invalid_records_error`, for the checked, expanded records of a batch."""
    budget.spend(header.record_count * RECORD_STEPS)
    if header.record_count > record_scan.WALKED_RECORDS_MAX:
        records = compiled_reader.each(body, header.record_count, header.base_timestamp)
        if records is not None:
            # Foreign code: after any error of it our own reader decides. The names of headers need not be UTF-8, and it
            # wants them to be; it takes attributes of 0x80 or more for the begin of a longer number.
            with contextlib.suppress(Exception):
                return invalid_records_error(records, code, rule)
    plain = assemble_batch(header._replace(attributes=0), body)
    return invalid_records_error(read_records(plain, read_header(plain)), code, rule)


def _recompress(
    records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, budget: WorkBudget
) -> CheckedBatches:
    """Rewrite the batch in the topic's codec; its records are checked and copied unchanged."""
    assert rules.codec is not None
    check_target(rules.codec, rules)
    body = decompress(header.codec, records[HEADER_SIZE:], rules.expanded_bytes_max, budget)
    if rules.codec == NO_CODEC and HEADER_SIZE + len(body) > rules.message_bytes_max:
        raise too_large(HEADER_SIZE + len(body), rules)
    max_timestamp = check_records(body, header, rules, now_ms, budget)
    attributes = header.attributes & ~CODEC_MASK | rules.codec
    if rules.log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = now_ms
    header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    batch = assemble_batch(header, compress(rules.codec, body, level=rules.codec_level, budget=budget))
    return rewritten(batch, rules)


def rewritten(batch: bytearray, rules: ProduceRules) -> CheckedBatches:
    if len(batch) > rules.message_bytes_max:
        raise too_large(len(batch), rules)
    return CheckedBatches(memoryview(batch), [(0, read_header(batch))])
