"""Checks that the object stores of a job answer, before anything is begun in them."""

from __future__ import annotations

from sordini.pipeline.jobs.job import Job, SinkKind
from sordini.pipeline.tables.store_client import check_store


def check_stores(job: Job) -> None:
    """Ask each store for one name at each place of the job. Raises StoreError, which names the place."""
    sinks = [sink for sink in (job.sink, job.dead_letters, *(one.sink for one in job.aggregates)) if sink is not None]
    places = [sink.location for sink in sinks if sink.kind is not SinkKind.KAFKA]
    places += [job.state, *([job.audit.counts] if job.audit else [])]
    for place in dict.fromkeys(places):
        check_store(job.storage, place)
