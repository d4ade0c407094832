"""The Spark that a call runs on: the caller's, the program's active one, or a new one that ends with the call.

Days and hours of tables are in UTC, so a session of the caller's is in UTC while a call lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.library.failures import pipeline_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job

TIME_ZONE: Final = "spark.sql.session.timeZone"
UTC: Final = "UTC"
_STARTING: Final = threading.Lock()
_OURS: Final[dict[str, int]] = {}
"""Sessions that were started here, and how many calls use each."""
_LENDING: Final = threading.Lock()
_LENT: Final[dict[str, tuple[str, int]]] = {}
"""Sessions with calls under way: the time zone that each had before, and how many they are."""


@contextmanager
def spark_session(*jobs: Job, master: str = "", log: Path | None = None) -> Iterator[SparkSession]:
    """A Spark for these jobs, for several calls: the program's active session, or else a new one.

    A new one has the settings of the jobs' section `spark`; `master` goes before theirs. It is stopped at the end, or
    at that of the last call, in another thread, which has found it. What it writes to standard error goes to the file
    `log`, if one is given. Raises PipelineError.
    """
    from sordini.pipeline.jobs.session import check_installed, close_session, open_session

    with pipeline_errors():
        check_installed(jobs)
        with _STARTING:
            session = active_session()
            is_new = session is None
            if session is None:
                session = open_session(jobs, master, log)
            key = _key_of(session)
            is_ours = is_new or key in _OURS
            if is_ours:
                _OURS[key] = _OURS.get(key, 0) + 1
    try:
        if is_new:
            yield session
        else:
            with lent(session):
                yield session
    finally:
        if is_ours:
            with _STARTING:
                _OURS[key] -= 1
                if not _OURS[key]:
                    del _OURS[key]
                    close_session(session)


@contextmanager
def session_for(jobs: Sequence[Job], given: SparkSession | None) -> Iterator[SparkSession]:
    """The session for a call: the given one, or as `spark_session` finds it."""
    with lent(given) if given is not None else spark_session(*jobs) as session:
        yield session


def active_session() -> SparkSession | None:
    """The session that the program has started, if there is one.

    Spark has an active session for each thread, so one that another thread has started is not active in this one.
    """
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    started: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    if active is not None or started is None or started._sc._jsc is None:  # noqa: SLF001 - PySpark tells it nowhere else.
        return active
    return started


@contextmanager
def lent(session: SparkSession) -> Iterator[SparkSession]:
    """A session of the caller's with the source `sordini`, in UTC as long as this lasts.

    A session beside it (`newSession`) would leave its settings alone, but finds no Python data source.
    """
    from sordini.pipeline.source import register

    register(session)
    with _LENDING:
        key = _key_of(session)
        before, calls = _LENT.get(key) or (session.conf.get(TIME_ZONE) or UTC, 0)
        _LENT[key] = before, calls + 1
        if before != UTC:
            session.conf.set(TIME_ZONE, UTC)
    try:
        yield session
    finally:
        with _LENDING:
            before, calls = _LENT.pop(key)
            if calls > 1:
                _LENT[key] = before, calls - 1
            elif before != UTC:
                session.conf.set(TIME_ZONE, before)


def _key_of(session: SparkSession) -> str:
    """What several objects of PySpark's for one session have in common."""
    if is_remote(session):
        return str(session.session_id)  # type: ignore[attr-defined]  # Of Spark Connect's.
    return str(session._jsparkSession.hashCode())  # noqa: SLF001 - PySpark has no name for it.


def is_remote(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check(job: Job, *, spark: SparkSession | None = None) -> None:
    """Check what only Spark can: the transform and the SQL of aggregates. Nothing is read or written.

    What a job says by itself was checked when it was made. Raises JobFileError, and PipelineError without Java.
    """
    from sordini.pipeline.jobs.spark_checks import check_transform, plan

    with pipeline_errors():
        check_transform(job)
    if not job.transform and not job.aggregates:
        return
    with session_for([job], spark) as session:
        plan(job, session)


@contextmanager
def ready(jobs: Sequence[Job], given: SparkSession | None, *, query: str = "") -> Iterator[SparkSession]:
    """A session for jobs that were checked in full: what needs no Spark first, then what Spark analyses.

    `query` is the name of a call that runs streaming queries: Spark Connect would call our function for each batch in
    another process, where neither the gate of a stop nor the caller's functions are.

    Raises PipelineError, also for what fails while the session is used.
    """
    from sordini.pipeline.jobs.spark_checks import plan

    with pipeline_errors():
        check_before_spark(jobs)
        with session_for(jobs, given) as session:
            if query and is_remote(session):
                raise PipelineError(
                    f"`{query}` needs a session in the program's own process, and this one is of Spark Connect: "
                    "`load` works with it"
                )
            for job in jobs:
                plan(job, session)
            yield session


def check_before_spark(jobs: Sequence[Job]) -> None:
    """Check transforms, brokers and topics, before anything that takes long. Raises PipelineError."""
    from sordini.pipeline.jobs.source_topics import SourceTopics
    from sordini.pipeline.jobs.spark_checks import check_transform
    from sordini.pipeline.jobs.store_checks import check_stores

    for job in jobs:
        check_stores(job)
        check_transform(job)
    for job in jobs:
        SourceTopics.of(job).check()
