"""Batches that are decoded together.

What numpy and Arrow cost for each call is so paid once for thousands of records instead of for each batch of a
producer. Where anything in a piece is wrong, its batches are read one by one to find out which and what.
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
"""Of one column, and of the buffer it is taken from: Arrow's binary type, which is Spark's, counts in 32 bits."""


class DecodePiece:
    """Batches of format 2, or messages of the old formats, never both."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        """Past all that was added, and all that was left out on the way."""
        self.opened: list[ExpandedBatch] = []
        self.old: list[OldRow] = []
        self.size = 0

    def holds_other_formats_than(self, batch: Batch) -> bool:
        return bool(self.opened if batch.header.magic != CURRENT_MAGIC else self.old)

    def pass_to(self, next_offset: int) -> None:
        """Offsets never go back: old wrappers and batches that were fetched again may say so."""
        self.next_offset = max(self.next_offset, next_offset)

    def add(self, opened: ExpandedBatch) -> None:
        if opened.header.record_count:
            self.opened.append(opened)
            self.size += len(opened.body)

    def add_old(self, rows: list[OldRow], size: int) -> None:
        self.old += rows
        self.size += size


class Read(NamedTuple):
    """Records of a piece that have been read: their fields, and the buffer in which these lie."""

    buffer: Bytes
    fields: Fields


def read(records: memoryview, opened: list[ExpandedBatch]) -> Read | None:
    """Read all records of some batches at once; None where any of them is wrong."""
    buffer, bodies = _laid_out(records, opened)
    starts = find_starts(buffer, bodies)
    if starts is None:
        return None
    fields = read_fields(buffer, bodies, [one.header for one in opened], starts)
    return None if fields is None else Read(buffer, fields)


def _laid_out(records: memoryview, opened: list[ExpandedBatch]) -> tuple[Bytes, list[Body]]:
    """One buffer that has all records, and where in it those of each batch are.

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
