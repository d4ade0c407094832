"""What a JSON schema permits, as shapes: one kind of values each, or a combination of shapes. Pure.

A schema that names several things (`type` with `enum`, `anyOf` beside `properties`) is all of them at once: a
combination `allOf`. A `type` with several names is `anyOf`. So schemas that mean the same in other words often meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sordini.schemas.registered.json_text import write_json

Kind = Literal[
    "true", "false", "string", "number", "boolean", "null", "object", "array", "enum", "const", "not", "combined",
    "conditional", "reference",
]  # fmt: skip
Criterion = Literal["allOf", "anyOf", "oneOf"]
CRITERIA: Final[tuple[Criterion, ...]] = ("allOf", "anyOf", "oneOf")


@dataclass(slots=True, eq=False)
class Shape:
    """One kind; `keywords` is the schema's object, `meaning` what two shapes that are the same have in common."""

    kind: Kind
    keywords: Mapping[str, Any]
    meaning: tuple[str, Any]
    is_strict: bool = True
    """Whether other types are refused: not where keywords of a type stand without `type`."""
    is_integer: bool = False
    criterion: Criterion = "allOf"
    inner: list[Shape] = field(default_factory=list)
    """Of a combination, of `not`, and the target of a reference."""
    properties: dict[str, Shape] = field(default_factory=dict)
    patterns: dict[str, Shape] = field(default_factory=dict)
    dependent_schemas: dict[str, Shape] = field(default_factory=dict)
    dependent_required: dict[str, frozenset[str]] = field(default_factory=dict)
    items: list[Shape] = field(default_factory=list)
    """By place; those of all places, and what else a keyword has, are in `others`."""
    others: dict[str, Shape] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The same for shapes that are the same."""
        name, value = self.meaning
        return f"{name} {write_json(value, is_sorted=True)}"

    @property
    def required(self) -> frozenset[str]:
        names = self.keywords.get("required", ())
        return frozenset(names) if isinstance(names, list) else frozenset()

    @property
    def target(self) -> Shape:
        """Itself, or what the reference leads to."""
        shape = self
        while shape.kind == "reference":
            shape = shape.inner[0]
        return shape


class ContentModel:
    """What an object has beside its properties, or an array after its items by place.

    Open: anything. Closed: nothing. Between both: what fits a schema, by the pattern of a name or for all others
    (Confluent Platform, "JSON Schema compatibility rules", content models).
    """

    def __init__(self, shape: Shape) -> None:
        is_object = shape.kind == "object"
        additional = shape.others.get("additionalProperties" if is_object else "additionalItems")
        unevaluated = shape.others.get("unevaluatedProperties" if is_object else "unevaluatedItems")
        rest = additional if additional is not None else unevaluated
        self.rest = rest.target if rest is not None else None
        self.patterns = shape.patterns

    @property
    def is_open(self) -> bool:
        return not self.patterns and (self.rest is None or self.rest.kind == "true")

    @property
    def is_closed(self) -> bool:
        """But for patterns."""
        return self.rest is not None and self.rest.kind == "false"
