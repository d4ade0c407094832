"""How many files a batch becomes: few for a small one, as many as Spark has tasks for a large one.

Each of Spark's tasks writes a file of its own, and a batch has a task for each partition of a topic: 200 partitions
made 200 files of every batch, however small. Now a task has ROWS_PER_TASK rows or more, so that a small batch is one
file and a large one keeps its parallelism.
"""

from __future__ import annotations

from typing import Final

ROWS_PER_TASK: Final = 50_000
"""A task of so many rows takes far longer than Spark takes to start one."""


def tasks_of(rows: int, files_per_batch: int = 0) -> int:
    """The number of tasks, and so of files for each value of the table's partition columns.

    `files_per_batch` is the job file's limit; 0 leaves it to the number of rows.
    """
    return files_per_batch or max(1, -(-rows // ROWS_PER_TASK))
