"""Text for a terminal: data from the network cannot move the cursor, change the title or answer terminal queries.

Names, settings and error messages come from brokers; group ids, client ids and records from any client of a broker.
`echo` prints a line with every unprintable character escaped (`protocol/printable.py`). Every command prints with
these functions, which a test checks. Bytes of records go to a pipe or a file as they are.
"""

from __future__ import annotations

import sys
from typing import TextIO

import click

from sordini.protocol.printable import shown, shown_lines


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line of readable text."""
    click.echo(shown(text), err=err)


def echo_lines(text: str) -> None:
    """Print several lines. Their contents have been escaped by `shown`, as the cells of a table are."""
    click.echo(shown_lines(text))


def echo_data(text: str) -> None:
    """Print lines for programs, last line break included: unchanged, but escaped on a terminal."""
    click.echo(text if is_raw(asked=False) else shown_lines(text), nl=False)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal; None is a stream that was closed before the command began."""
    return stream is not None and stream.isatty()


def is_raw(*, asked: bool) -> bool:
    """Whether records go to standard output unescaped: it is no terminal (or closed), or --raw was given."""
    return asked or not is_terminal(sys.stdout)


raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Do not escape control characters of keys and values on a terminal. In a pipe or a file they are never "
    "escaped.",
)
