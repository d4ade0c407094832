"""Where a producer's brokers and partitions are: followed in ZooKeeper by watches, or asked of a static list."""

from __future__ import annotations

import random
from threading import Event

from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.routing import broker_addresses, metadata_request, partition_leaders
from sordini.heritage.config import ProducerConfig
from sordini.heritage.errors import BrokerLink, BrokerUnavailable, ConfigError, HeritageError, RequestRefused
from sordini.heritage.registry import ClusterNodes, ZooKeeper
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import CoordinationError

Leaders = list[Address | None]
"""By the number of the partition; None: no broker leads it now."""


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
        except CoordinationError as error:
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
