"""The znodes of brokers, topics and consumer groups, as these clients read and write them.

    /brokers/ids/[id] -> {"host":...}                              /brokers/topics/[topic]/partitions/[p]/state -> {"leader":...}
    /consumers/[group]/ids/[consumer] -> the subscription          ephemeral
    /consumers/[group]/owners/[topic]/[p] -> consumer-stream       ephemeral
    /consumers/[group]/offsets/[topic]/[p] -> the next offset      persistent

What a group's balance depends on is read as one `GroupView`, whose watches fire when any of it changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.heritage.assignment import Member
from sordini.heritage.subscription import Subscription
from sordini.heritage.zookeeper import ZooKeeperSession
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes

_LOG: Final = logging.getLogger("sordini.heritage")
NO_LEADER: Final = -1


class GroupView(NamedTuple):
    """Members, brokers, and the partitions of this member's topics in the order of the rule."""

    members: list[Member]
    brokers: list[str]
    partitions: Mapping[str, list[int]]


class ClusterNodes:
    """Brokers and topics, in one session."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self.session = session

    def brokers(self, *, watch: bool = False) -> dict[int, Address]:
        """The plaintext address of each registered broker."""
        found = {}
        for name in self.session.children(paths.BROKER_IDS, watch=watch):
            node = self.session.get(paths.broker(BrokerId(int(name))), watch=watch)
            broker = None if node is None else znodes.decode_broker(BrokerId(int(name)), *node[:1], node[1].czxid)
            if broker is None or isinstance(broker, Malformed):
                continue
            plain = [one for one in broker.endpoints if one.security_protocol == "PLAINTEXT"]
            if plain:
                found[int(name)] = Address(plain[0].host, plain[0].port)
        return found

    def partitions(self, topic: str, *, watch: bool = False) -> list[int]:
        """The numbers of a topic's partitions, sorted; none without the topic."""
        node = self.session.get(paths.topic(topic), watch=watch)
        decoded = None if node is None else znodes.decode_topic(topic, node[0], node[1].version)
        return [] if decoded is None or isinstance(decoded, Malformed) else sorted(decoded.replicas)

    def leader(self, partition: TopicPartition, *, watch: bool = False) -> int:
        """The id of the broker that leads a partition; NO_LEADER without one."""
        node = self.session.get(paths.state(partition), watch=watch)
        state = None if node is None else znodes.decode_state(partition, node[0])
        is_led = state is not None and not isinstance(state, Malformed) and state.leader is not None
        return state.leader if is_led else NO_LEADER  # type: ignore[union-attr, return-value]


class GroupNodes(ClusterNodes):
    """A consumer group, in one session."""

    def __init__(self, session: ZooKeeperSession, group: str) -> None:
        super().__init__(session)
        self._root = f"/consumers/{group}"

    def register(self, consumer_id: str, subscription: Subscription, now_ms: int) -> bool:
        """Register a member; False when another session has its id."""
        return self.session.create_ephemeral(f"{self._root}/ids/{consumer_id}", subscription.encode(now_ms))

    def view(self, consumer_id: str, *, exclude_internal: bool, by_leader: bool) -> GroupView:
        """What the balance of the group depends on, with watches."""
        ids = f"{self._root}/ids"
        subscriptions: dict[str, Subscription] = {}
        for name in self.session.children(ids, watch=True):
            node = self.session.get(f"{ids}/{name}")
            try:
                if node is not None:
                    subscriptions[name] = Subscription.decode(node[0])
            except ValueError as error:
                _LOG.warning("%s/%s: %s", ids, name, error)
        is_filter = any(one.pattern != "static" for one in subscriptions.values())
        all_topics = self.session.children(paths.TOPICS, watch=True) if is_filter else []
        members = [
            Member(name, one.topics(all_topics, exclude_internal=exclude_internal))
            for name, one in subscriptions.items()
        ]
        own = next((one.streams for one in members if one.consumer_id == consumer_id), {})
        partitions = {topic: self.partitions(topic, watch=True) for topic in own}
        if by_leader:
            partitions = {topic: self._by_leader(topic, numbers) for topic, numbers in partitions.items()}
        return GroupView(members, self.session.children(paths.BROKER_IDS, watch=True), partitions)

    def claim(self, partition: TopicPartition, thread: str) -> bool:
        """Become the owner of a partition; False while another session owns it, and a watch fires when it does not."""
        return self.session.create_ephemeral(self._owner(partition), thread.encode())

    def release(self, partition: TopicPartition) -> None:
        self.session.delete_own(self._owner(partition))

    def offset(self, partition: TopicPartition) -> int | None:
        """The committed offset, which is the next to read; None without one."""
        node = self.session.get(self._offset(partition))
        return None if node is None or not node[0] else int(node[0])

    def commit(self, partition: TopicPartition, offset: int) -> None:
        self.session.put(self._offset(partition), str(offset).encode())

    def _by_leader(self, topic: str, numbers: list[int]) -> list[int]:
        leaders = {number: self.leader(TopicPartition(topic, number), watch=True) for number in numbers}
        return sorted(numbers, key=lambda number: (leaders[number], number))

    def _owner(self, partition: TopicPartition) -> str:
        return f"{self._root}/owners/{partition.topic}/{partition.partition}"

    def _offset(self, partition: TopicPartition) -> str:
        return f"{self._root}/offsets/{partition.topic}/{partition.partition}"
