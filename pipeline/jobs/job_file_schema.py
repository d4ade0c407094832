"""Schemas as job files and files of their own have them: fields by name, each a kind or a group of settings.

fields:
  order_id: string!
  amount: {kind: 'decimal(12,2)', from: $.payment.amount}
  address:
    struct: {street: string!, zip: string}
  lines:
    list:
      struct: {sku: string!, count: int}
  prices:
    map: double
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from sordini.cli.common.settings_tree import Section
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job_file_tree import TREES, JobSection, read_tree
from sordini.pipeline.schemas.avro import avro_text, read_avro
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.json_schema import read_json_schema
from sordini.pipeline.schemas.kinds import Kind, ListOf, MapOf, SchemaError, StructOf, is_moment, kind_of

_FORMS: Final = ("kind", "struct", "list", "map")
_EXAMPLES: Final = frozenset({"page_view", "search", "click", "operational", "member_visit"})
"""Schemas that earlier versions had by these names. Files of examples/schemas have them now."""


def schema_in(section: Section, name: str) -> Schema:
    """The schema of a section with `fields`. Raises the section's error."""
    fields = _fields(section.section("fields"))
    event_time = section.text("event_time", "")
    about = section.text("about", "")
    section.finish()
    by_default = "event_time" if any(field.name == "event_time" and is_moment(field.type) for field in fields) else ""
    try:
        return Schema(name, fields, event_time or by_default, about)
    except PipelineError as error:
        section.wrong("fields", f"cannot be a schema: {error}")


def schema_of_file(written: str, home: Path) -> Schema:
    """The schema that a file has: Avro's, a JSON schema, or fields. Raises SchemaError."""
    path = home / written
    if path.suffix in TREES:
        section = JobSection(path, read_tree(path), "", {})
        return schema_in(section, section.text("name", path.stem))
    if path.suffix not in {".avsc", ".json"}:
        _refuse_example(written)
        raise SchemaError("a schema is a file: Avro's (.avsc), a JSON schema (.json), or fields (.yaml, .toml)")
    text = _text_of(path)
    return read_json_schema(text, written) if _is_json_schema(text) else read_avro(text, written)


def avro_of_file(written: str, home: Path) -> str:
    """A schema as Avro's text, of a file of Avro's or of one with fields. Raises SchemaError."""
    if Path(written).suffix in TREES:
        return avro_text(schema_of_file(written, home))
    _refuse_example(written)
    text = _text_of(home / written)
    read_avro(text, written)
    return text


def _refuse_example(written: str) -> None:
    if written in _EXAMPLES:
        raise SchemaError(
            f"a schema is a file, and this one is examples/schemas/{written}.yaml in Sordini's source code: copy it, "
            "and write its path"
        )


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SchemaError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path} cannot be read: it is not text in UTF-8") from None


def _is_json_schema(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and ("properties" in found or "$schema" in found)


def _fields(section: Section) -> tuple[Field, ...]:
    return tuple(_field(section, name) for name in section.names())


def _field(section: Section, name: str) -> Field:
    try:
        if not section.is_section(name):
            text = section.text(name)
            return Field(name, text.removesuffix("!").strip(), is_required=text.endswith("!"))
        inner = section.section(name)
        kind, is_required = _kind(inner)
        found = field_of(
            name,
            kind,
            inner.text("about", ""),
            is_required=inner.truth("required", default=is_required),
            sources=inner.texts("from"),
        )
    except SchemaError as error:
        section.wrong(name, f"cannot be a field: {str(error).removeprefix(f'{name}: ')}")
    inner.finish()
    return found


def _kind(section: Section) -> tuple[Kind, bool]:
    """The kind that a group of settings says, and whether a value is required."""
    forms = [form for form in _FORMS if form in section]
    if len(forms) != 1:
        section.wrong("", f"says {' and '.join(forms) or 'no kind'}: it has one of {', '.join(_FORMS)}")
    match forms[0]:
        case "struct":
            return StructOf(_fields(section.section("struct"))), False
        case "list":
            return ListOf(_inner(section, "list")), False
        case "map":
            return MapOf(_inner(section, "map")), False
        case _:
            text = section.text("kind")
            return kind_of(text.removesuffix("!").strip()), text.endswith("!")


def _inner(section: Section, name: str) -> Kind:
    """The kind of elements or values."""
    if not section.is_section(name):
        return kind_of(section.text(name))
    inner = section.section(name)
    kind, _ = _kind(inner)
    inner.finish()
    return kind
