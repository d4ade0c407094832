"""Configuration from the environment, as containers get it: KAFKA_LOG_RETENTION_HOURS=1 is log.retention.hours=1.

The convention is that of the images people know: the prefix is taken off, and the rest in lower case has `_` for a
dot, `__` for an underscore and `___` for a hyphen. SORDINI_ goes before KAFKA_. Only names of known keys count: an
environment holds a lot that is nobody's configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.protection import is_without_effect, requested_protection
from sordini.broker.configuration.protection_keys import CLIENTS_KEYS
from sordini.broker.configuration.settings import ConfigError

PREFIXES = ("KAFKA_", "SORDINI_")
"""The later goes before the earlier."""

FOREIGN_PREFIX = "KAFKA_CFG_"
"""Of images whose own scripts make keys of such names."""

OUR_KEYS = "sordini."
_MARKS = {"_": ".", "__": "_", "___": "-"}
_UNDERSCORES = re.compile(r"_{1,3}")

NOT_CONFIGURATION = re.compile(
    r"KAFKA_("
    r"HOME|VERSION|SCALA_VERSION|USER|GROUP|UID|GID|DATA|DATA_DIR|CONF_DIR|CONFIG|CLUSTER_ID|MODE|DEBUG"
    r"|(HEAP_|GC_LOG_|JMX_|LOG4J_|JVM_PERFORMANCE_)?OPTS"
    r"|(LOG4J|JMX|JAVA|TOOLS|REST|SCHEMA|CONNECT|KSQL)_.*"
    # What Kubernetes and Docker set for a service or a link named kafka.
    r"|PORT|PORT_\d+_.*|SERVICE_.*|NAME|ENV_.*"
    r")"
)
"""KAFKA_ names of containers, start scripts and tools."""


def key_of(name: str) -> str | None:
    """The configuration key that a variable's name stands for; None where it stands for none that is known."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if rest != rest.upper():
                return None
            key = _spelled(rest)
            candidates = (key, OUR_KEYS + key) if prefix == "SORDINI_" else (key,)
            return next((one for one in candidates if _is_known(one)), None)
    return None


def _spelled(rest: str) -> str:
    return _UNDERSCORES.sub(lambda match: _MARKS[match[0]], rest.lower())


def _is_known(key: str) -> bool:
    return key in SETTINGS or (is_without_effect(key) and key not in CLIENTS_KEYS)


def environment_entries(environment: Mapping[str, str]) -> dict[str, str]:
    """Key and text of every variable that names a known key.

    Raises ConfigError for a variable of an image with another convention (`KAFKA_CFG_`) that asks for protection:
    such variables are not read, and this one must not be passed over.
    """
    entries: dict[str, str] = {}
    for name, text in environment.items():
        if name.startswith(FOREIGN_PREFIX) and requested_protection(_spelled(name.removeprefix(FOREIGN_PREFIX)), text):
            raise ConfigError(f"{name} is not read here and asks for protection: allowed is KAFKA_ without CFG_")
    for prefix in PREFIXES:
        for name, text in environment.items():
            key = key_of(name) if name.startswith(prefix) else None
            if key is not None:
                entries[key] = text
    return entries


def unknown_names(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like a key that nobody knows: misspelt, perhaps."""
    return sorted(
        name
        for name in environment
        if name.startswith("KAFKA_") and key_of(name) is None and NOT_CONFIGURATION.fullmatch(name) is None
    )
