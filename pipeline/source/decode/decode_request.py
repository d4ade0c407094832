"""The decoder's input and output."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class DecodeRequest(NamedTuple):
    """Which records of which partition, and which of their columns; can be pickled."""

    topic: str
    partition: int
    start: int
    """The first offset to decode."""
    end: int
    """The offset past the last one to decode."""
    columns: frozenset[str]
    """Of `COLUMNS`; an empty set gives batches with a number of rows and no columns."""
    read_committed: bool = False
    """Skip the records of aborted transactions. Control records are always skipped."""


class Decoded(NamedTuple):
    """The rows of some records, in the order of their offsets."""

    batch: pa.RecordBatch | None
    """None without rows: all were control records, aborted, compacted away, or outside the range."""
    next_offset: int
    """The next offset to fetch, at most `end`: past all that was processed, with or without rows."""
