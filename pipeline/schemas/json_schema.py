"""Schemas in JSON Schema's form (draft 2020-12), both ways, for records.

What JSON Schema has no word for is in keywords of our own, which its readers leave alone: `sordini.kind` where several
kinds have one form, and `sordini.from`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sordini.pipeline.schemas.connect_names import kind_of_json
from sordini.pipeline.schemas.fields import Field, Schema, field_of
from sordini.pipeline.schemas.kinds import (
    NUMBERED,
    Decimal,
    Enum,
    Kind,
    ListOf,
    MapOf,
    Plain,
    SchemaError,
    StructOf,
    is_moment,
    kind_of,
    text_of,
)

_STEPS_MAX: Final = 10
"""References and choices on the way to an object."""
DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
KIND, FROM, EVENT_TIME = "sordini.kind", "sordini.from", "sordini.event_time"
_LONG: Final = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_PLAIN: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": _LONG,
    "float": {"type": "number", KIND: "float"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timestamp": {"type": "string", "format": "date-time"},
    **{name: {"type": "integer", KIND: name} for name in NUMBERED},
    "timestamp_ntz": {"type": "string", KIND: "timestamp_ntz"},
    "uuid": {"type": "string", "format": "uuid"},
    "binary": {"type": "string", "contentEncoding": "base64"},
}
_FORMATS: Final = {"date": "date", "time": "time", "date-time": "timestamp", "uuid": "uuid"}


def to_json_schema(schema: Schema) -> dict[str, Any]:
    """The schema of an object. Further properties are allowed, as producers may have a newer schema."""
    return {
        "$schema": DRAFT,
        "title": schema.name,
        **({"description": schema.about} if schema.about else {}),
        **({EVENT_TIME: schema.event_time} if schema.event_time else {}),
        **_object(schema.fields),
    }


def read_json_schema(text: str, name: str, within: str = "") -> Schema:
    """The schema that the JSON text of a JSON schema describes; `name` is its file's, for errors.

    `within` names the property whose object it is, by default the whole one.

    Raises SchemaError, which names the file and the field, for a type without a column. `$ref` within the text is
    followed.
    """
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{name} is not JSON: {error}") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("properties"), dict):
        raise SchemaError(f'{name} is not the JSON schema of an object: one with "properties"')
    try:
        fields = _Reading(whole).fields(whole, ()) if not within else _Reading(whole).fields_within(within)
        title = within or str(whole.get("title") or name.rpartition("/")[2].removesuffix(".json"))
        chosen = [field.name for field in fields if field.name == "event_time" and is_moment(field.type)]
        return Schema(title, fields, str(whole.get(EVENT_TIME, "".join(chosen))), str(whole.get("description", "")))
    except SchemaError as error:
        raise SchemaError(f"{name}: {error}") from None


def written_kinds(text: str, within: tuple[str, ...]) -> dict[str, Kind]:
    """The kinds of an object's fields that have a column; `within` are the names that lead to the object."""
    return _reading(text).kinds(within)


def json_names(text: str, within: tuple[str, ...]) -> set[str]:
    """The names of an object's properties; `within` are the names that lead to the object."""
    return set(_reading(text).properties(within))


