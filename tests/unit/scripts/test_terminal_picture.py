"""The picture of README.md shows a run of the test that the pages have today."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from scripts.terminal_picture import COLOURS, COMMANDS, PICTURE, TEST, TEXT, Span, picture, spans

ROOT = Path(__file__).resolve().parents[3]


def lines_of(svg: str) -> list[str]:
    """The text of a picture, line by line."""
    found: dict[int, str] = {}
    for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        line = int(text.attrib["y"])
        found[line] = found.get(line, "") + (text.text or "")
    return [found[line] for line in sorted(found)]


def test_the_picture_and_the_readme_have_the_test_of_the_testing_page_and_it_passed() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (test,) = re.findall(rf"^```python {re.escape(TEST)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert f"```python\n{test}```\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    first, *shown = lines_of(PICTURE.read_text(encoding="utf-8"))
    second = shown.index(f"$ {COMMANDS[1]}")
    assert first == f"$ {COMMANDS[0]}"
    assert shown[:second] == [line for line in test.splitlines() if line]
    assert re.fullmatch(r"=+ 1 passed in \d+\.\d\ds =+", shown[-1])


def test_colours_and_bold_text_of_a_terminal_are_drawn_and_other_codes_are_left_out() -> None:
    line = "plain \x1b[32m\x1b[1m1 passed\x1b[0m\x1b[36m in 1s\x1b[39;49m\x1b[m end  "
    assert list(spans(line)) == [
        Span("plain ", TEXT, is_bold=False),
        Span("1 passed", COLOURS[32], is_bold=True),
        Span(" in 1s", COLOURS[36], is_bold=False),
        Span(" end", TEXT, is_bold=False),
    ]


def test_markup_in_a_line_is_text_in_the_picture() -> None:
    svg = picture([[Span("a < b && <b>", TEXT, is_bold=False)], [], [Span("end", TEXT, is_bold=True)]])
    assert lines_of(svg) == ["a < b && <b>", "end"]
