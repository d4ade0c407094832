"""What this broker knows of the whole cluster, as the controller's UpdateMetadata commands told it.

Answers to Metadata requests are kept as bytes until something changes: a client that asks again and again costs a
dictionary look-up. `epoch` counts the changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from sordini.replication.metadata_store.topics import unknown_topic_code

CACHED_RESPONSES_MAX = 256
CACHED_BYTES_MAX = 32 * 1024 * 1024


class BrokerMetadata(NamedTuple):
    """A live broker: its address on each listener, by the listener's name."""

    broker_id: BrokerId
    endpoints: dict[str, tuple[str, int]]
    rack: str | None


class PartitionMetadata(NamedTuple):
    """Where one partition's copies are. `leader` is -1 when nobody leads."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class TopicMetadata(NamedTuple):
    """One topic: its id and its partitions by number."""

    name: str
    topic_id: TopicId
    partitions: dict[int, PartitionMetadata]


class MetadataCache:
    """The latest picture, and answers drawn from it."""

    def __init__(self, cluster_id: str, *, uses_topic_ids: bool = True) -> None:
        """`uses_topic_ids`: the protocol between brokers has them (2.8 and later); else clients are told none."""
        self.cluster_id = cluster_id
        self.uses_topic_ids = uses_topic_ids
        self.controller_id = BrokerId(-1)
        self.brokers: dict[BrokerId, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.epoch = 0
        self.awaits_first_topics = False
        """The cluster had topics when this broker came, and nobody has told it of any yet: see `unknown_topic_code`."""
        self._names: dict[TopicId, str] = {}
        self._answers: dict[object, bytes] = {}
        self._answers_bytes = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def racks(self) -> dict[BrokerId, str | None]:
        """The living brokers, and the rack each stands in, if it is known."""
        return {broker_id: broker.rack for broker_id, broker in self.brokers.items()}

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster has this partition, wherever it is."""
        known = self.topics.get(topic)
        return known is not None and index in known.partitions

    def unknown_topic_code(self, name: str) -> ErrorCode:
        """What is said of a topic that is not here: why it cannot be, or LEADER_NOT_AVAILABLE if it still may.

        A client that hears that its topic does not exist gives up what it has for it, and some repeat records then.
        """
        code = unknown_topic_code(name)
        may_be = self.awaits_first_topics and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.LEADER_NOT_AVAILABLE if may_be else code

    def why_unreachable(self, leader: BrokerId, listener: str) -> ErrorCode:
        """Why clients of this listener cannot be sent to a leader, NONE where they can.

        It is dead, or nobody leads (LEADER_NOT_AVAILABLE), or it has no such listener (LISTENER_NOT_FOUND).
        """
        broker = self.brokers.get(leader)
        if broker is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.NONE if listener in broker.endpoints else ErrorCode.LISTENER_NOT_FOUND

    def name_of(self, topic_id: TopicId) -> str | None:
        """The name of the topic with this id."""
        return self._names.get(topic_id)

    def set_brokers(self, controller_id: BrokerId, brokers: list[BrokerMetadata]) -> None:
        """Take the complete list of live brokers."""
        self.controller_id = controller_id
        self.brokers = {broker.broker_id: broker for broker in brokers}

    def set_partition(self, topic: str, topic_id: TopicId, index: int, partition: PartitionMetadata) -> None:
        """Take one partition's new state."""
        self.awaits_first_topics = False
        if not self.uses_topic_ids:
            topic_id = NO_TOPIC_ID
        known = self.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            if known is not None:
                self._names.pop(known.topic_id, None)
            known = self.topics[topic] = TopicMetadata(topic, topic_id, {})
            if topic_id != NO_TOPIC_ID:  # Topics of old protocols share the lack of one.
                self._names[topic_id] = topic
        known.partitions[index] = partition

    def drop_partition(self, topic: str, index: int) -> None:
        """Forget a deleted partition, and its topic with its last one."""
        known = self.topics.get(topic)
        if known is None:
            return
        known.partitions.pop(index, None)
        if not known.partitions:
            del self.topics[topic]
            self._names.pop(known.topic_id, None)

    def changed(self) -> None:
        """A command was taken whole: old answers are void, and whoever waits for news looks again."""
        self.epoch += 1
        self._answers.clear()
        self._answers_bytes = 0
        for listener in list(self._listeners):
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; returns the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def until(self, true: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait for a change after which something is true; False when it still is not in time."""
        if true():
            return True
        seen = asyncio.get_running_loop().create_future()

        def look() -> None:
            if true() and not seen.done():
                seen.set_result(None)

        end = self.on_change(look)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await seen
        except TimeoutError:
            return False
        finally:
            end()
        return True

    def answer(self, key: object) -> bytes | None:
        """The answer kept under `key` since the last change."""
        return self._answers.get(key)

    def keep(self, key: object, answer: bytes) -> None:
        """Keep an answer until the next change, in place of the oldest when there are too many or too large ones."""
        if len(answer) > CACHED_BYTES_MAX:
            return
        self._answers_bytes += len(answer) - len(self._answers.pop(key, b""))
        while len(self._answers) >= CACHED_RESPONSES_MAX or self._answers_bytes > CACHED_BYTES_MAX:
            self._answers_bytes -= len(self._answers.pop(next(iter(self._answers))))
        self._answers[key] = answer
