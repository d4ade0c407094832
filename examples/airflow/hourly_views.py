"""A DAG of Airflow 3: every hour it loads a topic into a table, audits the table and merges its small files.

Put the file into Airflow's folder of DAGs, and install Sordini with the extra `spark` beside Airflow, with Java 17. The
variable VIEWS_JOB names the job file. Where the pins of both do not go together, give each task the Python of an
environment of its own: `@task.external_python(python="/opt/sordini/bin/python")`. Nothing else changes: tasks import
what they use, and return plain values.

A task that fails is repeated, and continues where the table ends: no row is lost or written twice. `max_active_runs=1`
is for the log only: two runs of one job exclude each other.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task

JOB = os.environ.get("VIEWS_JOB", "views.yaml")
AGAIN = {"retries": 2, "retry_delay": timedelta(minutes=1)}


@dag(schedule="@hourly", start_date=datetime(2026, 11, 22, tzinfo=UTC), catchup=False, max_active_runs=1)
def hourly_views() -> None:
    @task(**AGAIN)
    def load_views(job_file: str) -> dict[str, int]:
        from sordini.pipeline import Job, load

        done = load(Job.from_file(job_file), on_notice=print)
        return {"rows": done.rows, "dead_letters": done.dead_letters, "batches": done.batches_written}

    @task
    def audit_views(job_file: str, loaded: dict[str, int]) -> int:
        from sordini.pipeline import Job, audit

        windows = audit(Job.from_file(job_file))
        wrong = [window for window in windows if window.difference or window.twice]
        if wrong:
            raise ValueError(f"{len(wrong)} windows differ from what was sent, first {wrong[0]} ({loaded})")
        return len(windows)

    @task(**AGAIN)
    def compact_views(job_file: str, windows: int) -> dict[str, int]:
        from sordini.pipeline import Job, compact

        tables = compact(Job.from_file(job_file), clean_up=True)
        return {"windows": windows, "files_before": sum(one.files_before for one in tables),
                "files_after": sum(one.files_after for one in tables)}  # fmt: skip

    compact_views(JOB, audit_views(JOB, load_views(JOB)))


views = hourly_views()
