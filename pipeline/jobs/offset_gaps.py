"""Finds offsets that a table lacks between its first and its last row of a partition, and whether the topic has them.

An offset without a row can be right: it is a dead letter's, a marker's of a transaction, or that of a record that the
topic has lost by compaction. So the gaps are read again from the topic: what it has there is missing in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.source_topics import Offsets, batch_options
from sordini.pipeline.source.batch_planning import Range
from sordini.pipeline.source.options import read_options
from sordini.pipeline.source.range_reader import RangePartition, read_piece

GAPS_MAX: Final = 1000
"""Gaps that are compared with the topic."""

Numbers = npt.NDArray[np.int64]
Partition = tuple[str, int]


class Gap(NamedTuple):
    """Offsets from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        last = self.end - 1
        return f"{self.topic}-{self.partition}@{self.start}" + ("" if last == self.start else f"..{last}")


class SeenOffsets:
    """The offsets of each partition, as ranges: a table has few, however many rows."""

    def __init__(self) -> None:
        self._ranges: dict[Partition, list[Numbers]] = {}
        self._rows: dict[Partition, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """The columns topic, partition and offset, in this order."""
        topics = batch.column(0).dictionary_encode()
        codes = topics.indices.to_numpy(zero_copy_only=False)
        numbers, offsets = (batch.column(at).to_numpy(zero_copy_only=False) for at in (1, 2))
        for code, number in {*zip(codes.tolist(), numbers.tolist(), strict=True)}:
            chosen = offsets[(codes == code) & (numbers == number)]
            partition = (topics.dictionary[code].as_py(), number)
            self._ranges.setdefault(partition, []).append(_ranges(chosen))
            self._rows[partition] = self._rows.get(partition, 0) + len(chosen)

    def gaps(self, others: SeenOffsets) -> Iterator[Gap]:
        """What is missing between the first and the last offset, and not among the others either."""
        for (topic, number), found in sorted(self._ranges.items()):
            ours = _merged(found)
            first, last = ours[0, 0], ours[-1, 1]
            merged = _merged([*found, *others._ranges.get((topic, number), [])])
            for start, end in zip(merged[:-1, 1].tolist(), merged[1:, 0].tolist(), strict=True):
                if first < end and start < last:
                    yield Gap(topic, number, start, end)

    def repeated(self) -> int:
        """Rows beyond one for each offset."""
        distinct = sum(int((at[:, 1] - at[:, 0]).sum()) for at in map(_merged, self._ranges.values()))
        return sum(self._rows.values()) - distinct


def seen_in(batches: Iterable[pa.RecordBatch]) -> SeenOffsets:
    """The offsets of all rows."""
    seen = SeenOffsets()
    for batch in batches:
        if batch.num_rows:
            seen.add(batch)
    return seen


def lost(job: Job, gaps: list[Gap], begins: Offsets) -> list[Gap]:
    """The offsets of records that the topic has in these gaps; one `Gap` for each run. Raises the client's errors."""
    options = read_options(batch_options(job.source), streaming=False)
    found: list[Gap] = []
    for gap in gaps[:GAPS_MAX]:
        start = max(gap.start, begins.get(gap.topic, {}).get(gap.partition, gap.end))
        if start >= gap.end:
            continue
        piece = RangePartition(Range(gap.topic, gap.partition, start, gap.end), "")
        offsets = [batch.column("offset").to_numpy() for batch in read_piece(options, piece)]
        if offsets:
            runs = _merged([_ranges(np.concatenate(offsets))]).tolist()
            found += [Gap(gap.topic, gap.partition, first, end) for first, end in runs]
    return found


def _ranges(offsets: Numbers) -> Numbers:
    """Rows of (start, end), in order and apart from each other."""
    distinct = np.unique(offsets)
    breaks = np.flatnonzero(np.diff(distinct) != 1)
    starts = distinct[np.concatenate(([0], breaks + 1))]
    ends = distinct[np.concatenate((breaks, [len(distinct) - 1]))] + 1
    return np.stack([starts, ends], axis=1)


def _merged(pieces: list[Numbers]) -> Numbers:
    """The union of several; ranges that touch become one."""
    merged: list[list[int]] = []
    for start, end in sorted(np.concatenate(pieces).tolist()):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return np.array(merged, np.int64)
