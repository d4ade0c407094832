"""`sordini log`: dump, verify and count the files of a log directory, and repair a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sordini.cli.common.options import DONE, FAILED, USAGE, ClientCommand, ClientGroup, Failure
from sordini.cli.common.terminal import echo_lines, raw_option

if TYPE_CHECKING:
    from sordini.cli.commands.log.dump.dump import DumpOptions
    from sordini.cli.commands.log.dump.items import Item

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
def dump(context: click.Context, /, paths: tuple[str, ...], listed: str | None, **asked: object) -> None:
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
    from sordini.storage.disk import SystemDisk

    files = [*(path for path in (listed or "").split(",") if path), *paths]
    if not files:
        raise click.UsageError("name files to read")
    request = _DumpOptionsGiven(context)
    run = Dump(SystemDisk(), raw=bool(asked["raw"]))
    if asked["as_json"] or asked["layout"] == "people":
        request.refuse_with_own_text()
        run.items(files, request.item_decoder(), records=request.records, json=bool(asked["as_json"]))
    else:
        run.kafka(files, request.options())
    if run.problems:
        raise Failure(*run.problems)


class _DumpOptionsGiven:
    """The options given to one `log dump`, and what they mean in combination."""

    OF_THE_TOOL = (
        "index_sanity_check",
        "verify_index_only",
        "skip_record_metadata",
        "max_bytes",
        "max_message_size",
        "key_decoder_class",
        "value_decoder_class",
    )

    def __init__(self, context: click.Context) -> None:
        self._context = context
        self._values = context.params
        if self._values["offsets_decoder"] and self._values["transaction_log_decoder"]:
            raise click.UsageError("--offsets-decoder and --transaction-log-decoder are for different topics")

    def _is_given(self, name: str) -> bool:
        return self._context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

    def refuse_with_own_text(self) -> None:
        """Raise UsageError for options of Apache Kafka's text."""
        for name in self.OF_THE_TOOL:
            if self._is_given(name):
                option = "--" + name.replace("_", "-")
                raise click.UsageError(f"{option} does not go with --format people or --json")

    @property
    def contents(self) -> bool:
        decoders = ("offsets_decoder", "transaction_log_decoder")
        classes = ("key_decoder_class", "value_decoder_class")
        return (
            self._values["print_data"]
            or any(self._values[name] for name in decoders)
            or any(self._is_given(name) for name in classes)
        )

    @property
    def records(self) -> bool:
        return self._values["deep_iteration"] or self.contents

    def options(self) -> DumpOptions:
        """The options of Apache Kafka's text."""
        from sordini.cli.commands.log.dump import decoders
        from sordini.cli.commands.log.dump.dump import DumpOptions
        from sordini.cli.commands.log.dump.kafka_indexes import IndexOptions
        from sordini.cli.commands.log.dump.kafka_log import LogOptions

        values = self._values
        parser = decoders.parser_of(
            decoders.DECODERS[values["key_decoder_class"]],
            decoders.DECODERS[values["value_decoder_class"]],
        )
        if values["offsets_decoder"]:
            parser = decoders.offsets_parser
        elif values["transaction_log_decoder"]:
            parser = decoders.transactions_parser
        return DumpOptions(
            log=LogOptions(
                records=self.records,
                contents=self.contents,
                metadata=not values["skip_record_metadata"],
                bytes_max=values["max_bytes"],
                parser=parser,
            ),
            indexes=IndexOptions(values["index_sanity_check"], values["verify_index_only"], values["max_message_size"]),
            is_classic=values["layout"] == "classic",
        )

    def item_decoder(self) -> Callable[[Item], Item] | None:
        """The decoder of records for our own text; None shows them undecoded."""
        if self._values["offsets_decoder"]:
            from sordini.cli.commands.log.dump.group_records import decoded

            return decoded
        if self._values["transaction_log_decoder"]:
            from sordini.cli.commands.log.dump.transaction_records import decoded as decoded_transaction

            return decoded_transaction
        return None


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
    from sordini.broker.clock import SystemClock
    from sordini.cli.commands.log.verify.verification import RepairOfCopy, Verification
    from sordini.cli.common.output import print_json
    from sordini.storage.disk import SystemDisk

    if repair != (target is not None):
        raise click.UsageError("--repair and --to go together")
    if repair and len(directories) > 1:
        raise click.UsageError("one directory at a time can be repaired")
    disk = SystemDisk()
    print_line = (lambda _: None) if as_json else echo_lines
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
    from sordini.cli.commands.log.stats.stats_report import Statistics
    from sordini.cli.common.output import print_json
    from sordini.storage.disk import SystemDisk

    run = Statistics(SystemDisk(), (lambda _: None) if as_json else echo_lines)
    for path in directories:
        run.check_path(path)
    if as_json:
        print_json(run.as_json())
    else:
        run.finish()
