"""`sordini log`: look into the files of a log directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from sordini.broker.cli.options import DONE, FAILED, USAGE, ClientCommand, ClientGroup, Failure

if TYPE_CHECKING:
    from sordini.broker.cli.dumping_values import Item


class FileCommand(ClientCommand):
    """A command that reads files and no cluster."""

    exit_codes = ClientCommand.exit_codes | {
        DONE: "all files are sound",
        FAILED: "a file is damaged or cannot be read",
        USAGE: "the command was used wrongly",
    }


@click.group(cls=ClientGroup)
def log() -> None:
    """Look into the files of a log directory.

    \b
      sordini log dump data/orders-0/00000000000000000000.log
    """


@log.command(cls=FileCommand)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("--print-data", "-d", is_flag=True, help="Show the records in each batch, too.")
@click.option(
    "--offsets-decoder",
    is_flag=True,
    help="Show the records of __consumer_offsets as what they mean, with --print-data.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on each line, for programs.")
def dump(paths: tuple[str, ...], *, print_data: bool, offsets_decoder: bool, as_json: bool) -> None:
    """Show what is in files of a log directory, and where they are damaged.

    It reads segments (.log), their indexes (.index, .timeindex, .txnindex), producers' states (.snapshot), the
    checkpoints, partition.metadata and meta.properties, and checks the CRC of every batch. Files are only read,
    and may be those of a running broker: the newest batch may then be half there.

    \b
      sordini log dump data/orders-0/*
      sordini log dump data/orders-0/00000000000000000000.log --print-data
      sordini log dump data/__consumer_offsets-7/*.log --print-data --offsets-decoder
    """
    from sordini.broker.cli.dumping_values import as_json as json_of
    from sordini.broker.cli.dumping_values import as_text
    from sordini.broker.cli.output import json_line

    if offsets_decoder and not print_data:
        raise click.UsageError("--offsets-decoder is about records: give --print-data, too")
    problems = []
    for number, path in enumerate(paths):
        if not as_json:
            click.echo(f"\n{path}:" if number else f"{path}:")
        is_damaged = False
        try:
            for item in _items(path, print_data=print_data, offsets_decoder=offsets_decoder):
                is_damaged = is_damaged or item.is_damage
                click.echo(json_line(json_of(item, path)) if as_json else as_text(item), nl=not as_json)
        except Failure as failure:
            problems.append(str(failure))
        if is_damaged:
            problems.append(f"{path} is damaged")
    if problems:
        raise Failure("\nsordini: ".join(problems))


def _items(path: str, *, print_data: bool, offsets_decoder: bool) -> Iterator[Item]:
    """What is in one file. Raises Failure when it cannot be read."""
    from sordini.broker.cli.dumping import Unknown, read_file
    from sordini.storage.disk import SystemDisk

    try:
        items = read_file(SystemDisk(), path, with_records=print_data)
        yield from map(_decoder(), items) if offsets_decoder else items
    except Unknown as problem:
        raise Failure(f"{path}: {problem}") from None
    except OSError as error:
        raise Failure(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _decoder() -> Callable[[Item], Item]:
    from sordini.broker.cli.dumping_offsets import decoded

    return decoded
