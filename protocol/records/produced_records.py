"""One partition's records of a Produce request, before they are stored: which checks their format needs.

The usual case is one version 2 batch that is stored unchanged: `produce_validation` checks it. Message formats 0 and 1,
sent or stored, are handled in `legacy_validation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, read_header
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules, check_batch, invalid, too_large
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget

if TYPE_CHECKING:
    from sordini.protocol.records.legacy_validation import LegacyMessages

_FIRST_VERSION_OF_BATCHES = 3
_NEWEST_VERSION = 13
"""From this Produce version on a record set is exactly one version 2 batch."""


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
            return check_batch(records, header, rules, now_ms, produce_version, budget)
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
    check = check_batch if rules.magic == CURRENT_MAGIC else legacy_validation.check_batch
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
        return check_batch(records, header, rules, now_ms, _NEWEST_VERSION, UNBOUNDED)  # It has to be rewritten.
    if header.size > rules.message_bytes_max:
        raise too_large(header.size, rules)
    return CheckedBatches(records, [(0, header)])
