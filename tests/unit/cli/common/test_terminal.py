"""What may reach a terminal: printable characters, and line breaks of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.cli.common.output import json_line, table
from sordini.protocol.printable import safe_json, shown, shown_bytes, shown_lines

LAW = settings(max_examples=50, deadline=None, database=None)
CLI = Path(__file__).resolve().parents[4] / "cli"
ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Lone surrogates, too."""
OBEYED = [
    *map(chr, range(32)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u200e\u200f\u061c\u202a\u202e\u2066\u2069\u2028\u2029\udc9b",
]


@pytest.mark.parametrize("letter", OBEYED, ids=lambda letter: f"{ord(letter):x}")
def test_whatever_a_terminal_obeys_is_escaped(letter: str) -> None:
    assert shown(f"a{letter}b") == f"a{letter.encode('unicode_escape').decode()}b"
    assert shown(f"a{letter}b").isprintable()
    assert table(["NAME"], [[f"a{letter}b"]]).count("\n") == 1


def test_what_can_be_printed_stays_in_every_script() -> None:
    for text in ("orders-1 / ü ß", "заказы", "注文", "طلبات", "👍", ""):
        assert shown(text) == text


@LAW
@given(ANY_TEXT)
def test_lines_of_ours_stay_lines_and_nothing_else_does(text: str) -> None:
    lines = shown_lines(text).split("\n")
    assert len(lines) == text.count("\n") + 1
    assert all(line.isprintable() for line in lines)
    shown_lines(text).encode()


@LAW
@given(st.binary())
def test_any_bytes_are_one_printable_line(data: bytes) -> None:
    assert shown_bytes(data).decode().isprintable()


@LAW
@given(st.dictionaries(ANY_TEXT, st.lists(ANY_TEXT, max_size=2), max_size=2))
def test_safe_json_is_the_same_document_in_printable_text(value: dict[str, list[str]]) -> None:
    text = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not set(text) & set(OBEYED)
    assert json.loads(json_line(value)) == value


def test_commands_print_through_one_module() -> None:
    by_themselves = re.compile(r"\bclick\.(secho|echo)\(|\bprint\(|sys\.stdout\.write\(")
    found = {
        str(path.relative_to(CLI))
        for path in CLI.rglob("*.py")
        if by_themselves.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"__main__.py", "common/output.py", "common/terminal.py"}, (
        "an empty line, and JSON that is made safe there"
    )
