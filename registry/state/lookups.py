"""What requests that change nothing are answered from the state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sordini.registry.records import INT32_MAX, SchemaRecord
from sordini.registry.state.names import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    context_of,
    in_context,
    parted,
)
from sordini.registry.state.refusals import (
    Refusal,
    invalid_schema,
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from sordini.registry.state.registry_state import RegistryState, properties_of
from sordini.schemas.registered.types import Reference, SchemaSource, SchemaType
from sordini.system.named_tuple import NamedTuple

LATEST: Final = -1
DIGITS_MAX: Final = 10
LATEST_NAME: Final = "latest"
REFERENCES_MAX: Final = 1_000
"""Schemas that one refers to, directly and through others, each as often as it is named."""
REFERENCE_DEPTH_MAX: Final = 50


class Deleted(NamedTuple):
    """Whether versions that are deleted softly are among what is listed."""

    included: bool = False
    only: bool = False

    @property
    def is_any(self) -> bool:
        return self.included or self.only

    def has(self, record: SchemaRecord) -> bool:
        return record.deleted if self.only else self.included or not record.deleted


def version_number(text: str) -> int:
    """The number of a version in a path; LATEST. Raises Refusal."""
    if text in (LATEST_NAME, str(LATEST)):
        return LATEST
    is_number = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if not is_number or not 1 <= int(text) <= INT32_MAX:
        raise invalid_version(text[:100])
    return int(text)


def version_of(state: RegistryState, subject: str, version: int, *, deleted: bool = False) -> SchemaRecord:
    """One version, or the LATEST. Raises Refusal."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    if version == LATEST:
        return versions[-1]
    found = next((record for record in versions if record.version == version), None)
    if found is None:
        raise version_not_found(version)
    return found


def version_numbers(state: RegistryState, subject: str, deleted: Deleted) -> list[int]:
    """The versions of a subject. Raises Refusal."""
    if not state.versions(subject, deleted=deleted.is_any):
        raise subject_not_found(subject)
    return [record.version for record in state.versions(subject, deleted=True) if deleted.has(record)]


def subjects(state: RegistryState, prefix: str, deleted: Deleted) -> list[str]:
    """The subjects that begin with a prefix; `:*:` is all contexts, and stands before a prefix in each."""
    return [
        subject
        for subject in sorted(state.subjects)
        if _begins_with(subject, prefix)
        and (
            all(record.deleted for record in state.subjects[subject].values())
            if deleted.only
            else any(deleted.has(record) for record in state.subjects[subject].values())
        )
    ]


def schemas(
    state: RegistryState,
    prefix: str,
    deleted: Deleted,
    *,
    latest_only: bool,
    aliases: Mapping[str, Sequence[str]],
) -> list[SchemaRecord]:
    """The versions of all subjects that begin with a prefix, or have an alias that does."""
    found: list[SchemaRecord] = []
    for subject in sorted(state.subjects):
        if any(_begins_with(name, prefix) for name in (subject, *aliases.get(subject, ()))):
            versions = [record for record in state.versions(subject, deleted=True) if deleted.has(record)]
            found += versions[-1:] if latest_only else versions
    return found


def _begins_with(subject: str, prefix: str) -> bool:
    if prefix.startswith(ANY_CONTEXT):
        return parted(subject)[1].startswith(prefix.removeprefix(ANY_CONTEXT))
    context, name = parted(prefix)
    return context_of(subject) == context and parted(subject)[1].startswith(name)


def of_id(state: RegistryState, number: int, subject: str | None) -> list[SchemaRecord]:
    """The versions that have an id in the context of a subject. Raises Refusal.

    Without a subject, and with one of the default context, other contexts are searched when that one has no such id,
    with the subject for versions of that name: a client need not know in which context a record was written.
    """
    context, name = parted(subject or "")
    found = state.of_id(context, number)
    if not found and context == DEFAULT_CONTEXT:
        for other in sorted(state.contexts - {context}):
            elsewhere = state.of_id(other, number)
            if elsewhere and (not name or any(parted(record.subject)[1] == name for record in elsewhere)):
                return elsewhere
    if not found:
        raise schema_not_found(number)
    return found


