"""`sordini log`: dump, verify and count the files of a log directory, and repair a copy."""

from __future__ import annotations

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import DONE, FAILED, USAGE, ClientCommand, ClientGroup
from sordini.cli.common.terminal import raw_option

DECODER_NAMES = ("StringDecoder", "IntegerDecoder", "LongDecoder")


class FileCommand(ClientCommand):
    """A command that reads files and connects to no cluster."""

    exit_codes = ClientCommand.exit_codes | {
        DONE: "all files are intact",
        FAILED: "a file is damaged or cannot be read",
        USAGE: "wrong usage",
    }


class CountCommand(FileCommand):
    """A command that counts records, and skips damaged batches."""

    exit_codes = FileCommand.exit_codes | {DONE: "everything was counted", FAILED: "a directory cannot be read"}


@click.group(cls=ClientGroup)
def log() -> None:
    """Dump, verify and count the files of a log directory, and repair a copy.

    \b
      sordini log dump data/orders-0/00000000000000000000.log
      sordini log verify data
      sordini log stats data/orders-0
    """


def _decoder_name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    name = value.rpartition(".")[2]
    if name not in DECODER_NAMES:
        raise click.BadParameter(f"{value} is none of {', '.join(DECODER_NAMES)}")
    return name


@log.command(cls=FileCommand)
@click.argument("paths", metavar="[FILE...]", nargs=-1)
@click.option("--files", "listed", metavar="FILE,FILE...", help="Files separated by commas, as for kafka-dump-log.")
@click.option("--print-data-log", "--print-data", "-d", "print_data", is_flag=True, help="Also show keys and values.")
@click.option("--deep-iteration", is_flag=True, help="Show each record, without its key and value.")
@click.option("--offsets-decoder", is_flag=True, help="Decode the records of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Decode the records of __transaction_state.")
@click.option("--index-sanity-check", is_flag=True, help="Of indexes, check only what a broker checks at start-up.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with the log, and show no entries.")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["kafka", "classic", "people"]),
    default="kafka",
    show_default=True,
    help="The text of Apache Kafka 3.9.1, that of 2.0 with one line per record, or a text with readable times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document per line.")
@raw_option
@click.option("--skip-record-metadata", is_flag=True, help="Omit offsets, times and sizes of records.")
@click.option(
    "--max-bytes",
    metavar="BYTES",
    type=click.IntRange(1),
    default=2**31 - 1,
    show_default="the whole file",
    help="Read at most this much of each segment.",
)
@click.option(
    "--max-message-size",
    metavar="BYTES",
    type=click.IntRange(1),
    default=5 * 2**20,
    show_default=True,
    help="The largest batch size when an index is compared with its log.",
)
@click.option(
    "--key-decoder-class",
    metavar="CLASS",
    default="StringDecoder",
    callback=_decoder_name,
    help="StringDecoder, IntegerDecoder or LongDecoder, with or without Apache Kafka's package name.",
)
@click.option(
    "--value-decoder-class", metavar="CLASS", default="StringDecoder", callback=_decoder_name, help="As for keys."
)
@click.pass_context
def dump(context: click.Context, /, paths: tuple[str, ...], listed: str | None, **values: object) -> None:
    """Print the contents of files of a log directory, and where they are damaged.

    It reads segments (.log), their indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot), the
    checkpoints, partition.metadata and meta.properties. Options and standard output are exactly those of Apache Kafka's
    kafka-dump-log. Damage that this tool ignores, or that makes it fail, is printed to standard error. Files are only
    read. They may belong to a running broker, and then the newest batch may be incomplete.

    Of Kafka 0.7 it reads segments (.kafka), and captured fetch results if their names end in .messagesetsend or
    .multimessagesetsend. These are printed in a text of our own.

    \b
      sordini log dump data/orders-0/*
      sordini log dump --files data/orders-0/00000000000000000000.log --print-data-log
      sordini log dump data/orders-0/00000000000000000000.log --format people --print-data-log
      sordini log dump data/__consumer_offsets-7/*.log --offsets-decoder
    """
    from sordini.cli.commands.log.dump.dump import Dump
    from sordini.cli.commands.log.dump.given_options import GivenOptions
    from sordini.storage.disk import SystemDisk

    files = [*(path for path in (listed or "").split(",") if path), *paths]
    if not files:
        raise click.UsageError("name files to read")
    given = GivenOptions(context)
    run = Dump(SystemDisk(), raw=bool(values["raw"]))
    if values["as_json"] or values["layout"] == "people":
        given.refuse_with_own_text()
        run.items(files, given.item_decoder(), records=given.shows_records, json=bool(values["as_json"]))
    else:
        run.kafka(files, given.options())
    if run.problems:
        raise Failure(*run.problems)


@log.command(cls=FileCommand)
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--repair", is_flag=True, help="Repair a copy; the directory itself is only read.")
@click.option("--to", "target", metavar="DIR", help="The directory of the repaired copy, which must not exist yet.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")
def verify(directories: tuple[str, ...], *, repair: bool, target: str | None, as_json: bool) -> None:
    """Find and explain all damage in log directories, or in the directories of single partitions.

    Every batch is read: its length, CRC, format, offsets and records. Indexes, aborted transactions, producer
    snapshots, leader epochs and checkpoints are compared with the log, and leftover files are listed. Each finding says
    where it is, what it means and what a repair would do.

    With --repair a copy is made and repaired as the broker itself recovers after a crash, and the lost offsets are
    printed. A running broker's directory can be verified, although its newest data may be incomplete; it cannot be
    repaired.

    \b
      sordini log verify data
      sordini log verify data/orders-0 --json
      sordini log verify data --repair --to repaired
    """
    from sordini.cli.commands.log.files.shown_reads import ShownReads
    from sordini.cli.commands.log.verify.verification import RepairOfCopy, Verification
    from sordini.cli.common.output import print_json
    from sordini.system.clock import SystemClock

    if repair != (target is not None):
        raise click.UsageError("--repair and --to go together")
    if repair and len(directories) > 1:
        raise click.UsageError("one directory at a time can be repaired")
    with ShownReads() as disk:
        print_line = (lambda _: None) if as_json else disk.echo_lines
        run = Verification(disk, print_line)
        for path in directories:
            run.check_path(path)
        run.finish()
        answer, is_damaged = run.as_json(), run.is_damaged
        if target is not None:
            repair_of_copy = RepairOfCopy(disk, run, print_line)
            after = repair_of_copy.run(directories[0], target, SystemClock().now_ms())
            answer |= repair_of_copy.as_json(after)
            is_damaged = after.is_damaged
    if as_json:
        print_json(answer)
    if is_damaged:
        raise Failure("damage was found")


@log.command(cls=CountCommand)
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for programs.")
def stats(directories: tuple[str, ...], *, as_json: bool) -> None:
    """Print statistics of log directories, or of the directories of single partitions.

    For each segment: sizes, batches and records, bytes per record, distinct keys (exact up to 100,000, then "about",
    within a few percent), tombstones, codecs and compression ratios, first and last time. For each partition also
    producers, transactions and the density of the indexes. Every batch is read.

    \b
      sordini log stats data
      sordini log stats data/orders-0 --json
    """
    from sordini.cli.commands.log.files.shown_reads import ShownReads
    from sordini.cli.commands.log.stats.stats_report import Statistics
    from sordini.cli.common.output import print_json

    with ShownReads() as disk:
        run = Statistics(disk, (lambda _: None) if as_json else disk.echo_lines)
        for path in directories:
            run.check_path(path)
    if as_json:
        print_json(run.as_json())
    else:
        run.finish()
