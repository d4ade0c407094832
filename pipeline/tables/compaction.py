"""Compaction where a format's library has none, or none that clusters: which files, and the copy of their rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from sordini.pipeline.tables.clustering import clustered
from sordini.pipeline.tables.columns import aligned
from sordini.pipeline.tables.staging import Staged, StagingPlan, write

SMALL_SHARE = 0.75
"""A file of this share of the target or more is not rewritten: that would gain little."""


class Small(NamedTuple):
    """A file that may be merged with others of its `partition`."""

    path: str
    bytes: int
    partition: Hashable


def is_small(size: int, target_bytes: int) -> bool:
    """Whether compaction would merge a file of this size with others."""
    return size < target_bytes * SMALL_SHARE


def bins(files: Iterable[Small], target_bytes: int) -> list[list[Small]]:
    """Files to merge, each list into one file of about `target_bytes`; in their order, within partitions."""
    done: list[list[Small]] = []
    filling: dict[Hashable, list[Small]] = {}
    for file in files:
        if not is_small(file.bytes, target_bytes):
            continue
        group = filling.setdefault(file.partition, [])
        if group and sum(each.bytes for each in group) + file.bytes > target_bytes:
            done.append(group)
            group = filling[file.partition] = []
        group.append(file)
    done.extend(filling.values())
    return [group for group in done if len(group) > 1]


def rewrite(batches: Iterable[pa.RecordBatch], plan: StagingPlan, cluster_by: Sequence[str] = ()) -> list[Staged]:
    """Write the rows of one bin, into one file; ordered by `cluster_by`, if it names columns."""
    whole = replace(plan.settings, file_bytes=2**62)
    same = (aligned(batch, plan.schema) for batch in batches)
    return list(write(clustered(same, cluster_by), replace(plan, settings=whole)))
