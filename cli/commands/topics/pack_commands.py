"""`sordini topics pack` and `describe-pack`: records of topics in a file, as test data."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection
from sordini.cli.commands.completion.names import topic_names
from sordini.cli.common.argument_types import INSTANT, PARTITIONS
from sordini.cli.common.options import Client, ClientCommand, client_options, json_option
from sordini.cli.common.output import print_json, size_text, table
from sordini.cli.common.terminal import echo, echo_lines
from sordini.protocol.printable import counted
from sordini.protocol.records.compression import GZIP, NO_CODEC, ZSTD

if TYPE_CHECKING:
    from sordini.packs.pack_reader import Pack

CODECS = {"gzip": GZIP, "none": NO_CODEC, "zstd": ZSTD}


@click.command(cls=ClientCommand)
@click.argument(
    "wanted",
    metavar="TOPIC[:PARTITIONS]...",
    type=PARTITIONS,
    nargs=-1,
    required=True,
    shell_complete=topic_names,
)
@click.option("--output", "-o", metavar="FILE", required=True, help="The file to write.")
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
@click.option("--from-offset", metavar="OFFSET", type=click.IntRange(min=0), help="Of the first record.")
@click.option(
    "--from-time",
    "from_ms",
    metavar="TIME",
    type=INSTANT,
    help="Begin at the first record from this time on: ISO 8601 (UTC unless it names a zone), or milliseconds "
    "since 1970.",
)
@click.option("--to-offset", metavar="OFFSET", type=click.IntRange(min=0), help="End before this offset.")
@click.option("--to-time", "to_ms", metavar="TIME", type=INSTANT, help="End before the first record from this time on.")
@click.option(
    "--max-records", "-n", metavar="COUNT", type=click.IntRange(min=1), help="At most so many of each partition."
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether records of aborted and open transactions are left out.",
)
@click.option(
    "--mask",
    metavar="MODULE:CALLABLE",
    help="A Python function that is given each record (a sordini.testing.KitRecord), and returns the one to write, or "
    "None to leave it out. The module may be in the current directory.",
)
@click.option(
    "--compression",
    type=click.Choice(list(CODECS)),
    default="gzip",
    show_default=True,
    help="Of the records in the file. Every client can read gzip; with none, equal records give equal bytes under "
    "every release of the libraries.",
)
@client_options
def pack(
    client: Client,
    wanted: tuple[PartitionSelection, ...],
    *,
    output: str,
    force: bool,
    from_offset: int | None,
    from_ms: int | None,
    to_offset: int | None,
    to_ms: int | None,
    max_records: int | None,
    isolation: str,
    mask: str | None,
    compression: str,
) -> None:
    """Write records of topics into one file, which the test kit loads into a test's brokers.

    What is there when the command starts is read, once. The file is complete or not there. --timeout is for each
    response, not for all.

    \b
      sordini topics pack orders --output orders.pack --mask masks:hide_names
      sordini topics pack orders:0,2-4 bills -o slice.pack --from-time 2026-11-21T18:30+01:00 --max-records 1000
    """
    from sordini.cli.commands.topics.packing import Limit, PackOptions, pack_topics, refuse_to_overwrite

    for name, offset, time_ms in (("from", from_offset, from_ms), ("to", to_offset, to_ms)):
        if offset is not None and time_ms is not None:
            raise click.UsageError(f"--{name}-offset and --{name}-time: give one of them")
    for what, first, end in (("offset", from_offset, to_offset), ("time", from_ms, to_ms)):
        if first is not None and end is not None and end <= first:
            raise click.UsageError(f"--to-{what} must be after --from-{what}")
    if not force:
        refuse_to_overwrite(output)
    options = PackOptions(
        wanted,
        Limit(from_offset, from_ms),
        Limit(to_offset, to_ms),
        max_records,
        isolation,
        mask,
        CODECS[compression],
    )
    made = asyncio.run(pack_topics(client, options, output))
    if client.as_json:
        print_json(made)
        return
    _echo_slices(made["slices"], *(["left_out"] if mask is not None else []))
    records = sum(row["records"] for row in made["slices"])
    echo(f"{counted(records, 'record')} in {output}, {size_text(made['bytes'])}")


@click.command("describe-pack", cls=ClientCommand)
@click.argument("file")
@click.option("--records", is_flag=True, help="Print the records, each as one line of JSON, as `sordini consume` does.")
@json_option
def describe_pack(file: str, *, records: bool, as_json: bool) -> None:
    """Check a file of `sordini topics pack`, and show what is in it. Needs no broker.

    \b
      sordini topics describe-pack orders.pack
      sordini topics describe-pack orders.pack --records
    """
    from sordini.packs.pack_format import PackError
    from sordini.packs.pack_reader import open_pack

    try:
        found = open_pack(file)
        if records:
            _print_records(file)
        elif as_json:
            print_json(_described(found))
        else:
            _echo_pack(found)
    except PackError as error:
        raise Failure(str(error)) from None


def _print_records(file: str) -> None:
    from sordini.cli.commands.records.line_formats import packed_line
    from sordini.packs.pack_reader import records_of

    if sys.stdout is None:
        raise Failure("there is no standard output to print records on")
    for one, record, is_log_append_time in records_of(file):
        sys.stdout.buffer.write(packed_line(one.topic, one.partition, record, is_log_append_time=is_log_append_time))


def _described(found: Pack) -> dict[str, Any]:
    return {
        "file": found.path,
        "bytes": found.size,
        "cluster_id": found.header.cluster_id,
        "isolation": found.header.isolation,
        "mask": found.header.mask,
        "topics": [{**one._asdict(), "configs": dict(one.configs)} for one in found.header.topics],
        "slices": [
            {**one._asdict(), "records": count} for one, count in zip(found.slices, found.ending.records, strict=True)
        ],
    }


def _echo_pack(found: Pack) -> None:
    header = found.header
    echo(f"Cluster    {header.cluster_id or '-'}")
    echo(f"Isolation  {header.isolation}")
    echo(f"Mask       {header.mask or '-'}")
    for topic in header.topics:
        own = "  ".join(f"{key}={value}" for key, value in topic.configs.items())
        echo(f"Topic      {topic.name}: {counted(topic.partitions, 'partition')}{'  ' if own else ''}{own}")
    echo()
    _echo_slices(_described(found)["slices"])


def _echo_slices(rows: list[dict[str, Any]], *more: str) -> None:
    head = ["TOPIC", "PARTITION", "FROM", "TO", "RECORDS", *(name.replace("_", " ").upper() for name in more)]
    columns = ["topic", "partition", "start_offset", "end_offset", "records", *more]
    echo_lines(table(head, [[row[column] for column in columns] for row in rows]))
