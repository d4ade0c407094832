"""Where a producer's brokers and partitions are: followed in ZooKeeper by watches, or asked of a static list.

With `zk.connect` nothing read is older than the last change: each node is read with a watch, and when one fires, all is
read again at the next use.
"""

from __future__ import annotations

import random
from threading import Event
from typing import NamedTuple, Protocol

from sordini.client.addresses import Address, parse_bootstrap
from sordini.client.routing import broker_addresses, metadata_request, partition_leaders
from sordini.heritage.broker_link import BrokerLink
from sordini.heritage.config import ProducerConfig
from sordini.heritage.errors import BrokerUnavailable, ConfigError, HeritageError, RequestRefused
from sordini.heritage.registry import NO_LEADER, ClusterNodes
from sordini.heritage.zookeeper import ZooKeeper
from sordini.protocol.types import TopicPartition
from sordini.replication.ports import CoordinationError


class PartitionAndLeader(NamedTuple):
    """A partition of a topic and the address of the broker to send to; None: it has no leader now."""

    number: int
    leader: Address | None


class BrokerPartitions(Protocol):
    """The partitions of topics, sorted by number."""

    def of(self, topic: str) -> list[PartitionAndLeader]:
        """Raises HeritageError without the topic, or when its partitions cannot be found out."""

    def refresh(self) -> None:
        """Forget what is known: it has turned out to be old."""

    def close(self) -> None: ...


class WatchedPartitions:
    """By watches on brokers, topics and the states of partitions."""

    def __init__(self, config: ProducerConfig) -> None:
        self._zookeeper = ZooKeeper(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_sessiontimeout_ms)
        self._changed = Event()
        self._nodes = ClusterNodes(self._zookeeper.open(self._changed.set))
        self._known: dict[str, list[PartitionAndLeader]] = {}

    def of(self, topic: str) -> list[PartitionAndLeader]:
        if self._changed.is_set():
            self.refresh()
        if topic not in self._known:
            try:
                self._known[topic] = self._read(topic)
            except CoordinationError as error:
                raise HeritageError(f"the partitions of topic {topic!r} cannot be read: {error}") from None
        return self._known[topic]

    def refresh(self) -> None:
        self._changed.clear()
        self._known.clear()

    def close(self) -> None:
        self._zookeeper.close()

    def _read(self, topic: str) -> list[PartitionAndLeader]:
        if not self._nodes.session.is_open:
            self._nodes = ClusterNodes(self._zookeeper.open(self._changed.set))
        brokers = self._nodes.brokers(watch=True)
        numbers = self._nodes.partitions(topic, watch=True)
        if not numbers:
            raise HeritageError(f"there is no topic {topic!r} in ZooKeeper; create it first")
        leaders = {number: self._nodes.leader(TopicPartition(topic, number), watch=True) for number in numbers}
        return [PartitionAndLeader(number, brokers.get(leaders.get(number, NO_LEADER))) for number in numbers]


class ListedPartitions:
    """By asking the brokers of a static list; a partition whose leader is not in the answer has none."""

    def __init__(self, config: ProducerConfig) -> None:
        try:
            brokers = parse_bootstrap(config.broker_list)
        except ValueError as error:
            raise ConfigError(f"broker.list is {config.broker_list!r}: {error}") from None
        self._links = [BrokerLink(address, config.client_id, config.socket_timeout_ms) for address in brokers]
        self._known: dict[str, list[PartitionAndLeader]] = {}

    def of(self, topic: str) -> list[PartitionAndLeader]:
        if topic not in self._known:
            self._known[topic] = self._asked(topic)
        return self._known[topic]

    def refresh(self) -> None:
        self._known.clear()

    def close(self) -> None:
        for link in self._links:
            link.close()

    def _asked(self, topic: str) -> list[PartitionAndLeader]:
        reason: HeritageError = BrokerUnavailable("broker.list is empty")
        for link in random.sample(self._links, len(self._links)):
            try:
                answer = link.ask(metadata_request([topic]))
            except BrokerUnavailable as error:
                reason = error
                continue
            if answer.topics[0].error_code:
                raise RequestRefused(f"topic {topic!r}", answer.topics[0].error_code)
            brokers = broker_addresses(answer)
            leaders = sorted(partition_leaders(answer.topics[0]).items())
            return [PartitionAndLeader(number, brokers.get(leader.broker_id)) for number, leader in leaders]
        raise reason
