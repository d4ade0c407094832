"""Everything that the records of a registry say, by subject, by id and by content. Pure.

An id is one content in one context: the type, the text, the references, the metadata and the rules. Two subjects of a
context that have the same content have the same id, and an id is not given again after all its versions are removed.

    subjects   subject -> version -> record, deleted softly or not
    _uses      (context, id) -> the versions that have it; an id without any is not found
    _ids       (context, content) -> its ids: more than one after an import
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, TypeVar

from sordini.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    HighestIdsKey,
    Json,
    Key,
    MalformedRecord,
    ModeKey,
    NoopKey,
    SchemaKey,
    SchemaRecord,
    decode,
)
from sordini.registry.state.names import (
    DEFAULT_CONTEXT,
    context_of,
    in_context,
    parted,
    qualified,
    scopes,
    settings_scope,
)
from sordini.schemas.registered.fingerprints import guid
from sordini.schemas.registered.types import Level, Reference, SchemaType
from sordini.system.named_tuple import NamedTuple

K = TypeVar("K")
T = TypeVar("T")
LEVEL: Final = "compatibilityLevel"
HIGHEST_IDS: Final = "highestIds"
DEFAULT_LEVEL: Final = Level.BACKWARD
ALIAS: Final = "alias"
_INHERITED: Final = (
    "normalize",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
    "compatibilityPolicy",
    "compatibilityGroup",
)
"""Settings of all that are in force for subjects which have others of their own."""


class Mode(StrEnum):
    """What may be changed."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    """As READONLY, and as the mode of all it is in force for subjects that have another."""
    IMPORT = "IMPORT"
    """Schemas are registered with ids of another registry, and are not compared."""


class Content(NamedTuple):
    """What has one id."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...]
    metadata: str | None
    """As JSON with sorted names, as the next one."""
    rule_set: str | None


def content_of(record: SchemaRecord) -> Content:
    """The content of a version."""
    return Content(
        record.type, record.text, record.references, _sorted_json(record.metadata), _sorted_json(record.rule_set)
    )


