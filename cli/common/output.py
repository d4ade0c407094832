"""The output of commands: tables, JSON, and a progress line on a terminal."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from sordini.cli.common.terminal import is_terminal
from sordini.protocol.printable import safe_json, shown
from sordini.replication.ports import Clock

PROGRESS_MS = 250


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns two spaces apart under their names; numbers are right-aligned, None is a dash, cells are escaped."""
    cells = [["-" if cell is None else shown(str(cell)) for cell in row] for row in rows]
    is_number = [
        bool(cells) and all(row[index].lstrip("-").isdecimal() or row[index] == "-" for row in cells)
        for index in range(len(head))
    ]
    widths = [max([len(head[index]), *(len(row[index]) for row in cells)]) for index in range(len(head))]
    lines = []
    for row in [list(head), *cells]:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        )
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def print_json(value: Any) -> None:
    """Print one JSON document, indented."""
    click.echo(safe_json(json.dumps(value, indent=2, ensure_ascii=False)).encode())


def json_line(value: Any) -> bytes:
    """One line of a stream of JSON documents."""
    return safe_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode() + b"\n"


def print_json_line(value: Any) -> None:
    """Print one line of a stream of JSON documents, at once."""
    click.echo(json_line(value), nl=False)


def bytes_in_json(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as text if they are UTF-8, otherwise as {"base64": ...}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_from_json(value: Any) -> bytes | None:
    """The reverse of `bytes_in_json`; a number or a structure becomes its JSON text. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def bytes_as_text(data: bytes | None) -> str:
    """Bytes as readable text: unprintable characters are escaped, None is `null`."""
    if data is None:
        return "null"
    return shown(data.decode(errors="backslashreplace"))


def size_text(size: int) -> str:
    """A number of bytes with 3 significant digits and a decimal unit."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


class ProgressLine:
    """One progress line on stderr, rewritten in place and only if stderr is a terminal; `clear` removes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_shown = is_terminal(sys.stderr)
        self._shown_ms = clock.monotonic_ms()
        self._width = 0

    def show(self, text: str) -> None:
        """Show the progress; does nothing if the line was written a moment ago."""
        if not self._is_shown or self._clock.monotonic_ms() - self._shown_ms < PROGRESS_MS:
            return
        self._shown_ms = self._clock.monotonic_ms()
        text = shown(text)
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def clear(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0
