"""Text for a terminal: what came over the wire cannot move its cursor, change its title or answer in its place.

Names, settings and error messages come from brokers, and group ids, client ids and records from whoever can reach one.
`shown` escapes every character that is not printable: C0, DEL and C1, line breaks and tabs among them, bidirectional
overrides, zero-width characters and lone surrogates. `echo` prints a line through it; every command prints with these
functions, and a test holds them to that. Bytes of records go to a pipe or a file as they are.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

import click

_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
"""What JSON lets stand in a string and a terminal obeys, or no encoding can hold."""


def shown(text: str) -> str:
    """One line of printable characters: the others are escaped as in Python, `\\x1b` or `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def shown_lines(text: str) -> str:
    """As `shown`, of text whose line breaks are ours."""
    return "\n".join(map(shown, text.split("\n")))


def shown_bytes(data: bytes) -> bytes:
    """One line of printable UTF-8; what is not UTF-8 is escaped byte by byte."""
    return shown(data.decode(errors="backslashreplace")).encode()


def safe_json(text: str) -> str:
    """A JSON document with the same values, in which nothing is left that a terminal obeys."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print one line for people."""
    click.echo(shown(text), err=err)


def echo_lines(text: str) -> None:
    """Print lines whose breaks are ours: what stands in them went through `shown`, as the cells of a table do."""
    click.echo(shown_lines(text))


def echo_data(text: str) -> None:
    """Print lines for programs, with their last line break: as they are, but escaped on a terminal."""
    click.echo(text if is_raw(asked=False) else shown_lines(text), nl=False)


def is_seen(stream: TextIO | None) -> bool:
    """Whether people are at the other end; a stream that was closed before the command began is None."""
    return stream is not None and stream.isatty()


def is_raw(*, asked: bool) -> bool:
    """Whether records go to standard output as they are: it is no terminal (or closed), or --raw was given."""
    return asked or not is_seen(sys.stdout)


raw_option = click.option(
    "--raw",
    is_flag=True,
    help="Print keys and values to a terminal as they are, control characters and all. Into a pipe or a file they "
    "always go so.",
)