class RegistryState:
    """Changed by `apply` alone."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaRecord]] = {}
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, Mode] = {}
        self.contexts: set[str] = {DEFAULT_CONTEXT}
        self.highest_ids: dict[str, int] = {}
        """By context: the highest id that was ever given."""
        self.noted_ids: dict[str, int] = {}
        """As `highest_ids`, as far as the record of them says it."""
        self.end_offset = 0
        self.malformed = 0
        """Records that were skipped: of a kind that is not known, or damaged."""
        self._uses: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self._ids: dict[tuple[str, Content], set[int]] = {}
        self._guids: dict[str, set[tuple[str, int]]] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}

    def apply(self, key: bytes, value: bytes | None, offset: int) -> None:
        """Take a record of the topic. One that is malformed is skipped, as other registries do."""
        self.end_offset = offset + 1
        try:
            self._change(*decode(key, value))
        except MalformedRecord:
            self.malformed += 1

    def record(self, subject: str, version: int) -> SchemaRecord | None:
        """A version, deleted softly or not."""
        return self.subjects.get(subject, {}).get(version)

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaRecord]:
        """The versions of a subject in their order; with `deleted` those too that are deleted softly."""
        found = self.subjects.get(subject, {})
        return [found[version] for version in sorted(found) if deleted or not found[version].deleted]

    def of_id(self, context: str, number: int) -> list[SchemaRecord]:
        """The versions that have an id, by subject and version."""
        return [self.subjects[subject][version] for subject, version in sorted(self._uses.get((context, number), ()))]

    def id_of(self, context: str, content: Content) -> int | None:
        """The id of a content."""
        return min(self._ids.get((context, content), ()), default=None)

    def of_guid(self, guid: str) -> list[tuple[str, int]]:
        """The contexts and ids of a guid."""
        return sorted(self._guids.get(guid, ()))

    def referrers(self, subject: str, version: int) -> list[SchemaRecord]:
        """The versions, not deleted, that refer to a version."""
        found = [self.subjects[name][number] for name, number in sorted(self._referrers.get((subject, version), ()))]
        return [record for record in found if not record.deleted]

    def next_id(self, context: str) -> int:
        """The id of the next content."""
        return self.highest_ids.get(context, 0) + 1

    def mode(self, subject: str | None) -> Mode:
        """The mode in force for a subject; None: for all."""
        if self.modes.get(None) is Mode.READONLY_OVERRIDE:
            return Mode.READONLY_OVERRIDE
        return next((self.modes[scope] for scope in scopes(subject) if scope in self.modes), Mode.READWRITE)

    def config(self, subject: str | None) -> Json:
        """The settings in force for a subject; None: for all. They have a level at least."""
        found = next((self.configs[scope] for scope in scopes(subject) if self.configs.get(scope)), {})
        of_all = self.configs.get(None, {})
        inherited = {name: of_all[name] for name in _INHERITED if name in of_all}
        return {LEVEL: self.level(subject).value, **inherited, **found}

    def named(self, subject: str) -> str:
        """The subject that a subject is an alias of, in its context if no other is named; or the subject itself."""
        alias = self.configs.get(subject, {}).get(ALIAS)
        if not isinstance(alias, str) or not alias:
            return subject
        return qualified(*parted(in_context(context_of(subject), alias)))

    def aliases(self) -> dict[str, list[str]]:
        """The aliases of each subject that has any."""
        found: dict[str, list[str]] = {}
        for subject in filter(None, self.configs):
            if self.named(subject) != subject:
                found.setdefault(self.named(subject), []).append(subject)
        return {subject: sorted(names) for subject, names in found.items()}

    def level(self, subject: str | None) -> Level:
        """The compatibility in force for a subject."""
        for scope in scopes(subject):
            name = self.configs.get(scope, {}).get(LEVEL)
            if isinstance(name, str) and name in Level.__members__:
                return Level(name)
        return DEFAULT_LEVEL

    def schema_count(self) -> int:
        """Ids that have versions."""
        return len(self._uses)

    def records(self) -> Iterator[SchemaRecord]:
        """All versions, by subject and version."""
        for subject in sorted(self.subjects):
            yield from self.versions(subject, deleted=True)

    def _change(self, key: Key, value: SchemaRecord | Json | None) -> None:
        match key:
            case SchemaKey():
                self._remove(key.subject, key.version)
                if isinstance(value, SchemaRecord):
                    named = value._replace(subject=key.subject, version=key.version)
                    # Older registries write no guid.
                    self._put(key, named if named.guid else named._replace(guid=guid_of(named)))
            case ConfigKey():
                self._set(self.configs, settings_scope(key.subject), value if isinstance(value, dict) else None)
            case ModeKey():
                self._set(self.modes, settings_scope(key.subject), _mode(value))
            case DeleteSubjectKey():
                if isinstance(value, dict):
                    self._delete_softly(key.subject, value.get("version"))
            case ClearSubjectKey():
                # Its own removal, by null, clears nothing that came since.
                for version in list(self.subjects.get(key.subject, ())) if value is not None else ():
                    self._remove(key.subject, version)
            case ContextKey():
                (self.contexts.discard if value is None else self.contexts.add)(key.context)
                self.contexts.add(DEFAULT_CONTEXT)
            case NoopKey():  # Earlier versions noted the ids here, where the next NOOP removes them.
                self._raise_highest_ids(_highest_ids(value))
            case HighestIdsKey():
                self.noted_ids = _highest_ids(value)
                self._raise_highest_ids(self.noted_ids)

    def _raise_highest_ids(self, noted: dict[str, int]) -> None:
        for context, number in noted.items():
            self.highest_ids[context] = max(self.highest_ids.get(context, 0), number)

    def _put(self, key: SchemaKey, record: SchemaRecord) -> None:
        context = context_of(key.subject)
        self.contexts.add(context)
        self.subjects.setdefault(key.subject, {})[key.version] = record
        self._uses.setdefault((context, record.id), set()).add(key)
        self._ids.setdefault((context, content_of(record)), set()).add(record.id)
        self.highest_ids[context] = max(self.highest_ids.get(context, 0), record.id)
        if record.guid is not None:
            self._guids.setdefault(record.guid, set()).add((context, record.id))
        for referred in referred_versions(record):
            self._referrers.setdefault(referred, set()).add(key)

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        record = versions.pop(version, None)
        if record is None:
            return
        if not versions:
            del self.subjects[subject]
        for referred in referred_versions(record):
            _discard(self._referrers, referred, (subject, version))
        context, content = context_of(subject), content_of(record)
        _discard(self._uses, (context, record.id), (subject, version))
        others = self.of_id(context, record.id)
        if all(content_of(other) != content for other in others):
            _discard(self._ids, (context, content), record.id)
        if record.guid is not None and all(other.guid != record.guid for other in others):
            _discard(self._guids, record.guid, (context, record.id))

    def _delete_softly(self, subject: str, last: object) -> None:
        for version, record in self.subjects.get(subject, {}).items():
            if not isinstance(last, int) or version <= last:
                self.subjects[subject][version] = record._replace(deleted=True)

    @staticmethod
    def _set(settings: dict[str | None, T], scope: str | None, value: T | None) -> None:
        if value is None:
            settings.pop(scope, None)
        else:
            settings[scope] = value


def guid_of(record: SchemaRecord) -> str | None:
    """The guid of a version, which follows from its content; None for metadata that no registry accepts."""
    try:
        return guid(record.text, record.references, record.metadata, record.rule_set)
    except (AttributeError, TypeError, ValueError):  # Of a record that another program wrote.
        return None


def properties_of(metadata: Json | None) -> Json:
    """The properties of the metadata of a schema."""
    found = (metadata or {}).get("properties")
    return found if isinstance(found, dict) else {}


def referred_versions(record: SchemaRecord) -> list[tuple[str, int]]:
    """The versions that a version refers to; their subjects are in its context unless they name another."""
    context = context_of(record.subject)
    return [(in_context(context, one.subject), one.version) for one in record.references]


def _mode(value: object) -> Mode | None:
    name = value.get("mode") if isinstance(value, dict) else None
    return Mode(name) if isinstance(name, str) and name in Mode.__members__ else None


def _highest_ids(value: object) -> dict[str, int]:
    noted = value.get(HIGHEST_IDS) if isinstance(value, dict) else None
    if not isinstance(noted, dict):
        return {}
    return {context: number for context, number in noted.items() if type(number) is int}


def _discard(sets: dict[K, set[T]], key: K, value: T) -> None:
    """Remove a value, and a set that has no other."""
    found = sets.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del sets[key]


def _sorted_json(value: Json | None) -> str | None:
    return None if value is None else json.dumps(value, sort_keys=True)
