"""Configuration keys that the kit sets for its brokers, and that a test may not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.testing.arguments import ArgumentRefused, mapping

_LISTENERS: Final = "the kit chooses ports and listeners: make_kafka(listeners=, tls=, sasl=) protects them"
_FILES: Final = "the files of the kit's brokers are in memory"
OWNED_KEYS: Final = {
    "broker.id": "brokers of the kit are numbered from 1 on",
    "listeners": _LISTENERS,
    "advertised.listeners": _LISTENERS,
    "sordini.advertised.listeners.rules": _LISTENERS,
    "inter.broker.listener.name": _LISTENERS,
    "security.inter.broker.protocol": _LISTENERS,
    "listener.security.protocol.map": _LISTENERS,
    "log.dirs": _FILES,
    "log.dir": _FILES,
    "zookeeper.connect": "brokers of the kit share a store in memory",
}
"""With what to do, or why."""


def broker_settings(config: Mapping[str, object] | None) -> dict[str, str]:
    """The texts of a test's `config`. Raises ArgumentRefused for a key of the kit's own."""
    found = mapping("config", config, "values by key")
    for key, value in found.items():
        if key in OWNED_KEYS:
            raise ArgumentRefused("config", key, "any other key", f"config[{key!r}]={value!r}: {OWNED_KEYS[key]}")
    return {key: setting_text(value) for key, value in found.items()}


def settings(config: Mapping[str, object] | None) -> dict[str, str]:
    """Settings of a topic as a broker reads them. Raises ArgumentRefused."""
    return {key: setting_text(value) for key, value in mapping("config", config, "values by key").items()}


def setting_text(value: object) -> str:
    """A value as a file of properties has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
