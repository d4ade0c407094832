"""What a producer is given, what a user may put in the place of its defaults, by a subclass, and where partitions are:
followed in ZooKeeper by watches, or asked of a static list of brokers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple

from examples.heritage.broker_link import BrokerLink
from examples.heritage.cluster_nodes import ClusterNodes
from examples.heritage.config import ProducerConfig
from examples.heritage.errors import BrokerUnavailable, ConfigError, HeritageError, RequestRefused, ZooKeeperError
from examples.heritage.registry import ZooKeeper
from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.routing import broker_addresses, metadata_request, partition_leaders
from sordini.protocol.java_hash import bytes_hash, number_hash, partition_of, text_hash
from sordini.protocol.types import TopicPartition

Leaders = list[Address | None]  # By the number of the partition; None: no broker leads it now.


class ProducerData(NamedTuple):
    """Messages that go to one partition of a topic together. The key chooses it, and is not stored in them."""

    topic: str
    key: Any
    """None: a partition at random."""
    messages: Sequence[Any]


class Partitioner:
    """Chooses the partition for a key: by its Java `hashCode`, as Python's `hash` differs between processes."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """From 0 up to but not including `num_partitions`. Raises ConfigError for keys without a Java hash code."""
        if isinstance(key, str):
            return partition_of(text_hash(key), num_partitions)
        if isinstance(key, bytes):
            return partition_of(bytes_hash(key), num_partitions)
        if type(key) is int and -(2**63) <= key < 2**63:
            return partition_of(number_hash(key), num_partitions)
        raise ConfigError(f"{key!r} of type {type(key).__name__} has no Java hash code: give a partitioner")


class Encoder:
    """Makes the bytes of a message; the default does nothing."""

    def to_message(self, data: Any) -> bytes:
        if not isinstance(data, bytes):
            raise ConfigError(f"a message is {type(data).__name__}; without an encoder messages are bytes")
        return data


class CallbackHandler:
    """Hooks, called in the thread that sends: the caller's, or that of an asynchronous producer."""

    def before_sending_data(self, events: Sequence[ProducerData]) -> Sequence[ProducerData]:
        """What is to be sent in the place of these."""
        return events

    def on_failure(self, events: Sequence[ProducerData], error: Exception) -> None:
        """These were not sent, or that is unknown; the last attempt ended with the error."""


class WatchedPartitions:
    """By watches on brokers, topics and the states of partitions: when one fires, all is read again at the next use."""

    def __init__(self, config: ProducerConfig) -> None:
        self._zookeeper = ZooKeeper(config.zk_connect, config.session_timeout_ms)
        self._changed = Event()
        self._nodes = ClusterNodes(self._zookeeper.open(self._changed.set))
        self._known: dict[str, Leaders] = {}

    def leaders(self, topic: str) -> Leaders:
        """The leaders of a topic's partitions. Raises HeritageError when they cannot be found out."""
        if self._changed.is_set():
            self._changed.clear()
            self._known.clear()
        if topic not in self._known:
            self._known[topic] = self._read(topic)
        return self._known[topic]

    def close(self) -> None:
        self._zookeeper.close()

    def _read(self, topic: str) -> Leaders:
        if not self._nodes.session.is_open:
            self._nodes = ClusterNodes(self._zookeeper.open(self._changed.set))
        try:
            brokers = self._nodes.brokers(watch=True)
            numbers = self._nodes.partitions(topic, watch=True)
            leaders = [self._nodes.leader(TopicPartition(topic, number), watch=True) for number in numbers]
        except ZooKeeperError as error:
            raise HeritageError(f"the partitions of topic {topic!r} cannot be read: {error}") from None
        if not numbers:
            raise HeritageError(f"there is no topic {topic!r} in ZooKeeper: create it first")
        return [brokers.get(leader) for leader in leaders]


class ListedPartitions:
    """By asking the first broker of a static list that answers, for each request."""

    def __init__(self, config: ProducerConfig) -> None:
        try:
            addresses = parse_bootstrap(config.broker_list)
        except ValueError as error:
            raise ConfigError(f"broker.list is {config.broker_list!r}: {error}") from None
        self._links = [BrokerLink(one, config.client_id, config.socket_timeout_ms / 1000) for one in addresses]

    def leaders(self, topic: str) -> Leaders:
        """As that of WatchedPartitions."""
        reason: HeritageError = BrokerUnavailable("broker.list names no broker")
        for link in random.sample(self._links, len(self._links)):
            try:
                answer = link.ask(metadata_request([topic]))
            except BrokerUnavailable as error:
                reason = error
                continue
            if answer.topics[0].error_code:
                raise RequestRefused(f"topic {topic!r}", answer.topics[0].error_code)
            brokers, leaders = broker_addresses(answer), sorted(partition_leaders(answer.topics[0]).items())
            return [brokers.get(leader.broker_id) for _, leader in leaders]
        raise reason

    def close(self) -> None:
        for link in self._links:
            link.close()
