"""The metadata of the whole cluster, as the controller's UpdateMetadata commands describe it.

Encoded Metadata responses are cached until the next change, so that a repeated request costs a dictionary look-up.
`epoch` counts the changes, `placement_epoch` those of topics and of where their replicas are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from sordini.broker.network.ports import Peer
from sordini.protocol.errors import ErrorCode
from sordini.protocol.primitives import Uuid
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from sordini.replication.metadata_store.topics import unknown_topic_code
from sordini.system.named_tuple import NamedTuple

CACHED_RESPONSES_MAX = 256
CACHED_BYTES_MAX = 32 * 1024 * 1024


RuleAddresses = Mapping[str, tuple[str, int]]
"""A broker's addresses by the name of the rule; empty for a broker without rules."""


class BrokerMetadata(NamedTuple):
    """A live broker: its address on each listener, by listener name."""

    broker_id: BrokerId
    endpoints: dict[str, tuple[str, int]]
    rack: str | None


class PartitionMetadata(NamedTuple):
    """One partition's leader and replicas. `leader` is -1 without a leader."""

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


class NamedTopic(Protocol):
    """A topic in a request, which names it in some versions by its name and in others by its id."""

    name: str
    topic_id: Uuid


class MetadataCache:
    """The latest metadata, and encoded responses."""

    def __init__(self, cluster_id: str, *, uses_topic_ids: bool = True) -> None:
        """`uses_topic_ids`: the inter-broker protocol has them (2.8 and later); otherwise clients are sent none."""
        self.cluster_id = cluster_id
        self.uses_topic_ids = uses_topic_ids
        self.controller_id = BrokerId(-1)
        self.brokers: dict[BrokerId, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.epoch = 0
        self.placement_epoch = 0
        """It stays when only leaders, in-sync replicas or live brokers have changed."""
        self.awaits_first_topics = False
        """The cluster had topics when this broker registered, and none has been received: see `may_exist`."""
        self.placement_hashes: dict[str, int] = {}
        """By topic, what is computed of its id, its partitions and the racks of their replicas, until one changes."""
        self._has_new_placement = False
        """Since the last call of `changed`."""
        self._registered_racks: dict[BrokerId, str] = {}
        """Of all brokers that have been live: one that is down keeps its rack."""
        self._rule_addresses: Mapping[BrokerId, RuleAddresses] = {}
        self._names: dict[TopicId, str] = {}
        self._responses: dict[object, bytes] = {}
        self._response_bytes = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def racks(self) -> dict[BrokerId, str | None]:
        """The live brokers with their racks, None for an unknown one."""
        return {broker_id: broker.rack for broker_id, broker in self.brokers.items()}

    def replica_racks(self, topic: TopicMetadata, index: int) -> tuple[str, ...]:
        """The racks of a partition's replicas, also of brokers that are down; without the unknown."""
        partition = topic.partitions.get(index)
        if partition is None or not self._registered_racks:
            return ()
        racks = map(self._registered_racks.get, partition.replicas)
        return tuple([rack for rack in racks if rack is not None])

    def exists(self, topic: str, index: int) -> bool:
        """Whether the cluster has this partition."""
        known = self.topics.get(topic)
        return known is not None and index in known.partitions

    def may_exist(self, topic: str, index: int) -> bool:
        """Whether the cluster has this partition, or may have it: no topic has been received yet.

        A broker that does not know answers that it does not lead it, or coordinates nothing. A client of a partition
        that does not exist drops its batches, and aborts its transaction.
        """
        return self.awaits_first_topics or self.exists(topic, index)

    def awaits_first_topics_until(self, true: Callable[[], bool]) -> None:
        """Topics do not exist from the first change on after which `true` holds, though none was received; or now."""

        def check() -> None:
            if true():
                self.awaits_first_topics = False
                end()

        end = self.on_change(check)
        check()

    def unknown_topic_code(self, name: str) -> ErrorCode:
        """The error code for an unknown topic: LEADER_NOT_AVAILABLE while it may still be received.

        A client drops its batches for a topic that does not exist, and some applications then send records twice.
        """
        code = unknown_topic_code(name)
        may_be = self.awaits_first_topics and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.LEADER_NOT_AVAILABLE if may_be else code

    def why_unreachable(self, leader: BrokerId, peer: Peer) -> ErrorCode:
        """The error code for a leader that a peer cannot reach; NONE for one that it can.

        LEADER_NOT_AVAILABLE: it is not live, or there is none. LISTENER_NOT_FOUND: it has no listener as the peer's.
        """
        broker = self.brokers.get(leader)
        if broker is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        # The usual connection has no rule: answered without a call, since this is asked for each partition.
        listener = peer.listener
        is_reachable = listener in broker.endpoints if peer.endpoint_name is listener else self.address_of(broker, peer)
        if is_reachable:
            return ErrorCode.NONE
        return ErrorCode.LISTENER_NOT_FOUND

    def address_of(self, broker: BrokerMetadata, peer: Peer) -> tuple[str, int] | None:
        """Where a peer connects to a broker: by the rule that holds for the peer, or else of its listener.

        None for a broker without that listener; and by a rule, while this broker has not read the other's registration.
        """
        if peer.endpoint_name == peer.listener:
            return broker.endpoints.get(peer.listener)
        rules = self._rule_addresses.get(broker.broker_id)
        return None if rules is None else rules.get(peer.endpoint_name) or broker.endpoints.get(peer.listener)

    def set_rule_addresses(self, addresses: Mapping[BrokerId, RuleAddresses]) -> None:
        """Replace the addresses by rule of all brokers whose registrations were read."""
        if addresses != self._rule_addresses:
            self._rule_addresses = addresses
            self.changed()

    def name_of(self, topic_id: TopicId) -> str | None:
        """The name of the topic with this id."""
        return self._names.get(topic_id)

    def find(self, topic: NamedTopic, *, by_id: bool) -> tuple[str, ErrorCode]:
        """A topic's name ("" for an unknown id), and the error code of its partitions that do not exist."""
        if not by_id:
            return topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        name = self._names.get(TopicId(topic.topic_id))
        return ("", ErrorCode.UNKNOWN_TOPIC_ID) if name is None else (name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def set_brokers(self, controller_id: BrokerId, brokers: list[BrokerMetadata]) -> None:
        """Replace the live brokers."""
        self.controller_id = controller_id
        self.brokers = {broker.broker_id: broker for broker in brokers}
        self._set_racks(brokers)

    def _set_racks(self, brokers: list[BrokerMetadata]) -> None:
        racks = {broker_id: rack for broker_id, rack in self._registered_racks.items() if broker_id not in self.brokers}
        racks.update((broker.broker_id, broker.rack) for broker in brokers if broker.rack is not None)
        if racks != self._registered_racks:
            self._registered_racks = racks
            self._has_new_placement = True
            self.placement_hashes.clear()

    def set_partition(self, topic: str, topic_id: TopicId, index: int, partition: PartitionMetadata) -> None:
        """Update one partition."""
        self.awaits_first_topics = False
        if not self.uses_topic_ids:
            topic_id = NO_TOPIC_ID
        known = self.topics.get(topic)
        if known is None or known.topic_id != topic_id:
            if known is not None:
                self._names.pop(known.topic_id, None)
            known = self.topics[topic] = TopicMetadata(topic, topic_id, {})
            if topic_id != NO_TOPIC_ID:  # Topics of old protocols have none.
                self._names[topic_id] = topic
        previous = known.partitions.get(index)
        if previous is None or previous.replicas != partition.replicas:
            self._forget_placement(topic)
        known.partitions[index] = partition

    def drop_partition(self, topic: str, index: int) -> None:
        """Remove a deleted partition, and with its last one the topic."""
        known = self.topics.get(topic)
        if known is None:
            return
        self._forget_placement(topic)
        known.partitions.pop(index, None)
        if not known.partitions:
            del self.topics[topic]
            self._names.pop(known.topic_id, None)

    def _forget_placement(self, topic: str) -> None:
        self._has_new_placement = True
        self.placement_hashes.pop(topic, None)

    def changed(self) -> None:
        """A command was applied: drop cached responses and call the listeners."""
        self.epoch += 1
        self.placement_epoch += self._has_new_placement
        self._has_new_placement = False
        self._responses.clear()
        self._response_bytes = 0
        for listener in list(self._listeners):
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; returns the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def until(self, true: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until `true` holds after a change; False on timeout."""
        if true():
            return True
        seen = asyncio.get_running_loop().create_future()

        def check() -> None:
            if true() and not seen.done():
                seen.set_result(None)

        end = self.on_change(check)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await seen
        except TimeoutError:
            return False
        finally:
            end()
        return True

    def cached_response(self, key: object) -> bytes | None:
        """The response cached under `key` since the last change."""
        return self._responses.get(key)

    def cache_response(self, key: object, response: bytes) -> None:
        """Cache a response until the next change; the oldest are evicted beyond the limits."""
        if len(response) > CACHED_BYTES_MAX:
            return
        self._response_bytes += len(response) - len(self._responses.pop(key, b""))
        while len(self._responses) >= CACHED_RESPONSES_MAX or self._response_bytes > CACHED_BYTES_MAX:
            self._response_bytes -= len(self._responses.pop(next(iter(self._responses))))
        self._responses[key] = response
