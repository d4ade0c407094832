"""What happens to a key about protection: refused at the start, refused over the wire, or accepted.

The rule is to fail closed. A value that requests protection which this broker does not have refuses the start, from
the file, from --override or from the environment; with a listener prefix (`listener.name.<name>.<key>`,
`listener.name.<name>.<mechanism>.<key>`) or without; in lower or upper case. So does an unknown key of such a family,
because it may be misspelt.
"""

from __future__ import annotations

import re

from sordini.broker.configuration.keys.ignored_keys import IGNORED_STATIC, WITHOUT_EFFECT
from sordini.broker.configuration.keys.listener_keys import LISTENER_PREFIX
from sordini.broker.configuration.keys.protection_keys import BY_LISTENER, TABLE, KeyTreatment, Protection
from sordini.broker.configuration.settings import Change, ConfigError, ValueKind

FAMILY = (
    r"(?s:(listener\.name\.(.*\.)?)?(acl|allow\.everyone|authorizer|delegation\.token|quota(?!\.window\.)|sasl|security|ssl|super)s?\..*"
    r"|(sordini\.)?zookeeper\.(ssl|set|auth)\..*|zookeeper\.clientcnxnsocket.*|password\.encoder\..*|.*\.policy\.class(\.name)?)"
)
"""Families of keys about protection only; a plugin's own keys begin with the plugin's name.

The windows of quotas are not among them: they say how a rate is measured, and limit nothing.
"""

_BY_LOWER_CASE = {key.lower(): row for key, row in TABLE.items()}
_PARTS_MAX = max(key.count(".") for key in TABLE) + 1
_OF_LISTENERS = {
    key: Protection(key, KeyTreatment.REFUSED, rule, BY_LISTENER.request, Change.ANYWHERE)
    for key, rule in BY_LISTENER.keys.items()
}


def find_protection(key: str) -> Protection | None:
    """The entry of a refused or harmless key, with or without a listener prefix; None for any other key."""
    lowered = key.lower()
    if not lowered.startswith(LISTENER_PREFIX):
        return _BY_LOWER_CASE.get(lowered)
    parts = lowered.removeprefix(LISTENER_PREFIX).split(".")
    # The longest suffix that is a key counts; a listener name and a mechanism precede it.
    for begin in range(max(1, len(parts) - _PARTS_MAX), len(parts)):
        end = ".".join(parts[begin:])
        found = _BY_LOWER_CASE.get(end) or _OF_LISTENERS.get(end)
        if found is not None:
            return found
    return None


def is_without_effect(key: str) -> bool:
    """Whether a key of Apache Kafka is accepted in a configuration without effect."""
    return key in WITHOUT_EFFECT or find_protection(key) is not None


def is_static(key: str) -> bool:
    """Whether Apache Kafka never changes this key, which has no effect here, at run time."""
    if key in IGNORED_STATIC:
        return True
    found = find_protection(key)
    return found is not None and found.change is Change.NOWHERE and not key.startswith(LISTENER_PREFIX)


def requested_protection(key: str, text: str) -> str | None:
    """The protection that a value requests and this broker does not have; None if it requests none."""
    found = find_protection(key)
    if found is None or found.treatment is not KeyTreatment.REFUSED or not text.strip():
        return None
    try:
        found.rule.parse(text.strip())
    except ValueError:
        return found.why
    return None


def check_start(key: str, text: str) -> None:
    """Raise ConfigError for an entry that refuses the start; not for keys that are served."""
    what = requested_protection(key, text)
    if what is not None:
        found = find_protection(key)
        assert found is not None
        shown = "(hidden)" if found.rule.kind is ValueKind.PASSWORD else repr(text)
        raise ConfigError(f"{key}={shown} asks for {what}; allowed is {found.rule.allowed}, or to leave it out")
    # No listener has a ZooKeeper of its own; over the wire such a key is another broker's, as with Apache Kafka.
    base = re.sub(r"listener\.name\..*?\.(?=zookeeper\.)", "", key.lower())
    if find_protection(key) is None and re.fullmatch(FAMILY, base) is not None:
        raise ConfigError(
            f"{key} is not known: a key that may ask for protection is not ignored; allowed are those of "
            f"docs/configuration.md, section Protection"
        )
