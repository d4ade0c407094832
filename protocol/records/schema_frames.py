"""Schema ids in values: the five bytes in front of a value that registries' serializers write. Pure.

0  magic byte  int8   0
1  schema id   int32  big-endian
5  the value as its schema encodes it
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from sordini.protocol.records.batch import CURRENT_MAGIC, read_header
from sordini.protocol.records.legacy import corrupt, entries, message_header, read_any
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple

FRAME_BYTES: Final = 5
LISTED_MAX: Final = 1_000
"""Records that are listed for each id, and without one; all are counted."""
_MAGIC: Final = 0
_FRAME: Final = struct.Struct(">bi")


class Listed(NamedTuple):
    """Records by their index in the request's record set."""

    first: list[int]
    """At most LISTED_MAX of them."""
    total: int


class Frames(NamedTuple):
    """The ids in one record set."""

    ids: dict[int, Listed]
    unframed: Listed
    """Records whose value is neither null nor begins with an id."""


def frames_in(records: memoryview, expanded_bytes_max: int, budget: WorkBudget = UNBOUNDED) -> Frames:
    """The schema ids of a record set of any format. Null values have none, and are not listed.

    Raises BrokerError for records that cannot be read, and BudgetExceeded.
    """
    found: dict[int, tuple[list[int], int]] = {}
    wrong: list[int] = []
    wrong_count = 0
    for index, value in values_in(records, expanded_bytes_max, budget):
        schema_id = schema_id_of(value)
        if schema_id is None:
            wrong_count += 1
            if wrong_count <= LISTED_MAX:
                wrong.append(index)
        else:
            listed, count = found.get(schema_id) or ([], 0)
            if count < LISTED_MAX:
                listed.append(index)
            found[schema_id] = listed, count + 1
    return Frames({key: Listed(*one) for key, one in found.items()}, Listed(wrong, wrong_count))


def values_in(
    records: memoryview, expanded_bytes_max: int, budget: WorkBudget = UNBOUNDED
) -> Iterator[tuple[int, bytes]]:
    """The values of a record set of any format that are not null, with the index of their record.

    Raises BrokerError for records that cannot be read, and BudgetExceeded.
    """
    index = 0
    for entry in entries(records):
        data = records[entry.position : entry.position + entry.size]
        header = read_header(data) if entry.magic == CURRENT_MAGIC else message_header(data, 0, len(data))
        if header is None:
            raise corrupt("a message that is none")
        # Charged before the records are made: each costs 20 bytes at least, or is in an expanded body that is charged.
        budget.spend(RECORD_STEPS * max(header.record_count, 1))
        for record in read_any(data, header, expanded_bytes_max, budget):
            if record.value is not None:
                yield index, record.value
            index += 1


def schema_id_of(value: bytes) -> int | None:
    """The id that a value begins with; None if it does not begin with one."""
    if len(value) < FRAME_BYTES:
        return None
    magic, schema_id = _FRAME.unpack_from(value)
    return schema_id if magic == _MAGIC else None
