"""Contexts and qualified subjects: `:.test:orders-value` is the subject `orders-value` of the context `.test`. Pure.

The context of a subject without one is `.`; `:.:orders-value` is the same subject as `orders-value`. What is between
the colons may be followed by nothing: `:.test:` is the context itself, for its settings.
"""

from __future__ import annotations

from typing import Final

from sordini.registry.state.refusals import invalid_subject

DEFAULT_CONTEXT: Final = "."
GLOBAL_CONTEXT: Final = ".__GLOBAL"
"""Of settings for all contexts, as a subject `:.__GLOBAL:`."""
ANY_CONTEXT: Final = ":*:"
SUBJECT_CHARACTERS_MAX: Final = 1024


def normalized_subject(subject: str) -> str:
    """The one way to write a subject. Raises Refusal for one that is too long or has control characters."""
    if len(subject) > SUBJECT_CHARACTERS_MAX or any(_is_control(character) for character in subject):
        raise invalid_subject(subject[:SUBJECT_CHARACTERS_MAX])
    context, name = parted(subject)
    return qualified(context, name)


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character < "\xa0" or "\ud800" <= character <= "\udfff"


def parted(subject: str) -> tuple[str, str]:
    """The context, and the name in it."""
    if not subject.startswith(":."):
        return DEFAULT_CONTEXT, subject
    context, _, name = subject[1:].partition(":")
    return context, name


def qualified(context: str, name: str) -> str:
    """The reverse of `parted`."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def context_of(subject: str) -> str:
    """The context of a subject."""
    return parted(subject)[0]


def in_context(context: str, subject: str) -> str:
    """A subject that a request of a context names; one that is qualified stays in its own."""
    return subject if subject.startswith(":.") else qualified(context, subject)


def settings_scope(subject: str | None) -> str | None:
    """The subject under which the settings of a subject are stored; None: those of all."""
    if subject is None or parted(subject) in {(DEFAULT_CONTEXT, ""), (GLOBAL_CONTEXT, "")}:
        return None
    return subject


def scopes(subject: str | None) -> list[str | None]:
    """Where settings of a subject are looked up, in this order: its own, its context's, those of all."""
    scope = settings_scope(subject)
    if scope is None:
        return [None]
    context, _ = parted(scope)
    between: list[str | None] = [] if context == DEFAULT_CONTEXT else [qualified(context, "")]
    return list(dict.fromkeys([scope, *between, None]))
