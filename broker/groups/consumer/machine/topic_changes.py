"""What is new of the topics that a group subscribes to, in words: `orders +2 partitions, bills deleted`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.broker.groups.consumer.machine.events import Topic, Topics
from sordini.protocol.types import TopicId

TOPICS_SEEN_MAX: Final = 200
TOPICS_NAMED_MAX: Final = 5


class TopicsSeen:
    """The topics as they were when they were compared last. Of groups with more than `TOPICS_SEEN_MAX`: none."""

    __slots__ = ("_topics", "names")

    def __init__(self) -> None:
        self._topics: dict[str, Topic] | None = None
        self.names: dict[TopicId, str] = {}

    def changes(self, names: Iterable[str], topics: Topics) -> str:
        """What is different of topics that exist, or existed, since the last call; "" of the first."""
        wanted = list(names)
        before = self._topics
        if len(wanted) > TOPICS_SEEN_MAX:
            self._topics, self.names = None, {}
            return ""
        found = {name: topic for name, topic in ((name, topics.get(name)) for name in wanted) if topic is not None}
        self._topics = found
        self.names = {topic.topic_id: name for name, topic in found.items()}
        if before is None:
            return ""
        texts = [_change(name, before.get(name), found.get(name)) for name in sorted({*before, *found} & {*wanted})]
        changed = list(filter(None, texts))
        more = len(changed) - TOPICS_NAMED_MAX
        named = ", ".join(changed[:TOPICS_NAMED_MAX])
        return named if more <= 0 else f"{named} and {more} more"


def _change(name: str, before: Topic | None, after: Topic | None) -> str:
    if before is None:
        return f"{name} created"
    if after is None:
        return f"{name} deleted"
    if before.topic_id != after.topic_id:
        return f"{name} created again"
    grown = after.partitions - before.partitions
    return f"{name} +{grown} partition{'' if grown == 1 else 's'}" if grown > 0 else ""