def of_guid(state: RegistryState, guid: str) -> list[tuple[str, int]]:
    """The contexts and ids of a guid. Raises Refusal."""
    found = state.of_guid(guid)
    if not found:
        raise schema_not_found(guid)
    return found


def with_metadata(
    state: RegistryState, subject: str, wanted: Mapping[str, str], *, deleted: bool = False
) -> SchemaRecord:
    """The newest version whose metadata has properties. Raises Refusal."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    for record in reversed(versions):
        properties = properties_of(record.metadata)
        if all(properties.get(key) == value for key, value in wanted.items()):
            return record
    raise schema_not_found()


def page(rows: Sequence[Any], offset: int, limit: int) -> list[Any]:
    """A part of a list; a negative limit is none."""
    return list(rows[offset:] if limit < 0 else rows[offset : offset + limit])


def sources_of(state: RegistryState, records: Iterable[SchemaRecord]) -> tuple[SchemaSource, ...]:
    """Stored versions with all that they refer to, of which each is there once: many versions have the same references.

    Raises Refusal where something of it is removed.
    """
    resolver = _Resolver(state, deleted=True)
    return tuple(
        resolver.source(context_of(record.subject), record.type, record.text, record.references, ())[0]
        for record in records
    )


def resolved_source(
    state: RegistryState,
    context: str,
    kind: SchemaType,
    text: str,
    references: Iterable[Reference],
    *,
    deleted: bool = False,
) -> SchemaSource:
    """A schema with all that it refers to; `deleted`: what is deleted softly is found, too. Raises Refusal."""
    return _Resolver(state, deleted=deleted).source(context, kind, text, tuple(references), ())[0]


class _Resolver:
    """Resolves each version once; counts how often it is named."""

    def __init__(self, state: RegistryState, *, deleted: bool) -> None:
        self._state = state
        self._deleted = deleted
        self._found: dict[tuple[str, int], tuple[SchemaSource, int]] = {}
        self._lists: dict[tuple[str, tuple[Reference, ...]], tuple[dict[str, SchemaSource], int]] = {}
        """Of references, which the versions of a subject have in common."""

    def source(
        self,
        context: str,
        kind: SchemaType,
        text: str,
        references: tuple[Reference, ...],
        path: tuple[tuple[str, int], ...],
    ) -> tuple[SchemaSource, int]:
        """The source, and the number of schemas in it."""
        if len(path) > REFERENCE_DEPTH_MAX:
            raise invalid_schema(f"Invalid schema: references are more than {REFERENCE_DEPTH_MAX} deep")
        known = self._lists.get((context, references))
        if known is None:
            known = self._lists[context, references] = self._resolved(context, references, path)
        resolved, count = known
        return SchemaSource(kind, text, references, resolved), count

    def _resolved(
        self, context: str, references: tuple[Reference, ...], path: tuple[tuple[str, int], ...]
    ) -> tuple[dict[str, SchemaSource], int]:
        resolved: dict[str, SchemaSource] = {}
        count = 1
        for reference in references:
            if reference.name in resolved:
                raise invalid_schema(f"Invalid schema: two references have the name {reference.name!r}")
            resolved[reference.name], size = self._referred(context, reference, path)
            count += size
            if count > REFERENCES_MAX:
                raise invalid_schema(f"Invalid schema: it refers to more than {REFERENCES_MAX} schemas")
        return resolved, count

    def _referred(
        self, context: str, reference: Reference, path: tuple[tuple[str, int], ...]
    ) -> tuple[SchemaSource, int]:
        subject = in_context(context, reference.subject)
        if (subject, reference.version) in self._found:
            return self._found[subject, reference.version]
        try:
            record = version_of(self._state, subject, reference.version, deleted=self._deleted)
        except Refusal:
            text = f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
            raise invalid_schema(f"Invalid schema: {text}") from None
        key = (subject, record.version)
        if key in path:
            raise invalid_schema(f"Invalid schema: {subject} version {record.version} refers to itself")
        if key not in self._found:
            within = context_of(subject)
            self._found[key] = self.source(within, record.type, record.text, record.references, (*path, key))
        return self._found[key]