def _reading(text: str) -> _Reading:
    """Of a text that is no JSON schema of an object, one without fields."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = {}
    return _Reading(whole if isinstance(whole, dict) else {})


def _object(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if field.is_required],
    }


def _property(field: Field) -> dict[str, Any]:
    form = _form(field.type)
    if not field.is_required:
        form["type"] = [form["type"], "null"]
        if "enum" in form:
            form["enum"] = [*form["enum"], None]
    about = {"description": field.about} if field.about else {}
    return {**form, **about, **({FROM: list(field.sources)} if field.sources else {})}


def _form(kind: Kind) -> dict[str, Any]:
    match kind:
        case Plain():
            return dict(_PLAIN[kind.name])
        case Decimal():
            return {"type": "string" if kind.is_unscaled else "number", KIND: text_of(kind)}
        case Enum():
            return {"type": "string", "enum": list(kind.symbols)}
        case ListOf():
            return {"type": "array", "items": _form(kind.items)}
        case MapOf():
            return {"type": "object", "additionalProperties": _form(kind.values)}
        case StructOf():
            return _object(kind.fields)


class _Reading:
    """One schema, with what its `$ref`s name."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self._whole = whole

    def fields(self, form: dict[str, Any], within: tuple[str, ...]) -> tuple[Field, ...]:
        required = form.get("required", [])
        return tuple(
            self._field(name, found, name in required, within) for name, found in form.get("properties", {}).items()
        )

    def fields_within(self, name: str) -> tuple[Field, ...]:
        """The fields of the object that a property is."""
        form = self._object_in(self._whole["properties"].get(name))
        if not form:
            raise SchemaError(f"it has no property {name} that is an object, which would have the columns")
        return self.fields(form, ())

    def kinds(self, within: tuple[str, ...]) -> dict[str, Kind]:
        """The kinds of an object's fields, of those that have one."""
        found = {}
        for name, each in self.properties(within).items():
            with suppress(SchemaError):
                found[name] = self._kind(each, ())[0]
        return found

    def properties(self, within: tuple[str, ...]) -> dict[str, Any]:
        """Those of the object to which names lead."""
        form = self._object_in(self._whole)
        for name in within:
            form = self._object_in(form.get("properties", {}).get(name))
        properties: dict[str, Any] = form.get("properties", {})
        return properties

    def _object_in(self, form: Any) -> dict[str, Any]:
        """The object that a form is, or may be beside null, or refers to; empty if it is none."""
        for _ in range(_STEPS_MAX):
            if not isinstance(form, dict) or "properties" in form:
                break
            choices = form.get("oneOf", form.get("anyOf"))
            if "$ref" in form:
                form = self._place(str(form["$ref"]))
            else:
                others = [one for one in choices or () if isinstance(one, dict) and one.get("type") != "null"]
                form = others[0] if len(others) == 1 else None
        return form if isinstance(form, dict) and isinstance(form.get("properties"), dict) else {}

    def _field(self, name: str, form: Any, is_listed: bool, within: tuple[str, ...]) -> Field:  # noqa: FBT001
        try:
            kind, can_be_null = self._kind(form, within)
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
        said = form if isinstance(form, dict) else {}
        sources, is_required = tuple(map(str, said.get(FROM, ()))), is_listed and not can_be_null
        return field_of(name, kind, str(said.get("description", "")), is_required=is_required, sources=sources)

    def _kind(self, form: Any, within: tuple[str, ...]) -> tuple[Kind, bool]:
        """The kind, and whether null is allowed."""
        if not isinstance(form, dict):
            raise SchemaError(f"{json.dumps(form)} says nothing of a type")
        if "$ref" in form:
            return self._referred(str(form["$ref"]), within)
        choices = form.get("oneOf", form.get("anyOf"))
        if isinstance(choices, list):
            others = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(others) != 1:
                raise SchemaError("a choice of several types has no column")
            return self._kind(others[0], within)[0], len(others) < len(choices)
        types = form.get("type")
        names = [one for one in types if one != "null"] if isinstance(types, list) else [types]
        if len(names) != 1:
            raise SchemaError(f"{json.dumps(types)} has no column: it is of several types")
        if KIND in form:
            return kind_of(str(form[KIND])), isinstance(types, list)
        if (meant := kind_of_json(form, str(names[0]))) is not None:
            return meant, isinstance(types, list) and "null" in types
        return self._of_type(names[0], form, within), isinstance(types, list) and "null" in types

    def _of_type(self, name: Any, form: dict[str, Any], within: tuple[str, ...]) -> Kind:
        match name:
            case None | "string" if "enum" in form:
                return _enum_or_text(form["enum"])
            case "string":
                if form.get("contentEncoding") == "base64":
                    return Plain("binary")
                return Plain(_FORMATS.get(str(form.get("format")), "string"))
            case "integer":
                bounds = form.get("minimum"), form.get("maximum")
                fits = all(isinstance(bound, int) and -(2**31) <= bound < 2**31 for bound in bounds)
                return Plain("int" if fits else "long")
            case "number":
                return Plain("double")
            case "boolean":
                return Plain("boolean")
            case "array" if "items" in form:
                return ListOf(self._kind(form["items"], within)[0])
            case "object" if form.get("properties"):
                return StructOf(self.fields(form, within))
            case "object" if isinstance(form.get("additionalProperties"), dict):
                return MapOf(self._kind(form["additionalProperties"], within)[0])
        raise SchemaError(f"{json.dumps(form)[:200]} has no column here")

    def _referred(self, reference: str, within: tuple[str, ...]) -> tuple[Kind, bool]:
        if reference in within:
            raise SchemaError(f"{reference} is within itself, which has no column")
        found = self._place(reference)
        if found is None:
            raise SchemaError(f"{reference} is not in this text")
        return self._kind(found, (*within, reference))

    def _place(self, reference: str) -> Any:
        """What a reference within the text refers to, or None."""
        found: Any = self._whole
        for part in reference.removeprefix("#").split("/")[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found if reference.startswith("#") else None


def _enum_or_text(symbols: Any) -> Kind:
    """Texts that are no symbols of an enum, and other values, are texts."""
    texts = [one for one in symbols if one is not None] if isinstance(symbols, list) else []
    try:
        return Enum(tuple(texts)) if all(isinstance(one, str) for one in texts) else Plain("string")
    except SchemaError:
        return Plain("string")
