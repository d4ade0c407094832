"""Validation of produced records before they are stored, by the rules of Apache Kafka 3.9.

The usual case is one version 2 batch that is stored unchanged: its header is checked, its CRC-32C, and when it is not
compressed its records (`record_scan.scan`). Compressed batches are not expanded unless a rule needs their records.
Message formats 0 and 1, sent or stored, are handled in `legacy_validation`. docs/record-checks.md lists the checks,
the error codes, and the differences to Apache Kafka.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sordini.protocol.crc import crc32c
from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records import compiled_reader, legacy, record_scan
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
from sordini.protocol.records.compression import NO_CODEC, ZSTD, check_beginning, compress, decompress, unknown_codec
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, WorkBudget

if TYPE_CHECKING:
    from sordini.protocol.records.legacy_validation import LegacyMessages

UNLIMITED = 2**63 - 1
_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)
_new = tuple.__new__
_FIRST_VERSION_OF_BATCHES = 3
_NEWEST_VERSION = 13
"""From this Produce version on a record set is exactly one version 2 batch."""
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


class CheckedBatches(NamedTuple):
    """Checked batches: a writable buffer, and the positions of its batches. No batch: nothing was sent."""

    buffer: memoryview
    batches: list[tuple[int, BatchHeader]]


def check_produced(
    records: memoryview, rules: ProduceRules, now_ms: int, *, produce_version: int, budget: WorkBudget = UNBOUNDED
) -> CheckedBatches | LegacyMessages:
    """Check one partition's record set of a Produce request; raises BrokerError with Apache Kafka's code.

    The result's buffer is `records` itself unless it had to be rewritten. Offsets are not assigned yet. Raises
    BudgetExceeded when `budget` is spent; `records` is then unchanged.
    """
    if len(records) >= HEADER_SIZE and rules.magic == CURRENT_MAGIC:
        header = read_header(records)
        if header.magic == CURRENT_MAGIC and header.size == len(records):
            return _check_batch(records, header, rules, now_ms, produce_version, budget)
    return _check_other(records, rules, now_ms, produce_version, budget)


def _check_other(
    records: memoryview, rules: ProduceRules, now_ms: int, produce_version: int, budget: WorkBudget
) -> CheckedBatches | LegacyMessages:
    """Check a record set that is not exactly one batch, or is not stored as one."""
    # Imported late: old formats are rare.
    from sordini.protocol.records import legacy_validation

    entries = legacy.entries(records)
    first = next(entries, None)
    if produce_version >= _FIRST_VERSION_OF_BATCHES:
        if first is None:
            raise invalid("there is no whole record batch")
        if first.magic != CURRENT_MAGIC:
            raise invalid(f"a batch of format {first.magic} in Produce version {produce_version}")
    if first is None:
        return CheckedBatches(records[:0], [])
    if first.magic != CURRENT_MAGIC:
        return legacy_validation.check_messages(records, _charged([first], entries, budget), rules, now_ms, budget)
    if next(entries, None) is not None:
        raise invalid("there is more than one record batch")
    if first.size < HEADER_SIZE:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {first.size} bytes")
    # The rest is an incomplete batch; it is dropped, as a fetch may have truncated it.
    records = records[: first.size]
    check = _check_batch if rules.magic == CURRENT_MAGIC else legacy_validation.check_batch
    return check(records, read_header(records), rules, now_ms, produce_version, budget)


def _charged(
    read: list[legacy.RecordSetEntry], rest: Iterable[legacy.RecordSetEntry], budget: WorkBudget
) -> list[legacy.RecordSetEntry]:
    for entry in rest:
        budget.spend(1)
        read.append(entry)
    return read


def accept_own_batch(batch: bytearray, rules: ProduceRules, now_ms: int) -> CheckedBatches | LegacyMessages:
    """Accept a batch that this broker has built: only its size is checked; raises BrokerError MESSAGE_TOO_LARGE."""
    header, records = read_header(batch), memoryview(batch)
    if rules.magic != CURRENT_MAGIC:
        from sordini.protocol.records import legacy_validation  # Late: old formats are rare.

        return legacy_validation.accept_own_batch(records, header, rules, now_ms)
    if rules.log_append_time or rules.codec not in (None, header.codec):
        return _check_batch(records, header, rules, now_ms, _NEWEST_VERSION, UNBOUNDED)  # It has to be rewritten.
    if header.size > rules.message_bytes_max:
        raise too_large(header.size, rules)
    return CheckedBatches(records, [(0, header)])


def invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, why)


def _check_batch(
    records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, produce_version: int, budget: WorkBudget
) -> CheckedBatches:
    """Check the one version 2 batch that fills `records`."""
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
