"""Versions of the protocol between brokers, which also name message formats.

Each is a release, or an intermediate version before it (`-IV0`, `-IV1`...); they are ordered. A release alone means its
last intermediate version, and a patch release means its release, as in Apache Kafka.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from sordini.broker.configuration.settings import ValueKind, ValueRule

_STEPS: Final = {
    "0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9.0": 0,
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3,
    "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2, "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2,
    "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3, "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1,
}  # fmt: skip
"""The number of intermediate versions of each release; 0 if only the release itself is a version."""


@dataclasses.dataclass(frozen=True, order=True)
class ProtocolVersion:
    """One version; they compare by age, and print as they were written."""

    release: tuple[int, ...]
    step: int
    text: str = dataclasses.field(compare=False)

    @property
    def magic(self) -> int:
        """The newest message format that brokers of this version know."""
        if self < TIMESTAMPS:
            return 0
        return 1 if self < BATCHES else 2

    def __str__(self) -> str:
        return self.text


def read_version(text: str) -> ProtocolVersion:
    """Read a version such as 0.10.2, 2.7-IV1 or 3.9.1; raises ValueError for one that does not exist."""
    parts = text.split(".")
    name, dash, step = ".".join(parts[: 3 if text.startswith("0.") else 2]).partition("-IV")
    steps = _STEPS.get(name)
    if steps is None or (dash and step not in map(str, range(steps))):
        raise ValueError(text)
    return ProtocolVersion(tuple(map(int, name.split("."))), int(step) if dash else max(steps - 1, 0), text)


TIMESTAMPS: Final = read_version("0.10.0-IV0")
"""From here on message format 1 exists."""
BATCHES: Final = read_version("0.11.0-IV0")
"""From here on message format 2 exists."""
ZSTD: Final = read_version("2.1-IV0")
"""From here on records may be compressed with zstd (KIP-110)."""
TOPIC_IDS: Final = read_version("2.8-IV0")
"""From here on topics have ids (KIP-516); Apache Kafka 2.7 reads no tree with them."""
ONE_FORMAT: Final = read_version("3.0-IV1")
"""From here on format 2 is stored whatever a topic configures (KIP-724)."""

_ALLOWED: Final = "a version, such as 0.10.2, 2.7 or 3.0-IV1"
protocol_version = ValueRule(ValueKind.STRING, _ALLOWED, read_version)


def _parse_format(text: str) -> str:
    read_version(text)
    return text


format_version = ValueRule(ValueKind.STRING, _ALLOWED, _parse_format)
"""The same, kept as text: for `message.format.version` of a topic."""
