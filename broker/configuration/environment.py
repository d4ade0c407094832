"""Configuration from the environment, as containers get it: KAFKA_LOG_RETENTION_HOURS=1 is log.retention.hours=1.

The convention is that of the images people know: the prefix is taken off, and the rest in lower case has `_` for a
dot, `__` for an underscore and `___` for a hyphen. SORDINI_ goes before KAFKA_. Only names of known keys count: an
environment holds a lot that is nobody's configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sordini.broker.configuration.accepted import WITHOUT_EFFECT
from sordini.broker.configuration.config import SETTINGS

PREFIXES = ("KAFKA_", "SORDINI_")
"""The later goes before the earlier."""

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
            key = _UNDERSCORES.sub(lambda match: _MARKS[match[0]], rest.lower())
            candidates = (key, OUR_KEYS + key) if prefix == "SORDINI_" else (key,)
            return next((one for one in candidates if one in SETTINGS or one in WITHOUT_EFFECT), None)
    return None


def environment_entries(environment: Mapping[str, str]) -> dict[str, str]:
    """Key and text of every variable that names a known key."""
    entries: dict[str, str] = {}
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
