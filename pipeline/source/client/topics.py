"""A cache of topic metadata: partitions, ids, leaders; refreshed when a user finds an entry stale.

Metadata may be older than what is cached, since brokers do not receive it at the same time: for one topic id, a leader
with a lower epoch never replaces one with a higher epoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.client.errors import Refused, Unreachable
from sordini.client.routing import PartitionLeader, is_recreated, metadata_request, newer_leaders, partition_leaders
from sordini.pipeline.errors import UnknownTopic
from sordini.pipeline.source.client.connection_pool import ConnectionPool
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseTopic,
)
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition, topic_id_text

_NEW_SECONDS_MAX: Final = 1.0
"""How long a topic that was never seen may be unknown: a broker may not know it yet."""
_SEEN_SECONDS_MAX: Final = 10.0
"""How long a topic that was seen may be unknown: a broker that has just started does not know all topics."""


class Topic(NamedTuple):
    """One incarnation of a topic, which its id identifies (KIP-516)."""

    topic_id: bytes
    """Zeros from a broker that does not report it (Metadata below version 10)."""
    leaders: dict[int, PartitionLeader]

    @property
    def id_text(self) -> str:
        """The id in 22 characters, or empty."""
        return "" if self.topic_id == NO_TOPIC_ID else topic_id_text(self.topic_id)  # type: ignore[arg-type]


class Topics:
    """The topics requested so far. Each method sends at most one request; `ConnectionPool.retry` repeats them."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._known: dict[str, Topic] = {}
        self._stale: set[str] = set()
        self._unknown_since: dict[str, float] = {}

    def all(self, *, internal: bool) -> list[str]:
        """The names of all topics we may see, sorted."""
        found = self._ask(None).topics
        there = [topic for topic in found if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        return sorted(topic.name for topic in there if topic.name and (internal or not topic.is_internal))

    def find(self, names: Iterable[str], *, fresh: bool = False) -> dict[str, Topic]:
        """These topics, from the cache, or requested when they are missing, stale, or required to be `fresh`.

        Raises UnknownTopic for topics that have been missing for long enough, before that Refused as for a retriable
        error.
        """
        wanted = list(dict.fromkeys(names))
        asked = [name for name in wanted if fresh or name in self._stale or name not in self._known]
        if asked:
            self._learn({topic.name or "": topic for topic in self._ask(asked).topics}, asked)
        return {name: self._known[name] for name in wanted}

    def create(self, names: list[str]) -> None:
        """Request topics such that a broker may create them; whether they exist afterwards is for `find`."""
        self._pool.ask(metadata_request(names, creates=True), at_least=4)

    def leader(self, partition: TopicPartition) -> tuple[Address, int]:
        """Where the partition's leader is, and its epoch. Raises UnknownTopic, and Unreachable without a leader."""
        topic = self.find([partition.topic])[partition.topic]
        leader = topic.leaders.get(partition.partition)
        if leader is None:
            count = len(topic.leaders)
            text = f"topic '{partition.topic}' has no partition {partition.partition} (it has {count}, from 0 on)"
            raise UnknownTopic([partition.topic], text)
        if leader.broker_id < 0:
            self.mark_stale(partition.topic)
            raise Unreachable(f"{partition} has no leader at present")
        try:
            return self._pool.address(leader.broker_id), leader.epoch
        except Unreachable:
            self.mark_stale(partition.topic)
            raise

    def mark_stale(self, name: str) -> None:
        """The entry of a topic may be stale: it is requested again before it is used."""
        self._stale.add(name)

    def _ask(self, names: list[str] | None) -> MetadataResponse:
        # Before version 4, a request for a topic could create it.
        answer: MetadataResponse = self._pool.ask(metadata_request(names), at_least=4)
        self._pool.check(answer.error_code, "the cluster's metadata")
        if not answer.brokers:
            raise Unreachable("the broker does not know any live broker yet")
        self._pool.cluster_map.learn(answer)
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
                raise UnknownTopic([name], f"'{name}' is not a valid topic name")
            self._pool.check(code, f"topic '{name}'")
            self._known[name] = _newest(self._known.get(name), row)
            self._stale.discard(name)
            self._unknown_since.pop(name, None)
        if missing:
            self._miss(missing)

    def _miss(self, missing: list[str]) -> None:
        now = self._pool.ports.monotonic()
        gone = []
        for name in missing:
            most = _SEEN_SECONDS_MAX if name in self._known else _NEW_SECONDS_MAX
            if now - self._unknown_since.setdefault(name, now) >= most:
                gone.append(name)
        if gone:
            raise UnknownTopic(missing)
        raise Refused(f"topic '{missing[0]}'", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is not known")


def _newest(known: Topic | None, row: MetadataResponseTopic) -> Topic:
    leaders = partition_leaders(row)
    if known is not None and not is_recreated(known.topic_id, row.topic_id):
        leaders = newer_leaders(known.leaders, leaders)
    return Topic(row.topic_id, dict(sorted(leaders.items())))
