"""Keys and values of single records, copied out of batches of a log: for dead letters of share groups (KIP-1191)."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, read_header
from sordini.protocol.records.legacy import entries, message_header, read_any
from sordini.protocol.records.work_budget import BYTES_PER_STEP, RECORD_STEPS, UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple


class CopiedRecords(NamedTuple):
    """What was found."""

    records: dict[int, tuple[bytes | None, bytes | None]]
    """Key and value by offset."""
    end: int
    """Offsets below it have no other records; from it on nothing is known."""


def copied_records(
    batches: bytes | memoryview, offsets: Sequence[int], bytes_max: int, budget: WorkBudget = UNBOUNDED
) -> CopiedRecords:
    """The records at `offsets`, which are sorted; the first one, and more until `bytes_max` would be exceeded.

    There is none at offsets of control records, and of records that were compacted away. Raises BudgetExceeded when
    `budget` is spent, and BrokerError for damaged bytes.
    """
    view, wanted = memoryview(batches), frozenset(offsets)
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    size, end = 0, offsets[0]
    for entry in entries(view):
        batch = view[entry.position : entry.position + entry.size]
        header = read_header(batch) if entry.magic == CURRENT_MAGIC else message_header(batch, 0, len(batch))
        if header is None or end > offsets[-1]:
            break
        if not header.is_control and _has_any(header, offsets):
            budget.spend(max(header.record_count, 1) * RECORD_STEPS + header.size // BYTES_PER_STEP)
            for record in read_any(batch, header, budget=budget):
                if record.offset not in wanted:
                    continue
                size += len(record.key or b"") + len(record.value or b"")
                if found and size > bytes_max:
                    return CopiedRecords(found, record.offset)
                found[record.offset] = record.key, record.value
        end = max(end, header.next_offset)
    return CopiedRecords(found, end)


def _has_any(header: BatchHeader, offsets: Sequence[int]) -> bool:
    return any(header.base_offset <= offset < header.next_offset for offset in offsets)
