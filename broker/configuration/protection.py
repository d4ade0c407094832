"""What becomes of a key that is about protection: refused at the start, refused over the wire, or taken.

The rule is to fail closed. A value that asks for protection which this broker does not give stops the start, wherever
it stands: in the file, in --override or in the environment; with a listener's name in front
(`listener.name.<name>.<key>`, `listener.name.<name>.<mechanism>.<key>`) as without; in small letters or in others. So
does a key that belongs to such a family and that no release of Apache Kafka has: it may be misspelt.
"""

from __future__ import annotations

import re

from sordini.broker.configuration.ignored_keys import IGNORED_STATIC, WITHOUT_EFFECT
from sordini.broker.configuration.protection_keys import BY_LISTENER, TABLE, Change, Protection, Verdict
from sordini.broker.configuration.settings import ConfigError, ValueKind

LISTENER_PREFIX = "listener.name."
FAMILY = re.compile(
    r"(listener\.name\.(.*\.)?)?(acl|allow\.everyone|authorizer|delegation\.token|quota|sasl|security|ssl|super)s?\..*"
    r"|zookeeper\.ssl\..*|.*\.policy\.class(\.name)?",
    re.DOTALL,
)
"""Names by which only protection is asked for; a plugin's own keys begin with the plugin's name."""

_BY_LOWER_CASE = {key.lower(): row for key, row in TABLE.items()}
_PARTS_MAX = max(key.count(".") for key in TABLE) + 1
_OF_LISTENERS = {
    key: Protection(key, Verdict.REFUSED, rule, BY_LISTENER.what, Change.ANYWHERE)
    for key, rule in BY_LISTENER.keys.items()
}


def find_protection(key: str) -> Protection | None:
    """What is known of a refused or harmless key, with or without a listener's name in front."""
    lowered = key.lower()
    if not lowered.startswith(LISTENER_PREFIX):
        return _BY_LOWER_CASE.get(lowered)
    parts = lowered.removeprefix(LISTENER_PREFIX).split(".")
    # Of several ends that are keys the longest counts; a listener's name and a mechanism go before it.
    for begin in range(max(1, len(parts) - _PARTS_MAX), len(parts)):
        end = ".".join(parts[begin:])
        found = _BY_LOWER_CASE.get(end) or _OF_LISTENERS.get(end)
        if found is not None:
            return found
    return None


def is_without_effect(key: str) -> bool:
    """Whether a key is Apache Kafka's and does nothing here: it may stand in a configuration."""
    return key in WITHOUT_EFFECT or find_protection(key) is not None


def is_static(key: str) -> bool:
    """Whether it is a key without effect here that Apache Kafka does not change while it runs, in any form."""
    if key in IGNORED_STATIC:
        return True
    found = find_protection(key)
    return found is not None and found.change is Change.NOWHERE and not key.startswith(LISTENER_PREFIX)


def requested_protection(key: str, text: str) -> str | None:
    """Which protection a value asks for that this broker does not give; None where it asks for nothing."""
    found = find_protection(key)
    if found is None or found.verdict is not Verdict.REFUSED or not text.strip():
        return None
    try:
        found.rule.parse(text.strip())
    except ValueError:
        return found.why
    return None


def check_start(key: str, text: str) -> None:
    """Raise ConfigError for an entry with which this broker must not start. Keys that are served are not its matter."""
    what = requested_protection(key, text)
    if what is not None:
        found = find_protection(key)
        assert found is not None
        shown = "(hidden)" if found.rule.kind is ValueKind.PASSWORD else repr(text)
        raise ConfigError(f"{key}={shown} asks for {what}; allowed is {found.rule.allowed}, or to leave it out")
    if find_protection(key) is None and FAMILY.fullmatch(key.lower()) is not None:
        raise ConfigError(
            f"{key} is not known: a key that may ask for protection is not passed over; allowed are those of "
            f"docs/configuration.md, section Protection"
        )
