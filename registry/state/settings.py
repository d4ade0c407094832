"""Compatibility and the other settings, and modes: of a subject, of a context, of all. Pure.

The names of settings are those of the REST API; in requests the level is `compatibility`, in answers and in records
`compatibilityLevel`. What a request leaves out stays as it is, and null removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sordini.registry.records import ConfigKey, Json, ModeKey, Record
from sordini.registry.state.decision import Decision
from sordini.registry.state.names import normalized_subject, parted, qualified, settings_scope
from sordini.registry.state.refusals import (
    Refusal,
    compatibility_not_configured,
    invalid_level,
    invalid_mode,
    mode_not_configured,
    not_permitted,
    subject_not_found,
)
from sordini.registry.state.registry_state import ALIAS, LEVEL, Mode, RegistryState
from sordini.registry.state.submission import DEFAULT_METADATA, DEFAULT_RULES, OVERRIDE_METADATA, OVERRIDE_RULES
from sordini.schemas.registered.types import Level

REQUESTED_LEVEL: Final = "compatibility"
_KINDS: Final[dict[str, type]] = {
    ALIAS: str,
    "aliasForDeks": str,
    "normalize": bool,
    "validateFields": bool,
    "validateNewSchemas": bool,
    "validateRules": bool,
    "compatibilityPolicy": str,
    "compatibilityGroup": str,
    DEFAULT_METADATA: dict,
    OVERRIDE_METADATA: dict,
    DEFAULT_RULES: dict,
    OVERRIDE_RULES: dict,
}
"""Settings beside the level, and what they are in JSON."""


def config_of(state: RegistryState, subject: str | None, *, default_to_global: bool) -> Json:
    """The settings of a subject as they are configured, or as they are in force. Raises Refusal."""
    if subject is None or default_to_global:
        return state.config(subject)
    found = state.configs.get(settings_scope(subject))
    if found is None:
        raise compatibility_not_configured(subject)
    return found


def set_config(state: RegistryState, subject: str | None, request: Json) -> Decision:
    """Change settings; the answer is the request. Raises Refusal."""
    _check_mode(state, subject)
    changes: dict[str, Any] = {}
    for name, value in request.items():
        if name in (REQUESTED_LEVEL, LEVEL):
            changes[LEVEL] = None if value is None else _level(value)
        elif name in _KINDS:
            if value is not None and not isinstance(value, _KINDS[name]):
                raise Refusal(422, f"{name}={value!r}: allowed is {_KINDS[name].__name__} or null")
            if name == ALIAS and isinstance(value, str):
                normalized_subject(value)
            changes[name] = value
    if not changes:
        raise invalid_level()
    present = state.configs.get(settings_scope(subject), {})
    merged = {name: value for name, value in {**present, **changes}.items() if value is not None}
    answer = {(REQUESTED_LEVEL if name == LEVEL else name): value for name, value in changes.items()}
    return Decision((Record(ConfigKey(settings_scope(subject)), merged or None),), answer)


def delete_config(state: RegistryState, subject: str | None) -> Decision:
    """Remove the settings of a subject, or of all; the answer is what they were. Raises Refusal.

    It has the level under both names: Confluent's registry answers with that of answers, franz-go and Karapace read and
    send that of requests.
    """
    _check_mode(state, subject)
    present = state.configs.get(settings_scope(subject))
    if present is None and subject is not None:
        raise subject_not_found(subject)
    former = present or state.config(None)
    answer = {**former, REQUESTED_LEVEL: former[LEVEL]} if LEVEL in former else former
    return Decision((Record(ConfigKey(settings_scope(subject)), None),), answer)


def mode_of(state: RegistryState, subject: str | None, *, default_to_global: bool) -> Json:
    """The mode of a subject as it is configured, or as it is in force. Raises Refusal."""
    scope = settings_scope(subject)
    if scope is None or default_to_global:
        return {"mode": state.mode(subject).value}
    if scope not in state.modes:
        raise mode_not_configured(scope)
    return {"mode": state.modes[scope].value}


def set_mode(state: RegistryState, subject: str | None, name: object, *, force: bool) -> Decision:
    """Change a mode; the answer is the request. Raises Refusal.

    IMPORT is refused where there are schemas: theirs would be the ids of others. `force` allows it.
    """
    upper = name.upper() if isinstance(name, str) else ""
    if upper not in Mode.__members__:
        raise invalid_mode()
    scope, mode = settings_scope(subject), Mode(upper)
    if mode is Mode.IMPORT and state.mode(subject) is not Mode.IMPORT and not force and _has_schemas(state, scope):
        raise not_permitted("Cannot import since found existing subjects")
    return Decision((Record(ModeKey(scope), {"mode": mode.value}),), {"mode": mode.value})


def delete_mode(state: RegistryState, subject: str | None) -> Decision:
    """Remove the mode of a subject, or of all; the answer is what it was. Raises Refusal."""
    scope = settings_scope(subject)
    present = state.modes.get(scope)
    if present is None and subject is not None:
        raise subject_not_found(subject)
    return Decision((Record(ModeKey(scope), None),), {"mode": (present or Mode.READWRITE).value})


def _check_mode(state: RegistryState, subject: str | None) -> None:
    if state.mode(subject) in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        shown = "The registry" if subject is None else f"Subject {subject}"
        raise not_permitted(f"{shown} is in read-only mode")


def _level(value: object) -> str:
    upper = value.upper() if isinstance(value, str) else ""
    if upper not in Level.__members__:
        raise invalid_level()
    return upper


def _has_schemas(state: RegistryState, scope: str | None) -> bool:
    return any(state.versions(subject) for subject in filter(_within(scope), state.subjects))


def _within(scope: str | None) -> Callable[[str], bool]:
    """Whether a subject has the settings of a scope."""
    if scope is None:
        return lambda _subject: True
    context, name = parted(scope)
    return lambda subject: subject == scope if name else subject.startswith(qualified(context, ""))
