"""The tables of docs/security.md stay true: the tests they name exist, and say what the table says."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from sordini.broker.configuration.config import SETTINGS
from sordini.protocol.errors import ErrorCode
from tests.reference.bounds import ABOUT_NO_PEER, BOUNDS, Bound
from tests.test_documents import names_in

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "security.md"
CLASSES = 16
SOUNDS_LIKE_A_BOUND = ("max", "limit", "queued", "slots", "size")

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_CODE = re.compile(r"\b[A-Z]{3,}(?:_[A-Z]+)+\b")


def classes() -> list[list[str]]:
    _, _, table = PAGE.read_text(encoding="utf-8").partition("| published as |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def source_of(test: str) -> str:
    """The test with its decorators, and the helpers of its module that it names."""
    path, _, name = test.partition("::")
    text = text_of(path)
    functions = {
        node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found = [functions[name]]
    found += [
        functions[inner.id] for inner in ast.walk(found[0]) if isinstance(inner, ast.Name) and inner.id in functions
    ]
    return "\n".join(ast.unparse(function) for function in found)


def test_every_test_that_is_named_is_there() -> None:
    named = _TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 80
    assert [f"{path}::{name}" for path, name in named if name not in names_in(ROOT / path)] == []


def test_every_class_of_vulnerabilities_has_its_rule_and_its_test() -> None:
    rows = classes()
    assert len(rows) == CLASSES
    assert [row[0] for row in rows if len(row) != 4 or not _TEST.search(row[3])] == []
    assert [row[0] for row in rows if not re.fullmatch(r"CVE-\d{4}-\d{4,}(, CVE-\d{4}-\d{4,})*", row[0])] == []


def test_every_key_that_sounds_like_a_bound_is_in_the_table_of_bounds_or_known_to_be_none() -> None:
    listed = {bound.name for bound in BOUNDS if bound.is_key}
    sounding = {key for key in SETTINGS if any(word in key for word in SOUNDS_LIKE_A_BOUND)}
    assert sounding - listed - ABOUT_NO_PEER == set()
    assert ABOUT_NO_PEER - sounding == set()
    assert ABOUT_NO_PEER & listed == set()


def test_a_code_that_answers_what_is_beyond_a_bound_is_one_that_its_tests_look_for() -> None:
    assert [bound.name for bound in BOUNDS if (codes := codes_of(bound)) and not codes <= looked_for(bound)] == []


def codes_of(bound: Bound) -> set[str]:
    codes = set(_CODE.findall(bound.beyond))
    assert codes <= set(ErrorCode.__members__)
    return codes


def looked_for(bound: Bound) -> set[str]:
    return set(_CODE.findall("\n".join(map(source_of, bound.tests))))
