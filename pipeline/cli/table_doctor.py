"""`sordini pipeline doctor`: examines tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import json_option
from sordini.cli.common.output import print_json, size_text
from sordini.pipeline.cli.options import (
    PipelineCommand,
    bootstrap_option,
    check_job_stores,
    read,
    with_error_messages,
)

if TYPE_CHECKING:
    from sordini.pipeline.jobs.table_doctor import TableReport


@click.command(cls=PipelineCommand)
@click.argument("place", metavar="TABLE|JOB")
@bootstrap_option
@json_option
@with_error_messages
def doctor(place: str, *, bootstrap: str, as_json: bool) -> None:
    """Examine the tables of a job file, or one in a folder: files, gaps, dead letters, versions. Changes nothing.

    With a job file, offsets without a row are looked for in the topic. The exit code is 1 if anything needs attention.

    \b
      sordini pipeline doctor views.yaml
      sordini pipeline doctor tables/views --json
    """
    from sordini.pipeline.jobs import table_doctor
    from sordini.pipeline.jobs.job_file_tree import TREES

    if Path(place).suffix in TREES:
        job = read(Path(place), bootstrap)
        check_job_stores(job)
        reports = table_doctor.of_job(job)
    else:
        reports = table_doctor.of_table(place)
    tables, wrong, values = 0, 0, []
    for report in reports:
        tables += 1
        wrong += len(report.findings())
        if as_json:
            values.append(_values(report))
        else:
            click.echo("\n".join(_lines(report)))
    if as_json:
        print_json(values)
    elif not wrong:
        click.echo("All is well." if tables else "There are no tables yet.")
    if wrong:
        raise Failure(f"{wrong} {'thing needs' if wrong == 1 else 'things need'} attention")


def _lines(report: TableReport) -> list[str]:
    health = report.health
    lines = [
        f"{health.location} ({health.kind})",
        f"  {health.files:,} files ({health.small_files:,} small), {size_text(health.bytes)}",
        f"  {health.delete_files:,} delete files, {health.versions:,} versions",
    ]
    lines += [f"  writer {name}: batch {note.get('batch')}" for name, note in sorted(health.writers.items())]
    for finding in report.findings():
        lines += [f"  {finding.what}: {finding.text}", f"    {finding.advice}"]
    return lines


def _values(report: TableReport) -> dict[str, Any]:
    gaps = [gap._asdict() for gap in report.gaps]
    return {
        **report.health._asdict(),
        "gaps": gaps,
        "repeated": report.repeated,
        "dead_letters": dict(report.dead_letters),
        "findings": [finding._asdict() for finding in report.findings()],
    }
