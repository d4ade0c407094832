"""Text for a terminal: data from the network cannot move the cursor, change the title or answer terminal queries.

Names, settings and error messages come from brokers; group ids, client ids and records from any client of a broker.
`echo` prints a line with every unprintable character escaped (`protocol/printable.py`). Every command prints with
these functions, which a test checks. Bytes of records go to a pipe or a file as they are.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterable
from typing import Final, TextIO

import click

from sordini.protocol.printable import shown, shown_lines

COLOURS: Final = {"wrong": "31;1", "ok": "32", "note": "33", "faint": "2", "name": "1"}
"""The kinds of text that are coloured, and how (SGR)."""


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line of readable text."""
    click.echo(shown(text), err=err)


def echo_lines(text: str) -> None:
    """Print several lines. Their contents have been escaped by `shown`, as the cells of a table are."""
    click.echo(shown_lines(text))


def echo_data(text: str) -> None:
    """Print lines for programs, last line break included: unchanged, but escaped on a terminal."""
    click.echo(text if is_raw(asked=False) else shown_lines(text), nl=False)


def echo_spans(spans: Iterable[tuple[str, str]]) -> None:
    """Print one line of texts with their kinds, each escaped; in COLOURS on a terminal that has them."""
    has_colours = has_colour(sys.stdout)
    parts = ((shown(text), COLOURS.get(kind, "") if has_colours else "") for text, kind in spans)
    click.echo("".join(f"\x1b[{code}m{text}\x1b[0m" if code else text for text, code in parts))


def has_colour(stream: TextIO | None) -> bool:
    """Whether text to a stream is coloured: on a terminal, unless NO_COLOR is set (no-color.org) or it is dumb."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal; None is a stream that was closed before the command began."""
    return stream is not None and stream.isatty()


def check_reader() -> None:
    """Raises BrokenPipeError where standard output is a pipe whose reader has ended, as a write would.

    For commands that wait for something to print: without it they wait on, as `sordini consume | head -1` would.
    """
    try:
        descriptor = -1 if sys.stdout is None else sys.stdout.fileno()
    except io.UnsupportedOperation:
        return
    if descriptor < 0:
        return
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def is_raw(*, asked: bool) -> bool:
    """Whether records go to standard output unescaped: it is no terminal (or closed), or --raw was given."""
    return asked or not is_terminal(sys.stdout)


raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Do not escape control characters of keys and values on a terminal. In a pipe or a file they are never "
    "escaped.",
)


_TOP_LEFT: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_CLEAR: Final = "\x1b[2J"


class ScreenText:
    """Text that is shown again and again: in place on a terminal, otherwise one after another."""

    def __init__(self) -> None:
        self._is_terminal = is_terminal(sys.stdout)
        self._is_first = True

    @property
    def rows(self) -> int | None:
        """The height of the terminal; None without one."""
        return _size()[1] if self._is_terminal else None

    def show(self, text: str) -> None:
        """Show lines whose contents have been escaped. Lines of a terminal end at its edge."""
        if not self._is_terminal:
            click.echo(("" if self._is_first else "\n") + shown_lines(text))
        else:
            columns, rows = _size()
            # Each line is cleared behind its text and not before: a screen that is cleared first flickers.
            lines = [line[:columns] + _CLEAR_LINE for line in shown_lines(text).split("\n")[: rows - 1]]
            clear = _CLEAR if self._is_first else ""
            click.echo(f"{clear}{_TOP_LEFT}" + "\n".join(lines) + _CLEAR_BELOW)
        sys.stdout.flush()
        self._is_first = False


def _size() -> tuple[int, int]:
    """Columns and rows of the terminal; one that does not know its size has 80 and 24."""
    found = os.get_terminal_size(sys.stdout.fileno())  # `shutil` imports too much for a start.
    return found.columns or 80, found.lines or 24
