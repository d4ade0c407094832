"""The schema of a job: that of its file, or the columns of a subject's versions in the registry, as they are now.

A job without a schema follows its subject while it runs: before each batch new versions are requested of the registry,
whose new columns are added and whose wider kinds are taken. The columns of older versions stay, as the log has records
of them. A registry that does not answer leaves the columns as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sordini.cli.common.settings_tree import near_to
from sordini.pipeline.changes.envelope import AFTER, Envelope
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.row_columns import TIMES, WITHOUT_TIME
from sordini.pipeline.jobs.state_folder import StateFolder, job_state
from sordini.pipeline.schemas.registered import RegisteredSchemas
from sordini.pipeline.tables.object_storage import NOWHERE, ObjectStorage, store_of

if TYPE_CHECKING:
    from sordini.pipeline.jobs.job import Job
    from sordini.pipeline.schemas.fields import Schema


@dataclass(frozen=True)
class StateOf:
    """Opens a job's state, in Spark's workers too."""

    location: str
    storage: ObjectStorage = field(default=NOWHERE, hash=False)

    def __call__(self) -> StateFolder:
        return StateFolder(self.location, self.storage)


def registered_of(job: Job) -> RegisteredSchemas:
    """Where the job's schemas of ids come from. Raises PipelineError if a provider of keys fails."""
    how = job.decode
    # Keys are requested on the driver only.
    kept = StateOf(job.state, job.storage.resolved() if store_of(job.state) else NOWHERE)
    registry = how.registry
    if registry is not None:
        of_values = () if registry.subject else tuple(f"{topic}-value" for topic in job.source.topics)
        of_keys = tuple(f"{topic}-key" for topic in job.source.topics) if job.sink and job.sink.upsert else ()
        registry = replace(registry, read_subjects=of_values + of_keys)
    return RegisteredSchemas(tuple(how.schemas.items()), registry, kept)


def schema_now(job: Job) -> Schema:
    """The schema of the next batch. Raises PipelineError: the registry never answered, or has no such subject."""
    how = job.decode
    if how.schema is not None:
        return how.schema
    assert how.registry is not None, "the job file was checked"
    from sordini.pipeline.schemas.kept_schemas import KeptSchemas
    from sordini.pipeline.schemas.registered_columns import schema_of_versions, without_times

    subject = how.registry.subject or _subject(job)
    versions = KeptSchemas(how.registry, job_state(job)).versions(subject)
    schema = schema_of_versions(subject, versions, "" if how.changes is Envelope.NONE else AFTER)
    if job.sink is not None and job.sink.kind.value in WITHOUT_TIME:
        schema = without_times(schema, versions[-1].type)
    schema.check_record_columns(how.record)
    check_columns(job, schema, subject)
    return schema


def check_columns(job: Job, schema: Schema, subject: str) -> None:
    """What a job file says of columns, which no check could know before. Raises PipelineError."""
    names = [field.name for field in schema.fields]
    for name in job.decode.columns:
        if name in names:
            raise PipelineError(f"job {job.name}: decode.columns has {name}, and so have the schemas of {subject}")
    upsert = job.sink.upsert if job.sink and not job.transform else None
    kept = (f"{job.decode.record_prefix}{name}" for name in job.decode.keep)
    times = (name for name in (job.sink.partition_by if job.sink else ()) if name in TIMES)
    known = {name.lower() for name in (*names, *job.decode.columns, *job.decode.record, *kept, *times)}
    for what, wanted in (("keys", upsert.keys), ("sequence", upsert.sequence)) if upsert else ():
        for name in wanted:
            if name.lower() not in known:
                raise PipelineError(
                    f"job {job.name}: sink.{what} has {name!r}, and the schemas of {subject} have no such column; they "
                    f"have {', '.join(names)}{near_to(name, names)}"
                )


def _subject(job: Job) -> str:
    if len(job.source.topics) != 1:
        raise PipelineError(
            f"job {job.name} reads several topics, so decode.registry.subject says whose columns are the table's: or "
            "decode.schema has them"
        )
    return f"{job.source.topics[0]}-value"
