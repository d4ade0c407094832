"""Keys of one listener: `listener.name.<name>.<key>`, and `listener.name.<name>.<mechanism>.<key>` (KIP-103, KIP-226).

Names of listeners and mechanisms are not case-sensitive here. A key of one listener precedes the key without a prefix,
and one of a mechanism precedes both. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sordini.broker.configuration.keys.connection_keys import ConnectionSettings
from sordini.broker.configuration.keys.protection_keys import SERVED, TABLE
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.settings import Prefix, Setting, settings_of
from sordini.system.named_tuple import NamedTuple

LISTENER_PREFIX = "listener.name."

_OF_SECURITY, _OF_CONNECTIONS = settings_of(SecuritySettings), settings_of(ConnectionSettings)
_FIELDS = _OF_SECURITY | _OF_CONNECTIONS
_KEYS = sorted(
    (key for key, (_, declared) in _FIELDS.items() if declared.prefix is not Prefix.NONE), key=len, reverse=True
)
"""The longest first: of two keys that end a name, the longer one is meant."""
_OTHER_KEYS = tuple("." + key for key in (*TABLE, *SERVED) if key.endswith(tuple("." + served for served in _KEYS)))
"""Longer keys that are not served: `zookeeper.ssl.cipher.suites`."""

Overrides = tuple[tuple[str, Any], ...]
"""Keys with a prefix in lower case, and their values as parsed, by key."""


class ListenerKey(NamedTuple):
    """What a key with a prefix stands for."""

    listener: str
    """In upper case, as in `Endpoint`."""
    mechanism: str | None
    """In lower case; None for all mechanisms."""
    field: str
    """Of `SecuritySettings` or `ConnectionSettings`."""
    setting: Setting

    @property
    def is_of_security(self) -> bool:
        return self.setting.key in _OF_SECURITY


class ListenerSecurity(NamedTuple):
    """What protects one listener."""

    name: str
    protocol: str
    keys: SecuritySettings
    by_mechanism: Mapping[str, SecuritySettings]
    """Of SASL mechanisms with keys of their own, by their names in lower case."""

    def of_mechanism(self, mechanism: str) -> SecuritySettings:
        """The settings of one SASL mechanism of this listener."""
        return self.by_mechanism.get(mechanism.lower(), self.keys)


def find_listener_key(key: str) -> ListenerKey | None:
    """What a served key with a listener prefix stands for; None for any other key."""
    lowered = key.lower()
    if not lowered.startswith(LISTENER_PREFIX) or lowered.endswith(_OTHER_KEYS):
        return None
    rest = lowered.removeprefix(LISTENER_PREFIX)
    for base in _KEYS:
        name = rest.removesuffix("." + base)
        if name != rest and name:
            field, declared = _FIELDS[base]
            listener, _, mechanism = name.partition(".") if declared.prefix is Prefix.MECHANISM else (name, "", "")
            return ListenerKey(listener.upper(), mechanism or None, field, declared)
    return None


def as_overrides(entries: Mapping[str, str]) -> Overrides:
    """The keys with a listener prefix among entries, parsed. Raises ConfigError at the first wrong value."""
    found: dict[str, Any] = {}
    for key, text in entries.items():
        known = find_listener_key(key)
        if known is not None:
            found[key.lower()] = known.setting.rule.read(key, text)
    return tuple(sorted(found.items()))


def merged(overrides: Overrides, newer: Overrides) -> Overrides:
    """Both, where `newer` precedes."""
    return tuple(sorted((dict(overrides) | dict(newer)).items())) if newer else overrides


def listener_security(broker: SecuritySettings, overrides: Overrides, name: str, protocol: str) -> ListenerSecurity:
    """The settings of the listener `name`."""
    of_listener: dict[str, Any] = {}
    of_mechanisms: dict[str, dict[str, Any]] = {}
    for key, value in overrides:
        known = find_listener_key(key)
        if known is not None and known.is_of_security and known.listener == name.upper():
            own = of_listener if known.mechanism is None else of_mechanisms.setdefault(known.mechanism, {})
            own[known.field] = value
    common = {field: getattr(broker, field) for field, _ in _OF_SECURITY.values()} | of_listener
    by_mechanism = {mechanism: SecuritySettings(**(common | own)) for mechanism, own in of_mechanisms.items()}
    return ListenerSecurity(name.upper(), protocol, SecuritySettings(**common), by_mechanism)


def listener_connections(broker: ConnectionSettings, overrides: Overrides, name: str) -> ConnectionSettings:
    """The bounds of the connections of the listener `name`."""
    values = {field: getattr(broker, field) for field, _ in _OF_CONNECTIONS.values()}
    for key, value in overrides:
        known = find_listener_key(key)
        if known is not None and not known.is_of_security and known.listener == name.upper():
            values[known.field] = value
    return ConnectionSettings(**values)


def of_unknown_listeners(overrides: Overrides, names: Iterable[str]) -> list[str]:
    """The keys of listeners that are not there: accepted without effect, as in Apache Kafka."""
    known = {name.upper() for name in names}
    found = ((key, find_listener_key(key)) for key, _ in overrides)
    return [key for key, of in found if of is not None and of.listener not in known]
