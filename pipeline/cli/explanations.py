"""`--explain`: what a run would do, printed before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sordini.cli.common.output import print_json, table

if TYPE_CHECKING:
    from sordini.pipeline.jobs.job import Job
    from sordini.pipeline.library.explanation import Command, Explanation

PARTITIONS_SHOWN = 20
"""Of a job with more, their number and sum are printed; --json has all."""

explain_option = click.option(
    "--explain", "explained", is_flag=True, help="Print what a run would do, and end; needs no Spark."
)


def print_explanations(jobs: Sequence[Job], command: Command, *, as_json: bool, offline: bool = False) -> None:
    """Print the plan of each job. Raises PipelineError."""
    from sordini.pipeline.library.explanation import explain

    found = [explain(job, command, offline=offline) for job in jobs]
    if as_json:
        print_json([one.to_json() for one in found])
        return
    click.echo("\n\n".join(_text_of(one) for one in found))


def _text_of(plan: Explanation) -> str:
    parts = {
        "source": plan.source,
        "position": plan.position or f"not known: {plan.offsets_unknown}",
        "batches": plan.batches,
        "decode": plan.decode,
        "rows": plan.rows,
        "sink": plan.sink,
        "dead letters": plan.dead_letters,
    }
    lines = [f"{plan.job}: {plan.command}", *(f"  {name:<13} {said}" for name, said in parts.items())]
    lines += [f"  {'notice':<13} {one}" for one in plan.notices]
    lines += ["  committed for each batch, in this order:"]
    lines += [f"    {number}. {one}" for number, one in enumerate(plan.commits, 1)]
    if plan.offsets_unknown:
        return "\n".join(lines)
    lines.append(f"  to be read now: at most {plan.records_max:,} records of {len(plan.ranges):,} partitions")
    if len(plan.ranges) <= PARTITIONS_SHOWN:
        rows = [[*one, one.records_max] for one in plan.ranges]
        shown = table(["TOPIC", "PARTITION", "FROM", "UP TO", "RECORDS"], rows)
        lines += [f"    {line}" for line in shown.splitlines()]
    return "\n".join(lines)
