"""Batches that are decoded together.

So the overhead of each numpy and Arrow call is shared by thousands of records, instead of by one producer batch. If a
piece has an error, its batches are read one by one to locate it.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from sordini.pipeline.source.decode.batch_scan import Batch
from sordini.pipeline.source.decode.expanded_batch import ExpandedBatch
from sordini.pipeline.source.decode.fields import Fields, read_fields
from sordini.pipeline.source.decode.framing import Body, find_starts
from sordini.pipeline.source.decode.old_formats import OldRow
from sordini.pipeline.source.decode.varints import Bytes
from sordini.protocol.records.batch import CURRENT_MAGIC

ARROW_BYTES_MAX: Final = 2**31 - 1
"""Of one column, and of its buffer: offsets in Arrow's binary type, which Spark uses, have 32 bits."""


class DecodePiece:
    """Batches of format 2, or messages of the old formats, never both."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        """Past all that was added or skipped."""
        self.opened: list[ExpandedBatch] = []
        self.old: list[OldRow] = []
        self.size = 0

    def holds_other_formats_than(self, batch: Batch) -> bool:
        return bool(self.opened if batch.header.magic != CURRENT_MAGIC else self.old)

    def pass_to(self, next_offset: int) -> None:
        """Move forward only: old wrappers and batches that are fetched again may have lower offsets."""
        self.next_offset = max(self.next_offset, next_offset)

    def add(self, opened: ExpandedBatch) -> None:
        if opened.header.record_count:
            self.opened.append(opened)
            self.size += len(opened.body)

    def add_old(self, rows: list[OldRow], size: int) -> None:
        self.old += rows
        self.size += size


class Read(NamedTuple):
    """The records of a piece: their fields, and the buffer with these."""

    buffer: Bytes
    fields: Fields


def read(records: memoryview, opened: list[ExpandedBatch]) -> Read | None:
    """Read all records of some batches at once; None if any of them is invalid."""
    buffer, bodies = _laid_out(records, opened)
    starts = find_starts(buffer, bodies)
    if starts is None:
        return None
    fields = read_fields(buffer, bodies, [one.header for one in opened], starts)
    return None if fields is None else Read(buffer, fields)


def _laid_out(records: memoryview, opened: list[ExpandedBatch]) -> tuple[Bytes, list[Body]]:
    """One buffer with all records, and the position of each batch's in it.

    Nothing is copied when no batch was compressed.
    """
    if all(one.position is not None for one in opened):
        buffer = np.frombuffer(records, np.uint8)
        starts = [one.position or 0 for one in opened]
    else:
        buffer = np.frombuffer(b"".join([one.body for one in opened]), np.uint8)
        starts = [0, *accumulate(len(one.body) for one in opened[:-1])]
    assert len(buffer) <= ARROW_BYTES_MAX, "positions in it have 32 bits"
    return buffer, [
        Body(start, start + len(one.body), one.header.record_count) for start, one in zip(starts, opened, strict=True)
    ]
