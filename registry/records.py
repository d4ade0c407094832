"""Keys and values of the records in `_schemas`, as known registries write them. Pure.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
        {"subject":"orders-value","version":1,"id":7,"schema":"...","deleted":false}
    {"keytype":"CONFIG","subject":null,"magic":0}               {"compatibilityLevel":"FULL"}
    {"keytype":"MODE","subject":"orders-value","magic":0}       {"mode":"READONLY"}
    {"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}    {"subject":"orders-value","version":3}
    {"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}     {"subject":"orders-value"}
    {"keytype":"CONTEXT","tenant":"default","context":".test","magic":0}    {"tenant":"default","context":".test"}
    {"keytype":"NOOP","magic":0}                                null

    {"keytype":"NOOP", "magic":0}                               {"highestIds":{".":7}}

A subject of null is all subjects. Compaction compares bytes, so members of a key are in this order, without spaces. A
value of null removes what its key names. The last one has the highest ids that were given, by context: otherwise an id
would be given again once the record that had it is removed. Its space keeps it from being compacted away by the NOOPs
with which writers begin, and every registry takes it for one of those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sordini.schemas.registered.types import Reference, SchemaType
from sordini.system.named_tuple import NamedTuple

TENANT: Final = "default"
INT32_MAX: Final = (1 << 31) - 1
Json = Mapping[str, Any]


class MalformedRecord(ValueError):
    """Bytes that are no record of a registry; the text says why."""


class SchemaKey(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


class ConfigKey(NamedTuple):
    """Compatibility and more, of a subject, of a context (`:.name:`) or of all (None)."""

    subject: str | None


class ModeKey(NamedTuple):
    """What may be changed, of a subject, of a context or of all (None)."""

    subject: str | None


class DeleteSubjectKey(NamedTuple):
    """All versions of a subject are deleted softly, up to one."""

    subject: str


class ClearSubjectKey(NamedTuple):
    """All versions of a subject are removed."""

    subject: str


class ContextKey(NamedTuple):
    """A context exists."""

    tenant: str
    context: str


class NoopKey(NamedTuple):
    """Nothing: it moves the end of the log."""

    magic: int = 0


class HighestIdsKey(NamedTuple):
    """The highest ids that were given."""

    magic: int = 0


Key = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | ContextKey | NoopKey | HighestIdsKey
_HIGHEST_IDS_KEY: Final = b'{"keytype":"NOOP", "magic":0}'


class SchemaRecord(NamedTuple):
    """The value of a SchemaKey."""

    subject: str
    version: int
    id: int
    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False
    guid: str | None = None


class Record(NamedTuple):
    """What is appended to the topic, or was read of it; a value of None removes."""

    key: Key
    value: SchemaRecord | Json | None


def encode_key(key: Key) -> bytes:
    """The bytes of a key."""
    match key:
        case SchemaKey():
            members: dict[str, Any] = {"keytype": "SCHEMA", "subject": key.subject, "version": key.version, "magic": 1}
        case ConfigKey():
            members = {"keytype": "CONFIG", "subject": key.subject, "magic": 0}
        case ModeKey():
            members = {"keytype": "MODE", "subject": key.subject, "magic": 0}
        case DeleteSubjectKey():
            members = {"keytype": "DELETE_SUBJECT", "subject": key.subject, "magic": 0}
        case ClearSubjectKey():
            members = {"keytype": "CLEAR_SUBJECT", "subject": key.subject, "magic": 0}
        case ContextKey():
            members = {"keytype": "CONTEXT", "tenant": key.tenant, "context": key.context, "magic": 0}
        case NoopKey():
            members = {"keytype": "NOOP", "magic": 0}
        case HighestIdsKey():
            return _HIGHEST_IDS_KEY
    return _compact(members)


def encode_value(value: SchemaRecord | Json | None) -> bytes | None:
    """The bytes of a value."""
    if value is None:
        return None
    return _compact(_schema_members(value) if isinstance(value, SchemaRecord) else value)


def decode(key: bytes, value: bytes | None) -> Record:
    """A record of the topic. Raises MalformedRecord."""
    members = _object(key)
    try:
        decoded = HighestIdsKey() if key == _HIGHEST_IDS_KEY else _key(members)
        if value is None:
            return Record(decoded, None)
        content = _object(value)
        return Record(decoded, _schema_record(content) if isinstance(decoded, SchemaKey) else content)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedRecord(f"a record of keytype {members.get('keytype')!r}: {error!r}") from None


def reference_members(references: tuple[Reference, ...]) -> list[dict[str, Any]]:
    """References as the records and the REST API have them."""
    return [{"name": one.name, "subject": one.subject, "version": one.version} for one in references]


def content_members(record: SchemaRecord) -> dict[str, Any]:
    """What a schema has beside its text, as the records and the REST API have it: without what is empty."""
    members: dict[str, Any] = {}
    if record.type is not SchemaType.AVRO:  # It is left out by all registries: the oldest had no other.
        members["schemaType"] = record.type.value
    if record.references:
        members["references"] = reference_members(record.references)
    if record.metadata is not None:
        members["metadata"] = record.metadata
    if record.rule_set is not None:
        members["ruleSet"] = record.rule_set
    return members


def _schema_members(record: SchemaRecord) -> dict[str, Any]:
    place = {"subject": record.subject, "version": record.version, "id": record.id, **guid_member(record)}
    return {**place, **content_members(record), "schema": record.text, "deleted": record.deleted}


def guid_member(record: SchemaRecord) -> dict[str, str]:
    """The guid as a member; older registries have stored none."""
    return {} if record.guid is None else {"guid": record.guid}


def _schema_record(members: Json) -> SchemaRecord:
    return SchemaRecord(
        subject=_text(members["subject"]),
        version=_whole(members["version"]),
        id=_whole(members["id"]),
        text=_text(members["schema"]),
        type=SchemaType(members.get("schemaType") or SchemaType.AVRO),
        references=tuple(
            Reference(_text(one["name"]), _text(one["subject"]), _whole(one["version"]))
            for one in members.get("references") or ()
        ),
        metadata=_optional_object(members.get("metadata")),
        rule_set=_optional_object(members.get("ruleSet")),
        deleted=bool(members.get("deleted")),
        guid=_optional_text(members.get("guid")),
    )


def _key(members: Json) -> Key:
    match members.get("keytype"):
        case "SCHEMA":
            return SchemaKey(_text(members["subject"]), _whole(members["version"]))
        case "CONFIG":
            return ConfigKey(_optional_text(members.get("subject")))
        case "MODE":
            return ModeKey(_optional_text(members.get("subject")))
        case "DELETE_SUBJECT":
            return DeleteSubjectKey(_text(members["subject"]))
        case "CLEAR_SUBJECT":
            return ClearSubjectKey(_text(members["subject"]))
        case "CONTEXT":
            return ContextKey(_text(members.get("tenant") or TENANT), _text(members["context"]))
        case "NOOP":
            return NoopKey()
    raise ValueError("it is not known")


def _compact(members: Json) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def _object(data: bytes) -> Json:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedRecord(f"no JSON: {data[:100]!r}") from None
    if not isinstance(found, dict):
        raise MalformedRecord(f"no JSON object: {data[:100]!r}")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _optional_object(value: Any) -> Json | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT32_MAX:
        raise ValueError(f"{value!r} is no number from 0 to {INT32_MAX}")
    return value
