"""Compaction for formats without one of their own: which files are merged, and how their rows are copied."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sordini.pipeline.tables.staging import Staged, StagingPlan, write

SMALL_SHARE = 0.75
"""A file of this share of the target or more is not rewritten: that would gain little."""


class Small(NamedTuple):
    """A file that may be merged with others of its `partition`."""

    path: str
    bytes: int
    partition: Hashable


def bins(files: Iterable[Small], target_bytes: int) -> list[list[Small]]:
    """Files to merge, each list into one file of about `target_bytes`; in their order, within partitions."""
    done: list[list[Small]] = []
    filling: dict[Hashable, list[Small]] = {}
    for file in files:
        if file.bytes >= target_bytes * SMALL_SHARE:
            continue
        group = filling.setdefault(file.partition, [])
        if group and sum(each.bytes for each in group) + file.bytes > target_bytes:
            done.append(group)
            group = filling[file.partition] = []
        group.append(file)
    done.extend(filling.values())
    return [group for group in done if len(group) > 1]


def rewrite(batches: Iterable[pa.RecordBatch], plan: StagingPlan) -> list[Staged]:
    """Write the rows of one bin, into one file."""
    whole = replace(plan.settings, file_bytes=2**62)
    return list(write(batches, replace(plan, settings=whole)))


def parquet_rows(paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of files, one after the other, a piece at a time."""
    for path in paths:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches()
