"""`doctor`: what is wrong with a table, or costs its readers and writers time, with one sentence of advice each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.cli.common.output import size_text
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.compact import tables
from sordini.pipeline.jobs.load_pieces import last_noted_batch
from sordini.pipeline.jobs.missing_rows import IDENTITY
from sordini.pipeline.jobs.offset_gaps import Gap, SeenOffsets, lost, seen_in
from sordini.pipeline.jobs.source_topics import Offsets, SourceTopics
from sordini.pipeline.jobs.state_folder import job_state
from sordini.pipeline.jobs.upkeep import UpkeepSettings
from sordini.pipeline.tables import Table, open_table
from sordini.pipeline.tables.local_files import local_path
from sordini.pipeline.tables.table import LostPosition

if TYPE_CHECKING:
    from sordini.pipeline.jobs.job import Job, Sink
    from sordini.pipeline.tables.health import TableHealth

SMALL_MAX: Final = 200
VERSIONS_MAX: Final[Mapping[str, int]] = {"delta": 5_000, "iceberg": 150}
DELETES_MAX: Final = 200
SHOWN_MAX: Final = 3


class Finding(NamedTuple):
    """One thing that needs attention."""

    what: str
    """missing, gaps, repeated, orphaned, small_files, delete_files, versions, dead_letters or writers."""
    text: str
    advice: str


@dataclass(frozen=True)
class TableReport:
    """One table. `gaps` are offsets that the topic has and the table lacks; without a job file, all that it lacks."""

    health: TableHealth
    gaps: tuple[Gap, ...] = ()
    repeated: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    is_compared: bool = False
    """Whether the gaps are those of the topic, too."""
    has_transform: bool = False

    def findings(self) -> list[Finding]:
        """What needs attention, the worst first."""
        return [*_losses(self), *_costs(self)]


def of_job(job: Job) -> Iterator[TableReport]:
    """Every existing table of a job; the topic is read where the rows have gaps. Raises PipelineError."""
    sinks = tables(job)
    opened = [(sink, open_sink_table(sink, name)) for sink, name in sinks]
    letters = next((table for sink, table in opened if sink is job.dead_letters), None)
    for sink, table in opened:
        health = table.health(sink.upkeep.target_bytes)
        if health is None:
            _check_never_written(job, sink)
            continue
        if sink is job.dead_letters:
            yield TableReport(health, dead_letters=_by_reason(table, health))
        elif sink is job.sink and _is_comparable(health, job.decode.record.identity):
            seen = seen_in(table.batches(job.decode.record.identity))
            dead = _seen(letters)
            gaps = list(seen.gaps(dead, _position(table)))
            begins = SourceTopics.of(job).extent()[0] if gaps else {}
            found = tuple(lost(job, gaps, begins)) if gaps else ()
            more = 0 if job.transform else seen.repeated()
            yield TableReport(health, found, more, is_compared=True, has_transform=bool(job.transform))
        else:
            yield TableReport(health)


def _check_never_written(job: Job, sink: Sink) -> None:
    """That a table which does not exist is not one that is gone. Raises PipelineError."""
    noted = last_noted_batch(job_state(job)) if sink is job.sink else None
    if noted is not None:
        raise PipelineError(
            f"there is no table at {sink.location}, and job {job.name} has written batch {noted[0]} into it: restore "
            "it from a copy, or start the job, which loads what the topic has"
        )


def of_table(location: str) -> Iterator[TableReport]:
    """A table in a folder, and that of its dead letters beside it. Raises PipelineError if there is none."""
    found = _in_folder(location)
    if found is None:
        raise PipelineError(
            f"{location} is neither a job file nor the folder of a Delta or Iceberg table; tables elsewhere are named "
            "by their job file"
        )
    beside = _in_folder(f"{location.rstrip('/')}-dead")
    target = UpkeepSettings().target_bytes
    health = found.health(target)
    assert health is not None, "it was found"
    gaps: tuple[Gap, ...] = ()
    repeated = 0
    if _is_comparable(health):
        seen = seen_in(found.batches(IDENTITY))
        gaps, repeated = tuple(seen.gaps(_seen(beside))), seen.repeated()
    yield TableReport(health, gaps, repeated)
    if beside is not None and (letters := beside.health(target)) is not None:
        yield TableReport(letters, dead_letters=_by_reason(beside, letters))


def _in_folder(location: str) -> Table | None:
    folder = local_path(location)
    if folder is None:
        return None
    marks = {"delta": "_delta_log", "iceberg": "catalog.db"}
    kind = next((kind for kind, mark in marks.items() if Path(folder, mark).exists()), None)
    return None if kind is None else open_table(kind, str(folder), app_id="doctor")


def _is_comparable(health: TableHealth, identity: tuple[str, ...] = IDENTITY) -> bool:
    """Whether each row has the position of its record, and can be read. A table of upserts has the newest rows only."""
    return not health.missing and not health.keys and set(identity) <= set(health.columns)


def _position(table: Table) -> Offsets:
    """Up to where all records are in the table; empty if it has lost that."""
    try:
        last = table.last()
    except LostPosition:
        return {}
    return last[1] if last else {}


def _seen(letters: Table | None) -> SeenOffsets:
    if letters is None or letters.schema() is None:
        return SeenOffsets()
    return seen_in(letters.batches(IDENTITY))


def _by_reason(table: Table, health: TableHealth) -> dict[str, int]:
    if health.missing or "reason" not in health.columns:
        return {}
    counted: Counter[str] = Counter()
    for batch in table.batches(("reason",)):
        counted.update(text or "" for text in batch.column(0).to_pylist())
    return dict(counted.most_common())


def _losses(report: TableReport) -> Iterator[Finding]:
    health = report.health
    if health.missing:
        yield Finding(
            "missing",
            f"{_count(len(health.missing), 'file')} of the table {_are(len(health.missing))} gone: "
            f"{_some(health.missing)}",
            "Restore them from a copy, or roll the table back to a version before them; readers fail until then.",
        )
    if report.gaps:
        records = sum(gap.end - gap.start for gap in report.gaps)
        where = "in the topic and not in the table" if report.is_compared else "missing between the first and last row"
        advice = "`sordini pipeline backfill JOB` writes what is missing."
        if report.has_transform:
            advice = "The transform may have left them out; if not, `sordini pipeline backfill JOB` writes them."
        elif not report.is_compared:
            advice = "Name the job file instead of the table, to compare them with the topic."
        yield Finding("gaps", f"{_count(records, 'offset')} {_are(records)} {where}: {_some(report.gaps)}", advice)
    if report.repeated:
        yield Finding(
            "repeated",
            f"{_count(report.repeated, 'row')} {_are(report.repeated)} of a record that another row is of",
            "Another program has copied rows, or a job of another name has loaded the topic into this table again.",
        )
    if health.columns and not health.writers:
        yield Finding(
            "writers",
            "the table has no note of a writer",
            "No job of Sordini has written it; if one has, `sordini pipeline resume JOB` restores its position.",
        )
    if report.dead_letters:
        total = sum(report.dead_letters.values())
        reasons = "; ".join(f"{count:,} x {reason}" for reason, count in list(report.dead_letters.items())[:SHOWN_MAX])
        yield Finding(
            "dead_letters",
            f"{_count(total, 'record')} could not be decoded: {reasons}",
            "Correct the schema, and `sordini pipeline backfill JOB` makes rows of those that fit then.",
        )


def _costs(report: TableReport) -> Iterator[Finding]:
    health = report.health
    if health.orphaned:
        yield Finding(
            "orphaned",
            f"{_count(len(health.orphaned), 'file')} ({size_text(health.orphaned_bytes)}) "
            f"{_are(len(health.orphaned))} of no version of the table: {_some(health.orphaned)}",
            "`sordini pipeline compact JOB --clean-up` deletes those that Sordini has written, and no others.",
        )
    if health.small_files > SMALL_MAX:
        yield Finding(
            "small_files",
            f"{health.small_files:,} of {health.files:,} files are small, which slows readers and each batch",
            "`sordini pipeline compact JOB` merges them; `sink.upkeep.small_files_max` keeps their number small.",
        )
    if health.delete_files > DELETES_MAX:
        yield Finding(
            "delete_files",
            f"readers apply {health.delete_files:,} delete files to the rows",
            "`sordini pipeline compact JOB` rewrites the files without the deleted rows.",
        )
    if health.versions > VERSIONS_MAX[health.kind]:
        yield Finding(
            "versions",
            f"{health.versions:,} versions can be read, and each batch reads or lists all of them",
            "A smaller `sink.upkeep.versions_max` drops the older ones, if nothing reads the table as it was.",
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _some(things: tuple[object, ...]) -> str:
    shown = ", ".join(map(str, things[:SHOWN_MAX]))
    return f"{shown} and {len(things) - SHOWN_MAX:,} more" if len(things) > SHOWN_MAX else shown
