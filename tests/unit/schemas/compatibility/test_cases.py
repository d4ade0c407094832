"""Which schemas may follow which: the tables in `cases/`, each case from the published rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from sordini.schemas.registered.compatibility import incompatibilities
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import Level, ParsedSchema, SchemaSource, SchemaType

FOLDER = Path(__file__).parent / "cases"
KIND = re.compile(r"errorType:['\"](\w+)['\"]")
CASES_MIN = 300


class Case(NamedTuple):
    """One of a table; `backward` and `forward` are `yes`, or kinds of faults."""

    type: SchemaType
    source: str
    name: str
    old: str
    new: str
    backward: str
    forward: str


def read_cases(kind: SchemaType) -> Iterator[Case]:
    source, found = "", dict[str, str]()
    for line in (FOLDER / f"{kind.value.lower()}.txt").read_text().splitlines():
        if line.startswith("== "):
            source = line.removeprefix("== ")
        elif line.startswith("- "):
            found = {"name": line.removeprefix("- ")}
        elif line.startswith("  "):
            part, _, text = line.strip().partition(" ")
            found[part] = text
            if part == "forward":
                yield Case(kind, source, **found)


CASES = [case for kind in SchemaType for case in read_cases(kind)]


@cache
def parsed(kind: SchemaType, text: str) -> ParsedSchema:
    return parse(SchemaSource(kind, text, (), {}))


def answer(level: Level, new: ParsedSchema, old: ParsedSchema) -> str:
    found = incompatibilities(level, new, [old])
    kinds = [match.group(1) for match in map(KIND.search, found) if match]
    if not kinds and any("matches multiple fields" in one for one in found):
        return "AMBIGUOUS"
    return " ".join(kinds) if found else "yes"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.type.value.lower()}: {case.name}")
def test_a_schema_may_follow_another_as_the_published_rules_say(case: Case) -> None:
    old, new = parsed(case.type, case.old), parsed(case.type, case.new)
    assert answer(Level.BACKWARD, new, old) == case.backward
    assert answer(Level.FORWARD, new, old) == case.forward
    assert (answer(Level.FULL, new, old) == "yes") == (case.backward == case.forward == "yes")


def test_there_are_as_many_cases_as_promised_each_with_a_source_and_a_name_of_its_own() -> None:
    assert len(CASES) >= CASES_MIN
    assert all(case.source for case in CASES)
    assert len({(case.type, case.name) for case in CASES}) == len(CASES)
    for verdict in ("yes", ""):
        assert sum(case.backward.startswith(verdict) for case in CASES) > CASES_MIN // 4
