"""Which JSON is a default of which type (Avro 1.12, "Complex Types": the table of defaults). Pure.

As with Avro for Java: a union takes a default of any of its branches, and neither symbols nor sizes are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sordini.schemas.registered.avro.model import Array, Definition, Map, Named, Node, Union
from sordini.schemas.registered.types import InvalidSchema

_WIDTHS: Final = {"int": 31, "long": 63}
CHECKS_MAX: Final = 200_000
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")


class Defaults:
    """Checks the defaults of one schema. A pair of type and value is checked once: unions of records multiply."""

    def __init__(self, names: Mapping[str, Definition]) -> None:
        self._names = names
        self._known: dict[tuple[int, int], bool] = {}

    def fits(self, schema: Node, value: Any) -> bool:
        """Values are parts of a default that stays until all checks are done. Raises InvalidSchema beyond the bound."""
        if isinstance(schema, Named):
            schema = self._names[schema.name.full]
        pair = id(schema), id(value)
        if pair not in self._known:
            if len(self._known) >= CHECKS_MAX:
                raise InvalidSchema(f"defaults that take more than {CHECKS_MAX} checks")
            self._known[pair] = self._fits(schema, value)
        return self._known[pair]

    def _fits(self, schema: Node, value: Any) -> bool:
        if isinstance(schema, Union):
            return any(self.fits(branch, value) for branch in schema.branches)
        if isinstance(schema, Array):
            return isinstance(value, list) and all(self.fits(schema.items, item) for item in value)
        if isinstance(schema, Map):
            return isinstance(value, dict) and all(self.fits(schema.values, item) for item in value.values())
        if schema.kind == "record" and isinstance(schema, Definition):
            return isinstance(value, dict) and all(
                self.fits(field.schema, value[field.name]) if field.name in value else field.has_default
                for field in schema.fields
            )
        return _fits_scalar(schema.kind, value)


def _fits_scalar(kind: str, value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in _WIDTHS:
        return is_number and isinstance(value, int) and -(1 << _WIDTHS[kind]) <= value < 1 << _WIDTHS[kind]
    if kind in {"float", "double"}:
        return is_number or value in _SPECIAL
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    return isinstance(value, str)
