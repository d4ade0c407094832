"""Schemas as members of requests and answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sordini.registry.records import INT32_MAX, SchemaRecord, content_members, guid_member
from sordini.registry.state.refusals import Refusal, invalid_schema
from sordini.registry.state.submission import (
    DEFAULT_METADATA,
    DEFAULT_RULES,
    OVERRIDE_METADATA,
    OVERRIDE_RULES,
    Submission,
)
from sordini.schemas.registered.fingerprints import RULE_PHASES
from sordini.schemas.registered.types import Reference, SchemaType

SCHEMA_CHARACTERS_MAX: Final = 1_000_000
REFERENCES_MAX: Final = 200
"""Of one schema, directly."""
_RULE_TEXTS: Final = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")


def submission_of(subject: str, members: Mapping[str, Any], *, normalizes: bool) -> Submission:
    """The schema of a request. Raises Refusal."""
    text = members.get("schema")
    if text is not None and not isinstance(text, str):
        raise Refusal(422, "schema: allowed is a text")
    if text is not None and len(text) > SCHEMA_CHARACTERS_MAX:
        raise Refusal(42209, f"Schema is too large: {len(text)} characters, and {SCHEMA_CHARACTERS_MAX} are allowed")
    kind = members.get("schemaType") or SchemaType.AVRO.value
    if not isinstance(kind, str) or kind not in SchemaType.__members__:
        known = ", ".join(SchemaType.__members__)
        raise invalid_schema(f"Invalid schema type {str(kind)[:100]!r}: allowed are {known}")
    return Submission(
        subject,
        text or "",
        SchemaType(kind),
        _references(members.get("references")),
        _metadata(members, "metadata"),
        _rule_set(members, "ruleSet"),
        _number(members, "id"),
        _number(members, "version"),
        normalizes,
    )


def schema_string(record: SchemaRecord) -> dict[str, Any]:
    """A schema without its subject, as it is returned for an id."""
    return {"schema": record.text, **content_members(record), **guid_member(record)}


def registered_schema(record: SchemaRecord) -> dict[str, Any]:
    """A version of a subject."""
    named = {"subject": record.subject, "version": record.version, "id": record.id}
    deleted = {"deleted": True} if record.deleted else {}
    return {**named, **schema_string(record), **deleted}


def has_rule(record: SchemaRecord, rule_type: str) -> bool:
    """Whether a version has a rule of a type, such as CEL."""
    rules = [rule for name in RULE_PHASES for rule in (record.rule_set or {}).get(name) or ()]
    return any(isinstance(rule, dict) and rule.get("type") == rule_type for rule in rules)


def _references(given: Any) -> tuple[Reference, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > REFERENCES_MAX:
        raise invalid_schema(f"references: allowed is a list of at most {REFERENCES_MAX}")
    return tuple(map(_reference, given))


def _reference(given: Any) -> Reference:
    match given:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            is_version = version == -1 or 1 <= version <= INT32_MAX
            if name and subject and is_version and not isinstance(version, bool):
                return Reference(name, subject, version)
    raise invalid_schema("references: each has a name, a subject and a version")


def check_settings(members: Mapping[str, Any]) -> None:
    """Raises Refusal for settings with metadata or rules that a schema cannot have."""
    for name in (DEFAULT_METADATA, OVERRIDE_METADATA):
        _metadata(members, name)
    for name in (DEFAULT_RULES, OVERRIDE_RULES):
        _rule_set(members, name)


def _metadata(members: Mapping[str, Any], member: str) -> Mapping[str, Any] | None:
    found = _object(members, member)
    if found is not None:
        tags, properties, sensitive = (found.get(name) for name in ("tags", "properties", "sensitive"))
        fits = _are_texts_by_name(properties) and (sensitive is None or _are_texts(sensitive))
        if not fits or not (tags is None or (isinstance(tags, dict) and all(map(_are_texts, tags.values())))):
            raise Refusal(422, f"{member}: tags are lists of texts, properties texts, sensitive is a list of texts")
    return found


def _rule_set(members: Mapping[str, Any], member: str) -> Mapping[str, Any] | None:
    found = _object(members, member)
    for name in RULE_PHASES:
        rules = (found or {}).get(name)
        if rules is not None and not (isinstance(rules, list) and all(map(_is_rule, rules))):
            raise Refusal(42210, f"Invalid rule set: {name} is a list of rules, whose members are texts")
    return found


def _is_rule(rule: Any) -> bool:
    return (
        isinstance(rule, dict)
        and all(rule.get(name) is None or isinstance(rule[name], str) for name in _RULE_TEXTS)
        and (rule.get("tags") is None or _are_texts(rule["tags"]))
        and _are_texts_by_name(rule.get("params"))
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_texts_by_name(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(one, str) for one in value.values()))


def _object(members: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = members.get(name)
    if found is not None and not isinstance(found, dict):
        raise Refusal(422, f"{name}: allowed is an object")
    return found


def _number(members: Mapping[str, Any], name: str) -> int | None:
    """A number, where -1 and 0 are none: clients send them."""
    found = members.get(name)
    if found is None or found in (-1, 0):
        return None
    if type(found) is not int or not 1 <= found <= INT32_MAX:
        raise Refusal(422, f"{name}: allowed is a number from 1 to {INT32_MAX}")
    return found
