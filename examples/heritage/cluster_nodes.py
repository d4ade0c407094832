"""Brokers, partitions and leaders, read from ZooKeeper by programs on threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sordini.client.addresses import Address
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes

if TYPE_CHECKING:
    from examples.heritage.blocking_session import BlockingSession

NO_LEADER: Final = -1


class ClusterNodes:
    """The cluster in one session, which reports the next change with `watch`; malformed nodes count as missing."""

    def __init__(self, session: BlockingSession) -> None:
        self.session = session

    def brokers(self, *, watch: bool = False) -> dict[int, Address]:
        """The plaintext address of each registered broker."""
        found: dict[int, Address] = {}
        for broker_id in map(BrokerId, map(int, self.session.children(paths.BROKER_IDS, watch=watch))):
            data, stat = self.session.get(paths.broker(broker_id), watch=watch) or (b"", None)
            broker = znodes.decode_broker(broker_id, data, stat.czxid if stat else 0)
            for one in () if isinstance(broker, Malformed) else broker.endpoints:
                if one.security_protocol == "PLAINTEXT":
                    found.setdefault(int(broker_id), Address(one.host, one.port))
        return found

    def partitions(self, topic: str, *, watch: bool = False) -> list[int]:
        """The numbers of a topic's partitions, sorted; none without the topic."""
        data, _ = self.session.get(paths.topic(topic), watch=watch) or (b"", None)
        decoded = znodes.decode_topic(topic, data, 0)
        return [] if isinstance(decoded, Malformed) else sorted(decoded.replicas)

    def leader(self, partition: TopicPartition, *, watch: bool = False) -> int:
        """The id of the broker that leads a partition; NO_LEADER without one."""
        data, _ = self.session.get(paths.state(partition), watch=watch) or (b"", None)
        state = znodes.decode_state(partition, data)
        return NO_LEADER if isinstance(state, Malformed) or state.leader is None else int(state.leader)
