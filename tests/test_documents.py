"""docs/evidence/documents.md stays true: what its rows name is there, and each of the five documents has its rows."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "evidence" / "documents.md"

DOCUMENTS = {
    "000": "000_01f1afeb85ccf28b.txt",
    "001": "001_e8615247724c122d.txt",
    "002": "002_0cef31ed244898b1.txt",
    "003": "003_55895e90fe7786e1.txt",
    "004": "004_6e69026bef7c5ed3.txt",
}

_HEADING = re.compile(r"^## Document (\d{3}): .*`(\S+\.txt)`\)$", re.MULTILINE)
_ROW_NUMBER = re.compile(r"\d{3}-\d{2,}")
# A path in backticks, perhaps with what is in it (`a/b.py::C.d`) and with one case of a test (`...[case]`).
_REFERENCE = re.compile(r"`([\w./-]+/[\w.-]+\.\w+)(?:::([\w.]+))?(?:\[([^`]*)\])?`")
_POINTER = re.compile(r"(?:as|row|rows|and|against|As) (\d{3}-\d{2,})|\((\d{3}-\d{2,})\)")
# Three words that are no reference to another row.
_REASON = re.compile(r"(?:\b[A-Za-z]\S*\s+){2}[A-Za-z]\S*")
_TEST = re.compile(r"`tests/[\w/]+\.py::test_\w+(?:\[[^`]*\])?`")


class Row(NamedTuple):
    """One passage and what the page says of it."""

    number: str
    passage: str
    built: str
    shown_by: str
    differs: str

    @property
    def is_pointer(self) -> bool:
        """Whether it repeats an earlier passage and points at it."""
        return self.built.startswith("as row ")


class Reference(NamedTuple):
    """A file that is named, the name in it and the case of it, if any."""

    path: str
    name: str | None
    case: str | None


@cache
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@cache
def rows() -> tuple[Row, ...]:
    found = []
    for line in page().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" |")] if line.startswith("| ") else []
        if cells and _ROW_NUMBER.fullmatch(cells[0]):
            assert len(cells) == 5, f"{line[:80]} has {len(cells)} columns"
            found.append(Row(*cells))
    return tuple(found)


def references() -> list[Reference]:
    return [Reference(match[1], match[2], match[3]) for match in _REFERENCE.finditer(page())]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions, classes and assigned names of a module, those inside a class as `Class.name`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names |= _names_of(node)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in _names_of(inner)}
    return frozenset(names)


def _names_of(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


@cache
def cases_below(folder: Path) -> frozenset[str]:
    """What a parametrised test of that folder may be asked for: strings in its modules, and names of its data files."""
    cases = {path.stem for path in folder.rglob("*.txt")}
    for path in folder.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        cases |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str}
    return frozenset(cases)


def none_of(findings: list[str], cure: str) -> None:
    if findings:
        pytest.fail("\n".join([*findings, f"Cure: {cure} ({PAGE.relative_to(ROOT)})"]), pytrace=False)


def test_each_of_the_five_documents_has_its_rows() -> None:
    assert dict(_HEADING.findall(page())) == DOCUMENTS
    assert {row.number[:3] for row in rows()} == set(DOCUMENTS)


def test_rows_are_numbered_in_their_documents_without_a_gap() -> None:
    for document in DOCUMENTS:
        numbers = [row.number for row in rows() if row.number.startswith(document)]
        assert numbers == [f"{document}-{count:02d}" for count in range(1, len(numbers) + 1)]


def test_every_file_that_is_named_exists() -> None:
    missing = {reference.path for reference in references() if not (ROOT / reference.path).is_file()}
    none_of(sorted(missing), "follow the renaming")


def test_everything_named_in_a_file_is_really_there() -> None:
    findings = [
        f"{path}::{name}"
        for path, name, _ in references()
        if name is not None and (ROOT / path).is_file() and name not in names_in(ROOT / path)
    ]
    none_of(findings, "name what shows or builds it now")


def test_every_case_of_a_test_is_one_of_its_cases() -> None:
    findings = [
        f"{path}::{name}[{case}]"
        for path, name, case in references()
        if case is not None and case not in cases_below((ROOT / path).parent)
    ]
    none_of(findings, "name a case that is there")


def gaps_of(row: Row) -> list[str]:
    """What a row should say and does not."""
    is_clients = row.built.startswith("clients do this")
    is_replaced = row.built.startswith("replaced by")
    gaps = {
        "where it is built": not (is_clients or row.is_pointer or _REFERENCE.search(row.built)),
        "which test shows it": not (row.is_pointer or _TEST.search(row.shown_by)),
        "by which row": is_replaced and not re.match(r"replaced by rows? \d{3}-\d{2,}", row.built),
        "why it was replaced": is_replaced and not _REASON.search(row.differs),
    }
    return [gap for gap, is_one in gaps.items() if is_one]


def test_every_row_says_where_it_is_built_which_test_shows_it_and_why_it_was_replaced() -> None:
    none_of([f"{row.number} does not say {gap}" for row in rows() for gap in gaps_of(row)], "fill the row in")


_SHOWN = "`tests/test_documents.py::test_rows_point_at_rows_that_say_it_themselves`"


@pytest.mark.parametrize(
    ("row", "gaps"),
    [
        (Row("000-01", "", "clients do this", _SHOWN, ""), []),
        (Row("000-01", "", "clients do this", "none", "ZooKeeper is theirs."), ["which test shows it"]),
        (Row("000-01", "", "clients do this", "`tests/test_documents.py`", ""), ["which test shows it"]),
        (Row("000-01", "", "replaced by row 000-02: `protocol/served_apis.py`", _SHOWN, "Because it was slow."), []),
        (Row("000-01", "", "replaced by row 000-02: `protocol/served_apis.py`", _SHOWN, ""), ["why it was replaced"]),
        (
            Row("000-01", "", "replaced by row 000-02: `protocol/served_apis.py`", _SHOWN, "See 000-02."),
            ["why it was replaced"],
        ),
        (
            Row("000-01", "", "replaced by batches: `protocol/served_apis.py`", _SHOWN, "Because it was slow."),
            ["by which row"],
        ),
        (Row("000-01", "", "it is somewhere", "none", ""), ["where it is built", "which test shows it"]),
        (Row("000-01", "", "as row 000-02", "as there", ""), []),
    ],
)
def test_a_row_with_a_gap_is_refused(row: Row, gaps: list[str]) -> None:
    assert gaps_of(row) == gaps


def test_rows_point_at_rows_that_say_it_themselves() -> None:
    by_number = {row.number: row for row in rows()}
    findings = []
    for row in rows():
        for match in _POINTER.finditer(f"{row.built} {row.differs}"):
            target = by_number.get(match[1] or match[2])
            if target is None or target is row or target.is_pointer:
                findings.append(f"{row.number} points at {match[1] or match[2]}")
    none_of(findings, "point at the row with the answer")
