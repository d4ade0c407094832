"""Names of copied topics and of internal topics, and which topics a source offers. Pure.

    prefix   orders of the source `east` is `east.orders` in the target: MirrorMaker 2's DefaultReplicationPolicy
    merge    it is `orders`: MirrorMaker 2's IdentityReplicationPolicy; heartbeats have the prefix all the same

With prefixes, a topic that came from the target carries the target's alias in its name, and is not copied back. Merged
topics show nothing of this in their names: there the producer decides, see `copies.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from sordini.system.named_tuple import NamedTuple

HEARTBEATS: Final = "heartbeats"
OFFSETS_PATTERN: Final = re.compile(r"mm2-offsets\..+\.internal")
"""The topics in which mirrors that write into a cluster keep their positions."""
_INTERNAL_ENDS: Final = (".internal", "-internal")
_INTERNAL_STARTS: Final = ("__", ".")


class Naming(Enum):
    """How a topic is called in the target."""

    PREFIX = "prefix"
    MERGE = "merge"


class Names(NamedTuple):
    """The names of one source's topics in one target."""

    source: str
    target: str
    naming: Naming = Naming.PREFIX
    separator: str = "."

    def remote_topic(self, topic: str) -> str:
        """What a topic of the source is called in the target."""
        if self.naming is Naming.MERGE and not self._is_heartbeats(topic):
            return topic
        return f"{self.source}{self.separator}{topic}"

    def is_cycle(self, topic: str) -> bool:
        """Whether a topic of the source was copied from the target, over any number of hops."""
        if self.naming is Naming.MERGE and not self._is_heartbeats(topic):
            return False
        return self.target in topic.split(self.separator)[:-1]

    def _is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")

    @property
    def positions_topic(self) -> str:
        """Where the positions in the source are, in the target."""
        return f"mm2-offsets.{self.source}.internal"

    @property
    def checkpoints_topic(self) -> str:
        """Where the translated offsets of groups are, in the target."""
        return f"{self.source}{self.separator}checkpoints.internal"

    def offset_syncs_topic(self, *, in_source: bool) -> str:
        """Where pairs of offsets are, in the source or in the target."""
        return f"mm2-offset-syncs{self.separator}{self.target if in_source else self.source}{self.separator}internal"


def is_internal(topic: str) -> bool:
    """Whether a topic belongs to Apache Kafka, Kafka Connect or a mirror: it is never copied."""
    return topic.startswith(_INTERNAL_STARTS) or topic.endswith(_INTERNAL_ENDS)


class Selection(NamedTuple):
    """Names by pattern: all of a name must match one of `included` and none of `excluded`."""

    included: Sequence[re.Pattern[str]]
    excluded: Sequence[re.Pattern[str]] = ()

    def has(self, name: str) -> bool:
        return _is_in(name, self.included) and not _is_in(name, self.excluded)


def _is_in(name: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def is_copied(topic: str, names: Names, topics: Selection) -> bool:
    """Whether a topic of the source is copied. Heartbeats are, whatever the patterns say."""
    if is_internal(topic) or names.is_cycle(topic):
        return False
    return topic == HEARTBEATS or topics.has(topic)
