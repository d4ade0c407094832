"""What is asked of the decoder, and what it gives back."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class DecodeRequest(NamedTuple):
    """Which records of which partition, and which of their columns; can be pickled."""

    topic: str
    partition: int
    start: int
    """The first offset that is wanted."""
    end: int
    """The first offset that is not wanted any more."""
    columns: frozenset[str]
    """Of `COLUMNS`; none at all gives batches that have a number of rows and no column."""
    read_committed: bool = False
    """Leave out the records of aborted transactions. Control records are never given."""


class Aborted(NamedTuple):
    """One aborted transaction, as a Fetch response of isolation level read_committed lists it."""

    producer_id: int
    first_offset: int


class Decoded(NamedTuple):
    """The rows of some records, in the order of their offsets."""

    batch: pa.RecordBatch | None
    """None where there are no rows: all were control records, aborted, compacted away, or not wanted."""
    next_offset: int
    """Where to fetch on, at most the end that is wanted: past all that was looked at, whether it gave rows or not."""
