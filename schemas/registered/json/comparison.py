"""Whether a JSON schema permits all that an earlier one permits. Pure.

The rules are those of Confluent Platform's "JSON Schema compatibility rules", strict: what a schema leaves open may
have been written. Where they say nothing, what JSON Schema itself says decides, and what cannot be decided is refused.

Schemas may refer to themselves. A pair of shapes that is being compared is taken to be compatible inside itself, so
that what is found compatible may rest on a pair that is not. So the comparison is repeated, with the pairs that were
found incompatible, until no more are. Faults found under an assumption stay: fewer inside never make more outside.
"""

from __future__ import annotations

from typing import Final

from sordini.schemas.registered.json.array_rules import array_faults
from sordini.schemas.registered.json.combination_rules import combination_faults
from sordini.schemas.registered.json.faults import Fault
from sordini.schemas.registered.json.model import Shape
from sordini.schemas.registered.json.object_rules import object_faults
from sordini.schemas.registered.json.scalar_rules import keyword_faults
from sordini.schemas.registered.json_text import write_json

COMPARISONS_MAX: Final = 50_000
"""Pairs of shapes that a comparison visits in all its passes: combinations compare each with each."""
FAULTS_MAX: Final = 1_000
PAIRS_DEPTH_MAX: Final = 120
"""Pairs inside each other; each takes some frames of Python's stack."""

_Pair = tuple[int, int]
_Found = dict[_Pair, list[Fault]]


class TooManyComparisons(Exception):
    """The schemas are too large to be compared."""


def json_faults(old: Shape, new: Shape) -> list[Fault]:
    """Empty: all that `old` permits, `new` permits."""
    known: _Found = {}
    comparisons = 0
    try:
        while True:
            comparison = _Comparison(known, comparisons)
            found = comparison.faults(old, new)
            incompatible = comparison.incompatible()
            if found or not comparison.is_assuming or incompatible.keys() == known.keys():
                return found
            known, comparisons = incompatible, comparison.comparisons
    except (TooManyComparisons, RecursionError):
        return [Fault("TOO_LARGE", ())]


class _Comparison:
    """One pass over both schemas; `known` has the pairs that passes before have found incompatible."""

    def __init__(self, known: _Found, comparisons: int) -> None:
        self._known = known
        self._found: _Found = {}
        self._open: set[_Pair] = set()
        self.is_assuming = False
        self.comparisons = comparisons

    def incompatible(self) -> _Found:
        return {pair: faults for pair, faults in self._found.items() if faults}

    def faults(self, old: Shape, new: Shape) -> list[Fault]:
        old, new = old.target, new.target
        pair = id(old), id(new)
        if pair in self._found:
            return self._found[pair]
        if pair in self._open:
            self.is_assuming = True
            return self._known.get(pair, [])
        self.comparisons += 1
        if self.comparisons > COMPARISONS_MAX or len(self._open) > PAIRS_DEPTH_MAX:
            raise TooManyComparisons
        self._open.add(pair)
        self._found[pair] = self._of_pair(old, new)[:FAULTS_MAX]
        self._open.remove(pair)
        return self._found[pair]

    def _of_pair(self, old: Shape, new: Shape) -> list[Fault]:
        if old.kind == "false" or new.kind == "true":
            return []
        if "combined" in {old.kind, new.kind}:
            return combination_faults(old, new, self.faults)
        if old.kind != new.kind:
            return [Fault("TYPE_CHANGED", ())]
        found = keyword_faults(old, new)
        if new.is_strict and not old.is_strict:
            found.append(Fault("TYPE_NARROWED", ()))
        if old.kind == "object":
            found += object_faults(old, new, self.faults)
        elif old.kind == "array":
            found += array_faults(old, new, self.faults)
        else:
            found += self._of_other(old, new)
        return found

    def _of_other(self, old: Shape, new: Shape) -> list[Fault]:
        if old.kind == "enum":
            return _enum_faults(old, new)
        if old.kind == "const":
            return [] if old.text == new.text else [Fault("ENUM_ARRAY_CHANGED", ("const",))]
        if old.kind == "not":  # What is excluded may shrink.
            return [Fault("NOT_TYPE_EXTENDED", ("not",))] if self.faults(new.inner[0], old.inner[0]) else []
        if old.kind == "conditional" and old.text != new.text:
            return [Fault("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ("if",))]
        return []


def _enum_faults(old: Shape, new: Shape) -> list[Fault]:
    before, after = (set(_texts(shape)) for shape in (old, new))
    if before <= after:
        return []
    return [Fault("ENUM_ARRAY_NARROWED" if after <= before else "ENUM_ARRAY_CHANGED", ("enum",))]


def _texts(shape: Shape) -> list[str]:
    return [write_json(value, is_sorted=True) for value in shape.keywords["enum"]]
