"""Deleting versions and subjects: softly, where ids are still found, and then for good; and empty contexts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sordini.registry.records import (
    TENANT,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    ModeKey,
    Record,
    SchemaKey,
    SchemaRecord,
)
from sordini.registry.state.decision import Decision, check_writable, highest_ids_note
from sordini.registry.state.lookups import version_of
from sordini.registry.state.names import DEFAULT_CONTEXT, context_of, qualified
from sordini.registry.state.refusals import (
    context_not_empty,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_soft_deleted,
    version_soft_deleted,
)
from sordini.registry.state.registry_state import RegistryState


def delete_version(state: RegistryState, subject: str, version: int, *, permanent: bool) -> Decision:
    """Delete a version; the answer is its number. Raises Refusal."""
    check_writable(state, subject)
    if not state.subjects.get(subject):
        raise subject_not_found(subject)
    record = version_of(state, subject, version, deleted=permanent or version > 0)
    _check_unreferenced(state, [record])
    key = SchemaKey(subject, record.version)
    if permanent:
        if not record.deleted:
            raise version_not_soft_deleted(subject, record.version)
        return Decision((*highest_ids_note(state, frozenset([key])), Record(key, None)), record.version)
    if record.deleted:
        raise version_soft_deleted(subject, record.version)
    is_last = len(state.versions(subject)) == 1
    settings = _settings(state, subject) if is_last else ()
    return Decision((Record(key, record._replace(deleted=True)), *settings), record.version)


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> Decision:
    """Delete all versions of a subject; the answer is their numbers. Raises Refusal."""
    check_writable(state, subject)
    stored = state.versions(subject, deleted=True)
    if not stored:
        raise subject_not_found(subject)
    undeleted = state.versions(subject)
    if permanent:
        if undeleted:
            raise subject_not_soft_deleted(subject)
        _check_unreferenced(state, stored)
        keys = [SchemaKey(subject, record.version) for record in stored]
        records = (*highest_ids_note(state, frozenset(keys)), *(Record(key, None) for key in keys))
        return Decision(records, [record.version for record in stored])
    if not undeleted:
        raise subject_soft_deleted(subject)
    _check_unreferenced(state, undeleted)
    numbers = [record.version for record in undeleted]
    deletion = Record(DeleteSubjectKey(subject), {"subject": subject, "version": numbers[-1]})
    return Decision((deletion, *_settings(state, subject)), numbers)


def delete_context(state: RegistryState, context: str) -> Decision:
    """Delete a context that has no subjects, not even softly deleted ones; there is no answer. Raises Refusal."""
    if any(context_of(subject) == context for subject in state.subjects):
        raise context_not_empty(f":{context}:")
    check_writable(state, qualified(context, ""))
    is_there = context in state.contexts and context != DEFAULT_CONTEXT
    return Decision((Record(ContextKey(TENANT, context), None),) if is_there else (), None)


def _check_unreferenced(state: RegistryState, records: Iterable[SchemaRecord]) -> None:
    for record in records:
        if state.referrers(record.subject, record.version):
            raise reference_exists(record.subject, record.version)


def _settings(state: RegistryState, subject: str) -> tuple[Record, ...]:
    """The removal of a subject's own settings."""
    modes = (Record(ModeKey(subject), None),) if subject in state.modes else ()
    configs = (Record(ConfigKey(subject), None),) if subject in state.configs else ()
    return (*modes, *configs)
