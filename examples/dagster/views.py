"""Definitions of Dagster: an asset that loads a topic into a table, a check that audits it, and an hourly schedule.

    dagster dev -f views.py

Install Sordini with the extra `spark` beside Dagster, with Java 17. The variable VIEWS_JOB names the job file. Each
materialization writes what has come since the last one; its metadata has the rows, the dead letters and the offsets.
"""

import os

import dagster

from sordini.pipeline import Job, PipelineError, audit, compact, load, status

JOB = os.environ.get("VIEWS_JOB", "views.yaml")


@dagster.asset(group_name="lake", retry_policy=dagster.RetryPolicy(max_retries=2, delay=60))
def views(context: dagster.AssetExecutionContext) -> dagster.MaterializeResult[None]:
    """The table of page views."""
    job = Job.from_file(JOB)
    try:
        done = load(job, on_step=lambda step: context.log.info("%d of %d records", step.records_done, step.records_all))
    except PipelineError as error:
        raise dagster.Failure(str(error)) from error
    return dagster.MaterializeResult(
        metadata={
            "rows": done.rows,
            "dead letters": done.dead_letters,
            "lag": sum(place.lag for place in status(job)),
            "table": dagster.MetadataValue.path(job.sink.location if job.sink else ""),
        }
    )


@dagster.asset_check(asset=views, blocking=True)
def no_row_is_missing_or_there_twice() -> dagster.AssetCheckResult:
    """The producers' counts, window by window."""
    windows = audit(Job.from_file(JOB))
    wrong = [window._asdict() for window in windows if window.difference or window.twice]
    return dagster.AssetCheckResult(passed=not wrong, metadata={"windows": len(windows), "wrong": wrong})


@dagster.op
def merge_small_files(context: dagster.OpExecutionContext) -> None:
    for table in compact(Job.from_file(JOB), clean_up=True):
        context.log.info("%s: %d files became %d", table.table, table.files_before, table.files_after)


@dagster.job
def upkeep() -> None:
    merge_small_files()


definitions = dagster.Definitions(
    assets=[views],
    asset_checks=[no_row_is_missing_or_there_twice],
    jobs=[upkeep],
    schedules=[
        dagster.ScheduleDefinition(name="hourly", cron_schedule="5 * * * *", target=[views]),
        dagster.ScheduleDefinition(name="nightly", cron_schedule="30 3 * * *", job=upkeep),
    ],
)
