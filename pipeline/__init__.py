"""The data pipeline on Spark: from topic to table, exactly once. Nothing of the broker's process imports it.

    from sordini.pipeline import Job, load

    done = load(Job.from_file("views.yaml"))
    print(done.rows, done.dead_letters)

`source/` reads topics into Arrow, `schemas/` makes columns of values, `tables/` commits batches, `jobs/` runs what a
job file describes, `library/` is how programs call jobs, `cli/` how people do. It may import `client` and `protocol`,
and of `cli` what commands share. A batch that is in a table has its dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordini.pipeline.errors import PipelineError
    from sordini.pipeline.jobs.audit import AuditRow
    from sordini.pipeline.jobs.batch_writer import Batch
    from sordini.pipeline.jobs.compact import CompactedTable
    from sordini.pipeline.jobs.job import Aggregate, Job, JobFileError
    from sordini.pipeline.jobs.load import Step
    from sordini.pipeline.jobs.status import PartitionProgress
    from sordini.pipeline.library.explanation import Explanation, explain
    from sordini.pipeline.library.results import Result
    from sordini.pipeline.library.sessions import check, spark_session
    from sordini.pipeline.library.tables import DeadLetter, audit, compact, dead_letters, rows, status
    from sordini.pipeline.library.writing import aggregate, backfill, close_windows, load, stream

__all__ = [
    "Aggregate",
    "AuditRow",
    "Batch",
    "CompactedTable",
    "DeadLetter",
    "Explanation",
    "Job",
    "JobFileError",
    "PartitionProgress",
    "PipelineError",
    "Result",
    "Step",
    "aggregate",
    "audit",
    "backfill",
    "check",
    "close_windows",
    "compact",
    "dead_letters",
    "explain",
    "load",
    "rows",
    "spark_session",
    "status",
    "stream",
]

_WHERE = {
    "Aggregate": "jobs.job",
    "AuditRow": "jobs.audit",
    "Batch": "jobs.batch_writer",
    "CompactedTable": "jobs.compact",
    "DeadLetter": "library.tables",
    "Explanation": "library.explanation",
    "Job": "jobs.job",
    "JobFileError": "jobs.job",
    "PartitionProgress": "jobs.status",
    "PipelineError": "errors",
    "Result": "library.results",
    "Step": "jobs.load",
    "aggregate": "library.writing",
    "audit": "library.tables",
    "backfill": "library.writing",
    "check": "library.sessions",
    "close_windows": "library.writing",
    "compact": "library.tables",
    "dead_letters": "library.tables",
    "explain": "library.explanation",
    "load": "library.writing",
    "rows": "library.tables",
    "spark_session": "library.sessions",
    "status": "library.tables",
    "stream": "library.writing",
}
"""The module of each public name, below `sordini.pipeline`."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first: Spark's workers import this package for each batch of records."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
