"""docs/hostile-inputs.md stays true: every test it names is there, and every row names one or says what it waits for."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_documents import names_in

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "hostile-inputs.md"

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]
    return [row for row in cells if row[0] not in ("what comes", "---")]


def test_every_test_that_is_named_is_there() -> None:
    named = _TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert named
    missing = [
        f"{path}::{name}" for path, name in named if not (ROOT / path).is_file() or name not in names_in(ROOT / path)
    ]
    assert missing == []


def test_every_row_names_a_test_or_says_that_it_is_not_served_yet() -> None:
    assert [row for row in rows() if len(row) != 3] == []
    assert [row[0] for row in rows() if not _TEST.search(row[2]) and "not served yet" not in row[1]] == []
    assert [row[0] for row in rows() if _TEST.sub("", row[2]).strip(", ")] == [], "the last column holds tests alone"
