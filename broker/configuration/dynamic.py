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

A topic's own layer is `topic_config.py`, a group's `group_config.py`; requests edit layers by `edits.py`, and every
broker follows them by `broker/administration/config_receiver.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from sordini.broker.configuration.config import SETTINGS, Config, check_cordoned, find_setting, is_password
from sordini.broker.configuration.keys.cleaner_keys import check_cleaner_change
from sordini.broker.configuration.keys.connection_keys import check_connections_change
from sordini.broker.configuration.keys.consumer_group_keys import check_consumer_groups
from sordini.broker.configuration.keys.listener_keys import LISTENER_PREFIX, as_overrides, find_listener_key, merged
from sordini.broker.configuration.keys.password_encoder_keys import PASSWORDS_MAX
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.keys.share_group_keys import check_share_groups
from sordini.broker.configuration.password_encoder import PasswordEncoder
from sordini.broker.configuration.protection.protection import is_without_effect, requested_protection
from sordini.broker.configuration.renamed_keys import of_the_store
from sordini.broker.configuration.settings import (
    Change,
    ConfigError,
    Setting,
    settings_of,
    value_text,
)
from sordini.system.named_tuple import NamedTuple


class ConfigSource(IntEnum):
    """The source of a value, as in DescribeConfigs (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


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
        self.encoder = PasswordEncoder(static)
        """Of the passwords in the layers."""
        self._static = static
        self.static_overrides = dict(static.listener_overrides)
        """The keys with a listener prefix that were set at the start."""
        self._entries: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._usable: dict[ConfigSource, dict[str, str]] = {source: {} for source in LAYERS}
        self._listeners: list[Callable[[Config], None]] = []
        self._validators: list[Callable[[Config], None]] = []
        self._layer_listeners: list[Callable[[Config], None]] = []

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` with the new values at every change."""
        self._listeners.append(listener)

    def on_layer(self, listener: Callable[[Config], None]) -> None:
        """Call `listener` whenever a layer was set, also to the same values: files that they name may have changed."""
        self._layer_listeners.append(listener)

    def on_check(self, validator: Callable[[Config], None]) -> None:
        """Call `validator` with the values that a change would make; it raises ConfigError to refuse the change."""
        self._validators.append(validator)

    def entries(self, source: ConfigSource) -> Mapping[str, str]:
        """A dynamic layer, as in the store."""
        return self._entries[source]

    def set_layer(self, source: ConfigSource, entries: Mapping[str, str]) -> list[IgnoredEntry]:
        """Set a dynamic layer, as read from the store; returns the ignored entries."""
        decoded, undecoded = self._decoded(entries)
        ignored = undecoded + unusable(decoded) + _of_one_broker(source, decoded)
        self._entries[source] = dict(entries)
        self._usable[source] = _usable(decoded, ignored)
        try:
            config = self._combine(self._usable)
        except ConfigError as error:
            # Keys of listeners that do not go together here: other brokers have other listeners.
            ignored += [IgnoredEntry(key, str(error)) for key in self._usable[source] if _is_of_security(key)]
            self._usable[source] = _usable(decoded, ignored)
            config = self._combine(self._usable)
        if config != self.config:
            self.config = config
            for listener in self._listeners:
                listener(config)
        for listener in self._layer_listeners:
            listener(self.config)
        return ignored

    def check(self, source: ConfigSource, entries: Mapping[str, str]) -> None:
        """Raise ConfigError when a layer cannot be set to `entries` while the broker runs."""
        decoded, _ = self._decoded(entries)
        usable = _usable(decoded, unusable(decoded))
        changed = self._combine({**self._usable, source: usable})
        check_cleaner_change(self.config, changed)
        check_consumer_groups(changed)
        check_share_groups(changed)
        check_connections_change(self.config.connections, changed.connections)
        for validator in self._validators:
            validator(changed)
        if entries.get(CORDON) != self._entries[source].get(CORDON):
            for entry in _of_one_broker(source, entries):
                raise ConfigError(f"{entry.key} cannot be set for all brokers: {entry.reason}")
            check_cordoned(changed)

    def _decoded(self, entries: Mapping[str, str]) -> tuple[dict[str, str], list[IgnoredEntry]]:
        """The entries with their passwords decrypted, and without those that cannot be."""
        entries = of_the_store(entries)
        decoded, ignored, count = dict(entries), list[IgnoredEntry](), 0
        for key, text in sorted(entries.items()):
            if is_password(key):
                count += 1
                try:
                    if count > PASSWORDS_MAX:
                        raise ConfigError(f"there are more than {PASSWORDS_MAX} passwords")
                    decoded[key] = self.encoder.decode(text)
                except ConfigError as error:
                    del decoded[key]
                    ignored.append(IgnoredEntry(key, str(error)))
        return decoded, ignored

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
        overrides = self._static.listener_overrides
        for source in reversed(LAYERS):
            overrides = merged(overrides, as_overrides(layers[source]))
            for key, text in layers[source].items():
                if key in SETTINGS:
                    field, declared = SETTINGS[key]
                    values[field] = declared.rule.read(key, text)
        return dataclasses.replace(self._static, **values, listener_overrides=overrides)


def _usable(entries: Mapping[str, str], ignored: Sequence[IgnoredEntry]) -> dict[str, str]:
    useless = {entry.key for entry in ignored}
    return {key: text for key, text in entries.items() if find_setting(key) is not None and key not in useless}


_OF_SECURITY = settings_of(SecuritySettings).keys()


def _is_of_security(key: str) -> bool:
    of_listener = find_listener_key(key)
    return key in _OF_SECURITY or (of_listener is not None and of_listener.is_of_security)


def _of_one_broker(source: ConfigSource, entries: Mapping[str, str]) -> list[IgnoredEntry]:
    if source is not ConfigSource.DYNAMIC_DEFAULT_BROKER:
        return []
    found = [IgnoredEntry(CORDON, "it names directories of one broker")] if CORDON in entries else []
    for key in entries:
        declared = find_setting(key)
        if declared is not None and declared.change in (Change.LISTENER, Change.BROKER):
            found.append(IgnoredEntry(key, "it is for one broker only"))
    return found


def unusable(entries: Mapping[str, str]) -> list[IgnoredEntry]:
    """The entries of a dynamic layer that are ignored, and why.

    Keys of Apache Kafka without effect are not named, unless they request protection that this broker does not have.
    """
    found = []
    for key, text in entries.items():
        declared = find_setting(key)
        if declared is None:
            what = requested_protection(key, text)
            if what is not None:
                found.append(IgnoredEntry(key, f"it asks for {what}"))
            elif not is_without_effect(key):
                found.append(IgnoredEntry(key, "unknown key"))
        else:
            reason = _why_unusable(key, text, declared)
            if reason is not None:
                found.append(IgnoredEntry(key, reason))
    return found


def _why_unusable(key: str, text: str, declared: Setting) -> str | None:
    is_prefixed = key.startswith(LISTENER_PREFIX)
    if declared.change is Change.LISTENER and not is_prefixed:
        return "it can be changed only as listener.name.<name>." + key
    if declared.change is Change.NOWHERE:
        return "it cannot be changed while the broker runs"
    try:
        declared.rule.read(key, text)
    except ConfigError:
        return f"allowed is {declared.rule.allowed}"
    return None
