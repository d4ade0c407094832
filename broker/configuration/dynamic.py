"""The broker's configuration in force: what was given at the start, and over it what was changed since (KIP-226).

Four layers, the first that has a key wins:

    this broker's own entries     /config/brokers/<id>         dynamic
    all brokers' entries          /config/brokers/<default>    dynamic
    what the broker was started with                           static
    the default

The dynamic layers stand in the coordination store and are handed in as they are read. Each change makes one new
frozen `Config` and tells the listeners; whoever needs a value at every request is a listener and keeps it. What
cannot be used of a layer (somebody else's key, a wrong value) is passed over and told, by its key and never by its
value, which may be secret.
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
    """Where a value came from, as DescribeConfigs reports it (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


CORDON = "cordoned.log.dirs"
LAYERS = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
"""The dynamic layers, the one that wins first."""


class Synonym(NamedTuple):
    """A key that could give another its value, with the value it gives and where that stands."""

    name: str
    value: str | None
    source: ConfigSource


class IgnoredEntry(NamedTuple):
    """An entry of the store that has no effect, and why."""

    key: str
    reason: str


class DynamicConfig:
    """The layers, and what they come to. Listeners run in the turn that brings the change."""

    def __init__(self, static: Config, explicit: frozenset[str] = frozenset()) -> None:
        """`explicit` names the keys that `static` was given, as opposed to left at their defaults."""
        self.explicit = explicit
        self.config = static
        """The values in force."""
        self._static = static
        self._entries: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._usable: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._listeners: list[Callable[[Config], None]] = []

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` with the values in force whenever one of them has changed."""
        self._listeners.append(listener)

    def entries(self, source: ConfigSource) -> Mapping[str, str]:
        """A dynamic layer as it stands in the store."""
        return self._entries[source]

    def set_layer(self, source: ConfigSource, entries: Mapping[str, str]) -> list[IgnoredEntry]:
        """Take a dynamic layer as it stands in the store now; what of it has no effect."""
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
        """Raise ConfigError when a layer must not become what `entries` say while the broker runs."""
        usable = _usable(entries, unusable(entries))
        then = self._combine({**self._usable, source: usable})
        check_cleaner_change(self.config, then)
        if entries.get(CORDON) != self._entries[source].get(CORDON):
            for entry in _of_one_broker(source, entries):
                raise ConfigError(f"{entry.key} cannot be set for all brokers: {entry.reason}")
            check_cordoned(then)

    def synonyms(self, keys: Sequence[str]) -> list[Synonym]:
        """Every value given to one of several keys that mean the same, the one in force first.

        They are named from the finest (milliseconds) to the coarsest (hours). As with Apache Kafka, the default of a
        coarser one is only told beside a value that was set.
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
        told = keys if found else keys[:1]
        defaults = [(key, SETTINGS[key][1].default_text) for key in told]
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
    """What of a dynamic layer has no effect, and why.

    Keys that are known to have none are not named, unless they ask for protection that is not given here.
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
