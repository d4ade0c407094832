"""The texts of registered schemas, by the records of a registry's topic, as a DecodeJob has them. Pure.

    {"id":7,"schemaType":"JSON","schema":"{...}","references":[{"name":"n","subject":"other","version":2}],...}

A subject of a context other than the default one is `:.context:name`; a reference without a context is in that of the
schema that has it. Version -1 is the newest one.
"""

from __future__ import annotations

from typing import Any, Final

from sordini.system.named_tuple import NamedTuple

CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""Of all texts; those beyond are not kept, and their values are refused."""
JOB_CHARACTERS_MAX: Final = 2 * 1024 * 1024
"""Of the schemas of one record set, with their references: they are sent to the child with each."""
REFERENCES_MAX: Final = 100
"""Schemas that one refers to directly."""
DEPTH_MAX: Final = 20
KINDS: Final = ("AVRO", "JSON", "PROTOBUF")
_NEWEST: Final = -1


class UnknownText(Exception):
    """The schema of an id, or one that it refers to, is not known, or beyond a bound; the text says which."""

    def __init__(self, schema_id: int, why: str) -> None:
        super().__init__(f"schema id {schema_id}: {why}")
        self.schema_id = schema_id


class TextsTooLong(Exception):
    """The schemas of one record set are longer than a job may be."""


class _Text(NamedTuple):
    schema_id: int
    type: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    """Name, subject and version."""


class RegisteredTexts:
    """What was read so far."""

    def __init__(self, characters_max: int = CHARACTERS_MAX) -> None:
        self._versions: dict[str, dict[int, _Text]] = {}
        self._characters = 0
        self._characters_max = characters_max

    def put(self, subject: str, version: int, schema_id: int, fields: dict[str, Any]) -> None:
        """Take the fields of a version's value, unless they are none of a schema."""
        self.remove(subject, version)
        found = _text(schema_id, fields)
        if found is None or self._characters + len(found.text) > self._characters_max:
            return
        self._versions.setdefault(subject, {})[version] = found
        self._characters += len(found.text)

    def remove(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject)
        if versions is not None and (found := versions.pop(version, None)) is not None:
            self._characters -= len(found.text)
            if not versions:
                del self._versions[subject]

    def add_to(self, chosen: ChosenTexts, subject: str, schema_id: int) -> None:
        """Add the schema of an id that the subject has. Raises UnknownText, and TextsTooLong."""
        for version, text in self._versions.get(subject, {}).items():
            if text.schema_id == schema_id:
                chosen.schema_id = schema_id
                chosen.places[schema_id] = self._place(chosen, subject, version, ())
                return
        raise UnknownText(schema_id, "its text is not known to the broker")

    def _place(self, chosen: ChosenTexts, subject: str, version: int, path: tuple[tuple[str, int], ...]) -> int:
        versions = self._versions.get(subject, {})
        number = max(versions, default=version) if version == _NEWEST else version
        key, text = (subject, number), versions.get(number)
        if key in chosen.places_of_versions:
            return chosen.places_of_versions[key]
        if text is None:
            raise UnknownText(chosen.schema_id, f"it refers to version {version} of '{subject}', which is not known")
        if key in path or len(path) > DEPTH_MAX or len(text.references) > REFERENCES_MAX:
            raise UnknownText(chosen.schema_id, f"the references of '{subject}' are a cycle, too deep or too many")
        references = []
        for name, other, other_version in text.references:
            place = self._place(chosen, _in_context(subject, other), other_version, (*path, key))
            references.append([name, other, other_version, place])
        return chosen.add(key, text, references)


class ChosenTexts:
    """The schemas of one record set."""

    def __init__(self) -> None:
        self.schema_id = 0
        """That whose schemas are added."""
        self.schemas: list[dict[str, Any]] = []
        self.places: dict[int, int] = {}
        """By the id of a schema."""
        self.places_of_versions: dict[tuple[str, int], int] = {}
        self._characters = 0

    def add(self, key: tuple[str, int], text: _Text, references: list[list[Any]]) -> int:
        self._characters += len(text.text)
        if self._characters > JOB_CHARACTERS_MAX:
            raise TextsTooLong
        self.places_of_versions[key] = len(self.schemas)
        self.schemas.append({"type": text.type, "text": text.text, "references": references})
        return self.places_of_versions[key]


def _text(schema_id: int, fields: dict[str, Any]) -> _Text | None:
    text, kind, rows = fields.get("schema"), fields.get("schemaType") or "AVRO", fields.get("references") or []
    if not isinstance(text, str) or kind not in KINDS or not isinstance(rows, list):
        return None
    references = []
    for row in rows:
        if not isinstance(row, dict):
            return None
        name, subject, version = row.get("name"), row.get("subject"), row.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not isinstance(version, int):
            return None
        references.append((name, subject, version))
    return _Text(schema_id, kind, text, tuple(references))


def _in_context(referring: str, subject: str) -> str:
    """A subject as a schema of another subject names it."""
    if subject.startswith(":.") or not referring.startswith(":."):
        return subject.removeprefix(":.:")
    context, _, _ = referring[1:].partition(":")
    return f":{context}:{subject}"
