"""What the cluster says of its topics: partitions, ids, leaders; kept until somebody finds it out of date.

Metadata may be older than what is known already, as each broker learns in its own time: of one life of a topic, a
leader with a lower epoch is never taken for a higher one's (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sordini.pipeline.errors import Refused, UnknownTopic
from sordini.pipeline.source.client.connection_pool import Cluster, check
from sordini.pipeline.source.client.settings import Address
from sordini.pipeline.source.client.transport import Lost
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition, topic_id_text

_NEW_SECONDS_MAX: Final = 1.0
"""How long a topic that we have never seen may be unknown: a broker may not have heard of it yet."""
_LOST_SECONDS_MAX: Final = 10.0
"""How long one that was there may be unknown: a broker that has just started knows nothing for a while."""


class Leader(NamedTuple):
    """Who leads a partition."""

    broker_id: int
    """-1: nobody at the moment."""
    epoch: int
    """-1 from a broker that does not tell (Metadata below version 7)."""


class Topic(NamedTuple):
    """One life of a topic."""

    topic_id: bytes
    """Zeros from a broker that does not tell (Metadata below version 10)."""
    leaders: dict[int, Leader]

    @property
    def id_text(self) -> str:
        """The id in 22 characters, or nothing."""
        return "" if self.topic_id == NO_TOPIC_ID else topic_id_text(self.topic_id)  # type: ignore[arg-type]


class SourceTopics:
    """The topics asked for so far. Each method asks once at most; `Cluster.persist` is for asking again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, Topic] = {}
        self._out_of_date: set[str] = set()
        self._unknown_since: dict[str, float] = {}

    def all(self, *, internal: bool) -> list[str]:
        """The names of all topics we may see, sorted."""
        found = self._ask(None).topics
        there = [topic for topic in found if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        return sorted(topic.name for topic in there if topic.name and (internal or not topic.is_internal))

    def find(self, names: Iterable[str], *, fresh: bool = False) -> dict[str, Topic]:
        """These topics, asked for anew if need be or if they shall be `fresh`.

        Raises UnknownTopic for those that have been missing for long enough, before that Refused as for an error
        that passes.
        """
        wanted = list(dict.fromkeys(names))
        asked = [name for name in wanted if fresh or name in self._out_of_date or name not in self._known]
        if asked:
            self._learn({topic.name or "": topic for topic in self._ask(asked).topics}, asked)
        return {name: self._known[name] for name in wanted}

    def leader(self, partition: TopicPartition) -> tuple[Address, int]:
        """Where the partition's leader is, and its epoch. Raises UnknownTopic, and Lost when nobody leads it."""
        topic = self.find([partition.topic])[partition.topic]
        leader = topic.leaders.get(partition.partition)
        if leader is None:
            count = len(topic.leaders)
            text = f"topic '{partition.topic}' has no partition {partition.partition} (it has {count}, from 0 on)"
            raise UnknownTopic([partition.topic], text)
        if leader.broker_id < 0:
            self.doubt(partition.topic)
            raise Lost(f"nobody leads {partition} at the moment")
        try:
            return self._cluster.address(leader.broker_id), leader.epoch
        except Lost:
            self.doubt(partition.topic)
            raise

    def doubt(self, name: str) -> None:
        """What is known of a topic may be out of date: ask before it is used again."""
        self._out_of_date.add(name)

    def _ask(self, names: list[str] | None) -> MetadataResponse:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        # Before version 4, asking for a topic could create it.
        answer: MetadataResponse = self._cluster.ask(request, at_least=4)
        check(answer.error_code, "the cluster's metadata")
        if not answer.brokers:
            raise Lost("the broker asked knows of no broker yet")
        self._cluster.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return answer

    def _learn(self, rows: dict[str, MetadataResponseTopic], asked: list[str]) -> None:
        missing = []
        for name in asked:
            row = rows.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if row is None else row.error_code
            if row is None or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(name)
                continue
            if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise UnknownTopic([name], f"'{name}' is no name that a topic can have")
            check(code, f"topic '{name}'")
            self._known[name] = _newest(self._known.get(name), row)
            self._out_of_date.discard(name)
            self._unknown_since.pop(name, None)
        if missing:
            self._miss(missing)

    def _miss(self, missing: list[str]) -> None:
        now = self._cluster.outside.monotonic()
        gone = []
        for name in missing:
            most = _LOST_SECONDS_MAX if name in self._known else _NEW_SECONDS_MAX
            if now - self._unknown_since.setdefault(name, now) >= most:
                gone.append(name)
        if gone:
            raise UnknownTopic(missing)
        raise Refused(f"topic '{missing[0]}'", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is not known")


def _newest(known: Topic | None, row: MetadataResponseTopic) -> Topic:
    leaders = {one.partition_index: Leader(one.leader_id, one.leader_epoch) for one in row.partitions}
    if known is not None and known.topic_id == row.topic_id:
        for number, before in known.leaders.items():
            if number in leaders and 0 <= leaders[number].epoch < before.epoch:
                leaders[number] = before
    return Topic(row.topic_id, dict(sorted(leaders.items())))
