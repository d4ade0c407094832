"""Text for a terminal: what came over the wire cannot move its cursor, change its title or answer in its place.

Names, settings and error messages come from brokers, and group ids, client ids and records from whoever can reach one.
`echo` prints a line in which every character that is not printable is escaped (`protocol/printable.py`). Every command
prints with these functions, and a test holds them to that. Bytes of records go to a pipe or a file as they are.
"""

from __future__ import annotations

import sys
from typing import TextIO

import click

from sordini.protocol.printable import shown, shown_lines


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line for people."""
    click.echo(shown(text), err=err)


def echo_lines(text: str) -> None:
    """Print lines whose breaks are ours: what stands in them went through `shown`, as the cells of a table do."""
    click.echo(shown_lines(text))


def echo_data(text: str) -> None:
    """Print lines for programs, with their last line break: as they are, but escaped on a terminal."""
    click.echo(text if is_raw(asked=False) else shown_lines(text), nl=False)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people are at the other end; a stream that was closed before the command began is None."""
    return stream is not None and stream.isatty()


def is_raw(*, asked: bool) -> bool:
    """Whether records go to standard output as they are: it is no terminal (or closed), or --raw was given."""
    return asked or not is_terminal(sys.stdout)


raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Print keys and values to a terminal as they are, control characters and all. Into a pipe or a file they "
    "always go so.",
)
