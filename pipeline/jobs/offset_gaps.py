"""Finds offsets that a table lacks after its first row of a partition, up to the last or the table's position, and
whether the topic has them.

An offset without a row can be right: it is a dead letter's, a marker's of a transaction, or that of a record that the
topic has lost by compaction. So the gaps are read again from the topic: what it has there is missing in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sordini.pipeline.jobs.job import Job
from sordini.pipeline.jobs.source_topics import Offsets, batch_options
from sordini.pipeline.source.batch_planning import Range
from sordini.pipeline.source.options import read_options
from sordini.pipeline.source.range_reader import RangePartition, read_piece

READS_MAX: Final = 1000
"""Ranges that are read from the topic; with more gaps a range has several, and the records between them."""

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

    def gaps(self, others: SeenOffsets, position: Offsets | None = None) -> Iterator[Gap]:
        """What is missing from the first offset up to the last one or the position, among the others too."""
        for (topic, number), found in sorted(self._ranges.items()):
            ours = _merged(found)
            first, last = ours[0, 0], max(ours[-1, 1], (position or {}).get(topic, {}).get(number, 0))
            merged = _merged([*found, *others._ranges.get((topic, number), [])])
            starts = [*merged[1:, 0].tolist(), last]
            for start, end in zip(merged[:, 1].tolist(), starts, strict=True):
                if first < end and start < min(end, last):
                    yield Gap(topic, number, start, min(end, last))

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


def lost(job: Job, gaps: list[Gap], begins: Offsets, reads_max: int = READS_MAX) -> list[Gap]:
    """The offsets of records that the topic has in these gaps; one `Gap` for each run. Raises the client's errors."""
    options = read_options(batch_options(job.source), streaming=False)
    found: list[Gap] = []
    for group in grouped(gaps, reads_max):
        (topic, number, start, _), end = group[0], group[-1].end
        start = max(start, begins.get(topic, {}).get(number, end))
        if start >= end:
            continue
        piece = RangePartition(Range(topic, number, start, end), "")
        edges = np.array([(gap.start, gap.end) for gap in group], np.int64)
        offsets = [_inside(batch.column("offset").to_numpy(), edges) for batch in read_piece(options, piece)]
        if inside := [each for each in offsets if len(each)]:
            runs = _merged([_ranges(np.concatenate(inside))]).tolist()
            found += [Gap(topic, number, first, last) for first, last in runs]
    return found


def grouped(gaps: Iterable[Gap], most: int) -> list[list[Gap]]:
    """The gaps of each partition in order, in about so many groups at most, with the widest spaces between them."""
    ordered = sorted(gaps)
    spaces = [after.start - gap.end for gap, after in pairwise(ordered) if gap[:2] == after[:2]]
    narrowest = sorted(spaces, reverse=True)[most - 1] if len(spaces) >= most else 0
    groups: list[list[Gap]] = []
    for gap in ordered:
        before = groups[-1][-1] if groups else None
        if before is not None and before[:2] == gap[:2] and gap.start - before.end <= narrowest:
            groups[-1].append(gap)
        else:
            groups.append([gap])
    return groups


def _inside(offsets: Numbers, edges: Numbers) -> Numbers:
    """The offsets that are in one of the ranges, which are in order."""
    at = np.searchsorted(edges[:, 0], offsets, side="right") - 1
    found: Numbers = offsets[(at >= 0) & (offsets < edges[at, 1])]
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
