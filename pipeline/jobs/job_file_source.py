"""The section `source` of a job file: topics, where to start, and the options of the reader."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import JobSource, SourceFormat
from sordini.pipeline.jobs.job_file_tree import check_by
from sordini.pipeline.jobs.source_topics import batch_options
from sordini.pipeline.source.client.settings import parse_servers
from sordini.pipeline.source.options import read_options

BOOTSTRAP: Final = "127.0.0.1:9092"
_OURS: Final = {
    "kafka.bootstrap.servers": "source.bootstrap",
    "subscribe": "source.topics",
    "subscribepattern": "source.pattern",
    "assign": "source.topics",
    "startingoffsets": "source.starting",
    "startingtimestamp": "source.starting",
    "endingoffsets": "the command",
    "maxoffsetspertrigger": "source.records_max",
    "failondataloss": "source.fail_on_data_loss",
    "commit_group": "source.commit_group",
    "includeheaders": "decode.keep",
    "columns": "decode.keep",
}
"""Options that have a setting of their own."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""A name with a comma would be two topics to the source, and one to all else."""


def source_of(section: Section, elsewhere: str) -> JobSource:
    source = JobSource(
        bootstrap=_bootstrap(section, elsewhere),
        topics=section.texts("topics"),
        pattern=section.text("pattern", ""),
        format=section.choice("format", SourceFormat.SORDINI),
        starting=section.take("starting", _starting, "earliest"),
        records_max=section.whole("records_max", JobSource.records_max),
        commit_group=section.text("commit_group", ""),
        fail_on_data_loss=section.truth("fail_on_data_loss", default=True),
        options=section.options("options"),
    )
    for topic in source.topics:
        if not _TOPIC.fullmatch(topic):
            allowed = "up to 249 letters, digits, ., _ and -"
            section.wrong("topics", f"has {topic!r}: a topic's name has {allowed}; several topics are a list, [a, b]")
    if bool(source.topics) == bool(source.pattern):
        section.wrong("topics", "or pattern: exactly one of the two is required")
    if source.pattern:
        section.take("pattern", _pattern)
    if source.commit_group and source.format is not SourceFormat.SORDINI:
        section.wrong("commit_group", "goes with the format sordini alone: Spark's own source commits nothing")
    for option in source.options:
        if option.lower() in _OURS:
            section.wrong("options", f"has {option}, which is set by {_OURS[option.lower()]}")
        if option.lower() in {"kafka.group.id", "kafka.auto.offset.reset", "kafka.enable.auto.commit"}:
            section.wrong("options", f"has {option}: positions are the job's own, in the table and its state")
    section.finish()
    try:
        parse_servers(source.bootstrap)
    except PipelineError as error:
        if elsewhere:
            raise PipelineError(f"--bootstrap, or SORDINI_BOOTSTRAP, is {elsewhere!r}: {error}") from None
        section.wrong("bootstrap", f"is {source.bootstrap!r}: {error}")
    check_by(section, source.options, lambda: read_options(batch_options(source), streaming=False))
    return source


def milliseconds_of(written: str) -> int:
    """A time in ISO 8601 in milliseconds since 1970; without a zone it is in UTC. Raises ValueError."""
    moment = datetime.fromisoformat(written)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _bootstrap(section: Section, elsewhere: str) -> str:
    written = section.text("bootstrap", BOOTSTRAP)
    return elsewhere or written


def _starting(written: str) -> str:
    return written if written in {"earliest", "latest"} else str(milliseconds_of(written))


def _pattern(written: str) -> str:
    try:
        re.compile(written)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return written
