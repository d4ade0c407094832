"""Registering a schema, finding one that is registered, and which earlier ones it is compared with. Pure.

Parsing and comparing takes processor time that a schema of a stranger determines, so it is done elsewhere, between
`prepare` and `register`: the latter refuses what was prepared on a state that is not the present one any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.registry.records import INT32_MAX, TENANT, ContextKey, Record, SchemaKey, SchemaRecord
from sordini.registry.state.decision import Decision, check_writable, highest_ids_note
from sordini.registry.state.lookups import LATEST, resolved_source, sources_of, version_of
from sordini.registry.state.names import context_of, in_context
from sordini.registry.state.refusals import (
    Refusal,
    incompatible,
    invalid_schema,
    not_permitted,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from sordini.registry.state.registry_state import (
    Content,
    Mode,
    RegistryState,
    content_of,
    guid_of,
    properties_of,
)
from sordini.registry.state.submission import Submission, checked, completed
from sordini.schemas.registered.types import Level, Reference, SchemaSource
from sordini.system.named_tuple import NamedTuple

COMPATIBILITY_GROUP: Final = "compatibilityGroup"
NORMALIZE: Final = "normalize"
_TRANSITIVE: Final = (Level.BACKWARD_TRANSITIVE, Level.FORWARD_TRANSITIVE, Level.FULL_TRANSITIVE)


class Prepared(NamedTuple):
    """What is to be parsed, and compared with what."""

    submission: Submission
    """As it was requested."""
    completed: Submission
    """With what it takes over of the latest version and of the settings."""
    source: SchemaSource
    level: Level
    earlier: tuple[SchemaRecord, ...]
    """Oldest first."""
    earlier_sources: tuple[SchemaSource, ...]
    normalizes: bool
    format: str = ""
    """In which the text is asked for; empty: canonical."""


class Judged(NamedTuple):
    """What came of it."""

    text: str
    """Canonical, or normalized where that is asked for."""
    problems: tuple[str, ...]
    """Why it is not compatible; empty: it is."""


class OutOfDate(Exception):
    """The state is another one than that on which something was prepared: prepare it again."""


def prepare(state: RegistryState, submission: Submission) -> Prepared:
    """What is to be parsed and compared before a schema is registered. Raises Refusal."""
    mode = state.mode(submission.subject)
    if submission.id is not None and mode is not Mode.IMPORT:
        raise not_permitted(f"Subject {submission.subject} is not in import mode")
    check_writable(state, submission.subject)
    if submission.id is None and mode is Mode.IMPORT:
        raise not_permitted(f"Subject {submission.subject} is not in read-write mode")
    versions = state.versions(submission.subject)
    is_import = mode is Mode.IMPORT
    latest = versions[-1] if versions else None
    whole = checked(submission) if is_import else completed(submission, latest, state.config(submission.subject))
    level = Level.NONE if is_import else state.level(submission.subject)
    prepared = _prepared(state, whole, level, _compared(state, whole, level))
    # A request that names no metadata is met by a version with any.
    return prepared._replace(
        submission=prepared.completed._replace(metadata=submission.metadata, rule_set=submission.rule_set)
    )


def prepare_search(state: RegistryState, submission: Submission, *, deleted: bool) -> Prepared:
    """What is to be parsed before a schema is looked up in its subject. Raises Refusal."""
    if not state.versions(submission.subject, deleted=deleted):
        raise subject_not_found(submission.subject)
    prepared = _prepared(state, checked(submission), Level.NONE, (), deleted=deleted)
    versions = state.versions(submission.subject)
    if not versions:
        return prepared
    whole = completed(prepared.submission, versions[-1], state.config(submission.subject))
    return prepared._replace(completed=whole)


def prepare_comparison(state: RegistryState, submission: Submission, version: int | None) -> Prepared:
    """What is to be compared for a check of compatibility: with a version, or as at a registration. Raises Refusal."""
    level = state.level(submission.subject)
    if version is None:
        return _prepared(state, checked(submission), level, _compared(state, submission, level))
    earlier: tuple[SchemaRecord, ...] = ()
    try:
        earlier = (version_of(state, submission.subject, version),)
    except Refusal:
        if version != LATEST:
            raise version_not_found(version) from None
    return _prepared(state, checked(submission), level, earlier)


def prepare_format(state: RegistryState, record: SchemaRecord, wanted: str) -> Prepared:
    """What is to be parsed for the text of a version in another format. Raises Refusal."""
    submission = Submission(record.subject, record.text, record.type, record.references)
    (source,) = sources_of(state, [record])
    return Prepared(submission, submission, source, Level.NONE, (), (), normalizes=False, format=wanted)


def register(state: RegistryState, prepared: Prepared, judged: Judged) -> Decision:
    """Register a schema; the answer is its record. Raises Refusal, and OutOfDate."""
    submission = prepared.submission
    found = _registered(state, prepared, judged.text)
    if found is not None and submission.id in (None, found.id):
        return Decision((), found)
    if prepare(state, submission) != prepared:
        raise OutOfDate
    if judged.problems:
        raise incompatible(submission.subject, judged.problems)
    record = _new_record(state, prepared.completed, judged)
    context = context_of(submission.subject)
    is_new = context not in state.contexts
    created = (Record(ContextKey(TENANT, context), {"tenant": TENANT, "context": context}),) if is_new else ()
    key = SchemaKey(record.subject, record.version)
    replaced = state.record(*key)
    removed = frozenset([key] if replaced is not None and replaced.id != record.id else ())
    return Decision((*highest_ids_note(state, removed), *created, Record(key, record)), record)


def registered_as_written(state: RegistryState, prepared: Prepared, *, deleted: bool = False) -> SchemaRecord | None:
    """The version of the subject that has the very text: nothing of it need be parsed."""
    if prepared.normalizes or prepared.submission.id is not None:
        return None
    return _version_with(state, prepared.submission, prepared.submission.text, deleted=deleted)


def find_schema(state: RegistryState, prepared: Prepared, judged: Judged, *, deleted: bool) -> SchemaRecord:
    """The version of a subject that has a schema. Raises Refusal."""
    found = _registered(state, prepared, judged.text, deleted=deleted)
    if found is None:
        raise schema_not_found()
    return found


def _prepared(
    state: RegistryState,
    submission: Submission,
    level: Level,
    earlier: Sequence[SchemaRecord],
    *,
    deleted: bool = False,
) -> Prepared:
    source = resolved_source(
        state,
        context_of(submission.subject),
        submission.type,
        submission.text,
        submission.references,
        deleted=deleted,
    )
    references = tuple(_fixed(state, submission, reference) for reference in submission.references)
    fixed = submission._replace(references=references)
    return Prepared(
        fixed,
        fixed,
        source._replace(references=references),
        level,
        tuple(earlier),
        sources_of(state, earlier),
        submission.normalizes or bool(state.config(submission.subject).get(NORMALIZE)),
    )


def _fixed(state: RegistryState, submission: Submission, reference: Reference) -> Reference:
    """A reference to the latest version as one to that version: it would be another schema with each new one."""
    if reference.version != LATEST:
        return reference
    subject = in_context(context_of(submission.subject), reference.subject)
    return reference._replace(version=version_of(state, subject, LATEST).version)


def _compared(state: RegistryState, submission: Submission, level: Level) -> tuple[SchemaRecord, ...]:
    """The versions that a new one is compared with, oldest first."""
    if level is Level.NONE:
        return ()
    versions = state.versions(submission.subject)
    group = state.config(submission.subject).get(COMPATIBILITY_GROUP)
    if group:
        wanted = properties_of(submission.metadata).get(group)
        versions = [record for record in versions if properties_of(record.metadata).get(group) == wanted]
    return tuple(versions if level in _TRANSITIVE else versions[-1:])


def _registered(state: RegistryState, prepared: Prepared, text: str, *, deleted: bool = False) -> SchemaRecord | None:
    """The version of the subject that has a schema as it was sent, or else as it is completed."""
    found = _version_with(state, prepared.submission, text, deleted=deleted)
    return found or _version_with(state, prepared.completed, text, deleted=deleted)


def _version_with(
    state: RegistryState, submission: Submission, text: str, *, deleted: bool = False
) -> SchemaRecord | None:
    """The newest version of the subject with a content; one that the request leaves open may be any."""
    wanted = _content(submission, text)
    for record in reversed(state.versions(submission.subject, deleted=deleted)):
        content = content_of(record)
        if submission.metadata is None:
            content = content._replace(metadata=None)
        if submission.rule_set is None:
            content = content._replace(rule_set=None)
        if content == wanted:
            return record
    return None


def _content(submission: Submission, text: str) -> Content:
    return content_of(_record(submission, text, 1, 1))


def _record(submission: Submission, text: str, version: int, number: int) -> SchemaRecord:
    return SchemaRecord(
        submission.subject,
        version,
        number,
        text,
        submission.type,
        submission.references,
        submission.metadata,
        submission.rule_set,
    )


def _new_record(state: RegistryState, submission: Submission, judged: Judged) -> SchemaRecord:
    context, content = context_of(submission.subject), _content(submission, judged.text)
    number = submission.id
    if number is None:
        number = state.id_of(context, content) or state.next_id(context)
    elif any(content_of(record) != content for record in state.of_id(context, number)):
        raise not_permitted(f"Overwrite new schema with id {number} is not permitted.")
    versions = state.versions(submission.subject, deleted=True)
    following = versions[-1].version + 1 if versions else 1
    version = submission.version or following
    for kind, one in (("id", number), ("version", version)):
        if one > INT32_MAX:  # After an import of the last one: other registries read no more.
            raise not_permitted(f"No {kind} is left for subject {submission.subject}: {INT32_MAX} is taken")
    if submission.id is None and version != following:
        raise invalid_schema(f"Version is not one more than previous version: {version}, and not {following}")
    present = state.record(submission.subject, version)
    if present is not None and not present.deleted and present.id != number:
        raise not_permitted(f"Overwrite version {version} of subject {submission.subject} is not permitted.")
    made = _record(submission, judged.text, version, number)
    return made._replace(guid=guid_of(made))
