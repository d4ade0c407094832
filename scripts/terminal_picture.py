"""docs/first-test.svg, the picture of README.md: a terminal in which the first test of docs/testing.md is run.

    .venv/bin/python scripts/terminal_picture.py [FILE]

The commands are run for real, in a folder with that test alone; what the picture shows is what they have printed, with
their colours. The prompt is drawn.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing.md"
PICTURE = ROOT / "docs" / "first-test.svg"
TEST = "test_lost_answers.py"
COMMANDS = (f"cat {TEST}", f"pytest --verbose --no-header {TEST}")

LINE_PX, CHARACTER_PX, EDGE_PX, BAR_PX, FONT_PX = 19, 8.43, 16, 30, 14
BACKGROUND, BAR, TEXT, PROMPT = "#16181d", "#24272e", "#d7dae0", "#6cb6ff"
COLOURS = {31: "#f47067", 32: "#6bc46d", 33: "#daaa3f", 34: "#6cb6ff", 35: "#dcbdfb", 36: "#56d4dd", 37: TEXT}
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
_PROGRESS_COLUMNS = 92
"""The width that pytest is given: its lines fill it."""


class Span(NamedTuple):
    """Characters of one colour."""

    text: str
    colour: str
    is_bold: bool


def main(arguments: list[str]) -> int:
    lines: list[list[Span]] = []
    with tempfile.TemporaryDirectory() as folder:
        block = re.compile(rf"^```python {re.escape(TEST)}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
        found = block.search(PAGE.read_text(encoding="utf-8"))
        assert found is not None, f"{PAGE} has no {TEST}"
        Path(folder, TEST).write_text(found[1], encoding="utf-8")
        for command in COMMANDS:
            lines.append([Span("$ ", PROMPT, is_bold=True), Span(command, TEXT, is_bold=True)])
            lines += [list(spans(line)) for line in run(command, Path(folder)).splitlines()]
    Path(arguments[0] if arguments else PICTURE).write_text(picture(lines), encoding="utf-8")
    return 0


def run(command: str, folder: Path) -> str:
    """What a command prints, coloured. One that fails ends the program with it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "FORCE_COLOR": "1", "COLUMNS": str(_PROGRESS_COLUMNS)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # It warns of a setting that is not there; who installs what the page names does not have it.
    environment["PYTEST_ADDOPTS"] = "-p no:asyncio"
    done = subprocess.run(  # noqa: S603
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def spans(line: str) -> Iterator[Span]:
    """A line by its colours, of which the standard ones and bold are drawn."""
    colour, is_bold = TEXT, False
    for index, part in enumerate(_ESCAPE.split(line.rstrip())):
        if index % 2 == 0:
            if part:
                yield Span(part, colour, is_bold)
            continue
        for code in map(int, filter(None, (part or "0").split(";"))):
            if code == 0:
                colour, is_bold = TEXT, False
            elif code == 1:
                is_bold = True
            else:
                colour = COLOURS.get(code, colour)


def picture(lines: list[list[Span]]) -> str:
    """The SVG. Every span is placed by its column: a reader's font may have other widths."""
    columns = max(sum(len(span.text) for span in line) for line in lines)
    width = round(columns * CHARACTER_PX + 2 * EDGE_PX)
    height = BAR_PX + len(lines) * LINE_PX + 2 * EDGE_PX
    dots = "".join(
        f'<circle cx="{EDGE_PX + 4 + index * 18}" cy="{BAR_PX / 2:g}" r="5" fill="{colour}"/>'
        for index, colour in enumerate((COLOURS[31], COLOURS[33], COLOURS[32]))
    )
    drawn = "\n".join(row for number, line in enumerate(lines) if (row := drawn_line(line, number)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<title>{html.escape('; '.join(COMMANDS))}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<path d="M0 {BAR_PX}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{BAR_PX - 8}z" fill="{BAR}"/>{dots}\n'
        f'<g font-family="ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace" font-size="{FONT_PX}" '
        f'xml:space="preserve">\n{drawn}\n</g>\n</svg>\n'
    )


def drawn_line(line: list[Span], number: int) -> str:
    y = BAR_PX + EDGE_PX + number * LINE_PX + FONT_PX
    drawn, column = "", 0
    for span in line:
        x = round(EDGE_PX + column * CHARACTER_PX, 2)
        length = round(len(span.text) * CHARACTER_PX, 2)
        weight = ' font-weight="bold"' if span.is_bold else ""
        drawn += (
            f'<text x="{x:g}" y="{y}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs" '
            f'fill="{span.colour}"{weight}>'
            f"{html.escape(span.text, quote=False)}</text>"
        )
        column += len(span.text)
    return drawn


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
