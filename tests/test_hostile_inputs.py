"""docs/hostile-inputs.md stays true: every test it names is there, and every row names one or says what it waits for."""

from __future__ import annotations

import re
from pathlib import Path

from tests.side_by_side.brokers import OURS, THEIRS
from tests.side_by_side.catalogue import CASES
from tests.test_documents import names_in

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "hostile-inputs.md"

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def tables() -> list[list[list[str]]]:
    """The page's tables: their rows of cells, the first being the head."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" |")])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def rows() -> list[list[str]]:
    return [row for head, _, *rest in tables() if head[0] == "what comes" for row in rest]


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


def test_the_figures_have_every_attack_on_both_brokers() -> None:
    [table] = [rest for head, _, *rest in tables() if head[0] == "attack"]
    assert [(row[0], row[1]) for row in table] == [(case.cell, name) for case in CASES for name in (OURS, THEIRS)]
