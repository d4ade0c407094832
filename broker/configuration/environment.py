"""Configuration from environment variables: KAFKA_LOG_RETENTION_HOURS=1 is log.retention.hours=1.

The convention is that of common container images: the prefix is removed, and the rest in lower case has `_` for a dot,
`__` for an underscore and `___` for a hyphen. SORDINI_ takes precedence over KAFKA_. Only names of known keys count,
because an environment has many unrelated variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sordini.broker.configuration.config import SETTINGS
from sordini.broker.configuration.keys.kraft_keys import is_kraft_key
from sordini.broker.configuration.keys.listener_keys import find_listener_key
from sordini.broker.configuration.keys.protection_keys import CLIENTS_KEYS
from sordini.broker.configuration.protection.protection import FAMILY, is_without_effect, requested_protection
from sordini.broker.configuration.renamed_keys import RENAMED
from sordini.broker.configuration.settings import ConfigError

PREFIXES = ("KAFKA_", "SORDINI_")
"""The later one takes precedence."""

FOREIGN_PREFIX = "KAFKA_CFG_"
"""Of images whose start scripts turn such names into keys."""

OUR_KEYS = "sordini."
_MIXED_CASE = {key.lower(): key for key in SETTINGS if key != key.lower()} | {
    "zookeeper.client.cnxn.socket": "zookeeper.clientCnxnSocket",
}
"""Keys with upper case letters, which a variable does not show; container images spell one of them so."""
_MARKS = {"_": ".", "__": "_", "___": "-"}
_UNDERSCORES = re.compile(r"_{1,3}")

NOT_CONFIGURATION = (
    r"KAFKA_("
    r"HOME|VERSION|SCALA_VERSION|USER|GROUP|UID|GID|DATA|DATA_DIR|CONF_DIR|CONFIG|CLUSTER_ID|MODE|DEBUG"
    r"|(HEAP_|GC_LOG_|JMX_|LOG4J_|JVM_PERFORMANCE_)?OPTS"
    r"|(LOG4J|JMX|JAVA|TOOLS|REST|SCHEMA|CONNECT|KSQL)_.*"
    # Set by Kubernetes and Docker for a service or a link named kafka.
    r"|PORT|PORT_\d+_.*|SERVICE_.*|NAME|ENV_.*"
    r")"
)
"""KAFKA_ names of containers, start scripts and tools."""


def key_of(name: str) -> str | None:
    """The known configuration key that a variable's name stands for, or None."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            if rest != rest.upper():
                return None
            key = _spelled(rest)
            candidates = (key, OUR_KEYS + key) if prefix == "SORDINI_" else (key,)
            return next((candidate for candidate in candidates if _is_known(candidate)), None)
    return None


def _spelled(rest: str) -> str:
    key = _UNDERSCORES.sub(lambda match: _MARKS[match[0]], rest.lower())
    return _MIXED_CASE.get(key, key)


def _is_known(key: str) -> bool:
    is_served = key in SETTINGS or key in RENAMED or find_listener_key(key) is not None
    return is_served or is_kraft_key(key) or (is_without_effect(key) and key not in CLIENTS_KEYS)


def environment_entries(environment: Mapping[str, str]) -> dict[str, str]:
    """Key and text of every variable that names a known key.

    Raises ConfigError for a variable with another convention (`KAFKA_CFG_`) that requests protection: such variables
    are not read, and this one must not be ignored.
    """
    entries: dict[str, str] = {}
    for name, text in environment.items():
        if name.startswith(FOREIGN_PREFIX) and _requires_protection(_spelled(name.removeprefix(FOREIGN_PREFIX)), text):
            raise ConfigError(f"{name} is not read here and asks for protection: allowed is KAFKA_ without CFG_")
    for prefix in PREFIXES:
        for name, text in environment.items():
            key = key_of(name) if name.startswith(prefix) else None
            if key is not None:
                entries[key] = text
    return entries


def _requires_protection(key: str, text: str) -> bool:
    """Whether a value requires protection, served here or not."""
    is_served = (
        (key in SETTINGS or find_listener_key(key) is not None)
        and re.fullmatch(FAMILY, key) is not None
        and bool(text.strip())
    )
    return is_served or requested_protection(key, text) is not None


def unknown_names(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like an unknown key, perhaps misspelt."""
    return sorted(
        name
        for name in environment
        if name.startswith("KAFKA_") and key_of(name) is None and re.fullmatch(NOT_CONFIGURATION, name) is None
    )
