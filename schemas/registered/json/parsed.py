"""A registered JSON schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sordini.schemas.registered.json.comparison import json_faults
from sordini.schemas.registered.json.faults import message
from sordini.schemas.registered.json.model import Shape
from sordini.schemas.registered.json.reading import read_json_schema_text, validator_of
from sordini.schemas.registered.json_text import write_json
from sordini.schemas.registered.references import referenced
from sordini.schemas.registered.types import ParsedSchema, Roles, SchemaSource, SchemaType


class ParsedJsonSchema:
    """One schema; see `ParsedSchema`."""

    type = SchemaType.JSON

    def __init__(self, source: SchemaSource, raw: Any, shape: Shape) -> None:
        self.source = source
        self.raw = raw
        self.shape = shape
        self.canonical = write_json(raw)

    @cached_property
    def normalized(self) -> str:
        return write_json(self.raw, is_sorted=True)

    @property
    def names(self) -> Sequence[str]:
        title = self.raw.get("title") if isinstance(self.raw, dict) else None
        return [title] if isinstance(title, str) else []

    @cached_property
    def validator(self) -> Any:
        """Of jsonschema, for values."""
        return validator_of(self.raw, referenced(self.source))

    def unreadable(self, written: ParsedSchema, roles: Roles) -> list[str]:
        assert isinstance(written, ParsedJsonSchema)
        if written.canonical == self.canonical and referenced(written.source) == referenced(self.source):
            return []  # However large it is.
        return [message(fault, roles) for fault in json_faults(written.shape, self.shape)]


def parse_json_schema(source: SchemaSource) -> ParsedJsonSchema:
    """Raises InvalidSchema."""
    raw, shape = read_json_schema_text(source.text, referenced(source))
    return ParsedJsonSchema(source, raw, shape)
