"""The broker's configuration in force: static values, and the dynamic layers over them (KIP-226).

Four layers, the first that has a key wins:

    this broker's own entries     /config/brokers/<id>         dynamic
    all brokers' entries          /config/brokers/<default>    dynamic
    the configuration at the start                             static
    the default

The dynamic layers are in the coordination store, and are set here when they have been read. Each change makes one new
frozen `Config` and notifies the listeners; a part that needs a value at every request listens and keeps it. An unusable
entry of a layer (an unknown key, a wrong value) is ignored and reported, by its key and never by its value, which may
be secret.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from sordini.broker.configuration.cleaner_keys import check_cleaner_change
from sordini.broker.configuration.config import SETTINGS, Config, check_cordoned
from sordini.broker.configuration.protection import is_without_effect, requested_protection
from sordini.broker.configuration.settings import ConfigError, value_text


class ConfigSource(IntEnum):
    """The source of a value, as in DescribeConfigs (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


CORDON = "cordoned.log.dirs"
LAYERS = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
"""The dynamic layers, the one with precedence first."""


class Synonym(NamedTuple):
    """A key that can provide another key's value, with that value and its source."""

    name: str
    value: str | None
    source: ConfigSource


class IgnoredEntry(NamedTuple):
    """An entry of the store that is ignored, and why."""

    key: str
    reason: str


class DynamicConfig:
    """The layers and the resulting configuration. Listeners run synchronously with the change."""

    def __init__(self, static: Config, explicit: frozenset[str] = frozenset()) -> None:
        """`explicit` names the keys that are set in `static`; the others have their defaults."""
        self.explicit = explicit
        self.config = static
        """The values in force."""
        self._static = static
        self._entries: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._usable: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._listeners: list[Callable[[Config], None]] = []

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` with the new values at every change."""
        self._listeners.append(listener)

    def entries(self, source: ConfigSource) -> Mapping[str, str]:
        """A dynamic layer, as in the store."""
        return self._entries[source]

    def set_layer(self, source: ConfigSource, entries: Mapping[str, str]) -> list[IgnoredEntry]:
        """Set a dynamic layer, as read from the store; returns the ignored entries."""
        ignored = unusable(entries) + _of_one_broker(source, entries)
        self._entries[source] = dict(entries)
        self._usable[source] = _usable(entries, ignored)
        config = self._combine(self._usable)
        if config != self.config:
            self.config = config
            for listener in self._listeners:
                listener(config)
        return ignored

    def check(self, source: ConfigSource, entries: Mapping[str, str]) -> None:
        """Raise ConfigError when a layer cannot be set to `entries` while the broker runs."""
        usable = _usable(entries, unusable(entries))
        changed = self._combine({**self._usable, source: usable})
        check_cleaner_change(self.config, changed)
        if entries.get(CORDON) != self._entries[source].get(CORDON):
            for entry in _of_one_broker(source, entries):
                raise ConfigError(f"{entry.key} cannot be set for all brokers: {entry.reason}")
            check_cordoned(changed)

    def synonyms(self, keys: Sequence[str]) -> list[Synonym]:
        """Every value of several synonymous keys, the one in force first.

        `keys` are ordered from the finest unit (milliseconds) to the coarsest (hours). As in Apache Kafka, defaults of
        coarser keys are returned only if one of the keys is set.
        """
        found = [
            Synonym(key, self._usable[source][key], source)
            for source in LAYERS
            for key in keys
            if key in self._usable[source]
        ]
        found += [
            Synonym(key, value_text(getattr(self._static, SETTINGS[key][0])), ConfigSource.STATIC_BROKER)
            for key in keys
            if key in self.explicit
        ]
        with_default = keys if found else keys[:1]
        defaults = [(key, SETTINGS[key][1].default_text) for key in with_default]
        return found + [Synonym(key, text, ConfigSource.DEFAULT) for key, text in defaults if text is not None]

    def _combine(self, layers: Mapping[ConfigSource, Mapping[str, str]]) -> Config:
        values: dict[str, Any] = {}
        for source in reversed(LAYERS):
            for key, text in layers[source].items():
                field, declared = SETTINGS[key]
                values[field] = declared.rule.read(key, text)
        return dataclasses.replace(self._static, **values)


def _usable(entries: Mapping[str, str], ignored: Sequence[IgnoredEntry]) -> dict[str, str]:
    useless = {entry.key for entry in ignored}
    return {key: text for key, text in entries.items() if key in SETTINGS and key not in useless}


def _of_one_broker(source: ConfigSource, entries: Mapping[str, str]) -> list[IgnoredEntry]:
    if source is ConfigSource.DYNAMIC_DEFAULT_BROKER and CORDON in entries:
        return [IgnoredEntry(CORDON, "it names directories of one broker")]
    return []


def unusable(entries: Mapping[str, str]) -> list[IgnoredEntry]:
    """The entries of a dynamic layer that are ignored, and why.

    Keys of Apache Kafka without effect are not named, unless they request protection that this broker does not have.
    """
    found = []
    for key, text in entries.items():
        known = SETTINGS.get(key)
        if known is None:
            what = requested_protection(key, text)
            if what is not None:
                found.append(IgnoredEntry(key, f"it asks for {what}"))
            elif not is_without_effect(key):
                found.append(IgnoredEntry(key, "unknown key"))
        elif not known[1].is_dynamic:
            found.append(IgnoredEntry(key, "it cannot be changed while the broker runs"))
        else:
            try:
                known[1].rule.read(key, text)
            except ConfigError:
                found.append(IgnoredEntry(key, f"allowed is {known[1].rule.allowed}"))
    return found
