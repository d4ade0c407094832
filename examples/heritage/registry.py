"""The znodes of consumer groups, and the sessions in which they are read and written.

/consumers/[group]/ids/[consumer] -> subscription              ephemeral
/consumers/[group]/owners/[topic]/[p] -> consumer-stream       ephemeral
/consumers/[group]/offsets/[topic]/[p] -> next offset          persistent
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from examples.heritage.assignment import Member, Subscription
from examples.heritage.cluster_nodes import ClusterNodes
from examples.heritage.errors import NoZooKeeper, ZooKeeperError
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store import paths

if TYPE_CHECKING:
    from examples.heritage.blocking_session import BlockingSession

_PORT: Final = 2181
LOG: Final = logging.getLogger("examples.heritage")
_NEEDED: Final = (
    "these clients coordinate through ZooKeeper, which brokers on the embedded store do not have. Their groups are of "
    "aiokafka, kafka-python and confluent-kafka; SimpleConsumer and a Producer with broker.list need no ZooKeeper"
)


class ZooKeeper:
    """An ensemble, as in `zookeeper.connect`."""

    def __init__(self, connect: str, timeout_ms: int) -> None:
        """`timeout_ms` is of sessions, and to connect. Raises NoZooKeeper for what is no address of an ensemble."""
        try:
            ensemble = _ensemble(connect)
        except ValueError as error:
            raise NoZooKeeper(f"zookeeper.connect is {connect!r}: {error}: {_NEEDED}") from None
        from examples.heritage.blocking_session import BlockingStore  # Late: kazoo is slow to import.

        self._store = BlockingStore(ensemble, session_timeout_ms=timeout_ms, connection_timeout_ms=timeout_ms)

    def open(self, changed: Callable[[], None]) -> BlockingSession:
        """A new session; `changed` is called at its changes and those of what is watched. Raises NoZooKeeper."""
        try:
            return self._store.open_session(changed)
        except ZooKeeperError as error:
            raise NoZooKeeper(f"{error}: {_NEEDED}") from None

    def close(self) -> None:
        """End all sessions, and with them their ephemeral nodes."""
        self._store.close()


class GroupView(NamedTuple):
    """What a group's balance depends on: members, brokers, and this member's topics with their sorted partitions."""

    members: list[Member]
    brokers: list[str]
    partitions: Mapping[str, list[int]]


class GroupNodes(ClusterNodes):
    """A consumer group, in one session."""

    def __init__(self, session: BlockingSession, group: str) -> None:
        super().__init__(session)
        self._root = f"/consumers/{group}"

    def register(self, consumer_id: str, subscription: Subscription) -> bool:
        """Register a member, if it is not; False when another session has its id."""
        data = subscription.encode(time.time_ns() // 1_000_000)
        return self.session.create_ephemeral(f"{self._root}/ids/{consumer_id}", data)

    def view(self, consumer_id: str, order: str) -> GroupView:
        """The view, with watches on all of it."""
        subscriptions = self._subscriptions()
        is_filter = any(one.pattern != "static" for one in subscriptions.values())
        topics = self.session.children(paths.TOPICS, watch=True) if is_filter else []
        members = [Member(name, one.topics(topics)) for name, one in subscriptions.items()]
        own = {topic for one in members if one.consumer_id == consumer_id for topic in one.streams}
        partitions = {topic: self.partitions(topic, watch=True) for topic in sorted(own)}
        for topic, numbers in partitions.items() if order == "document" else ():
            leaders = {number: self.leader(TopicPartition(topic, number), watch=True) for number in numbers}
            partitions[topic] = [number for _, number in sorted((leaders[number], number) for number in numbers)]
        return GroupView(members, self.session.children(paths.BROKER_IDS, watch=True), partitions)

    def claim(self, partition: TopicPartition, thread: str) -> bool:
        """Become the owner of a partition; False while another session owns it, whose end is watched then."""
        return self.session.create_ephemeral(self._path("owners", partition), thread.encode())

    def release(self, partition: TopicPartition) -> None:
        self.session.delete_own(self._path("owners", partition))

    def offset(self, partition: TopicPartition) -> int:
        """The committed offset; -1 without one."""
        data, _ = self.session.get(self._path("offsets", partition)) or (b"", None)
        return int(data or b"-1")

    def commit(self, partition: TopicPartition, offset: int) -> None:
        self.session.put(self._path("offsets", partition), str(offset).encode())

    def _subscriptions(self) -> dict[str, Subscription]:
        found = {}
        for name in self.session.children(f"{self._root}/ids", watch=True):
            data, _ = self.session.get(f"{self._root}/ids/{name}") or (b"", None)
            try:
                found[name] = Subscription.decode(data)
            except ValueError as error:  # Another program's, or one that has just left.
                LOG.info("%s/ids/%s: %s", self._root, name, error)
        return found

    def _path(self, kind: str, partition: TopicPartition) -> str:
        return f"{self._root}/{kind}/{partition.topic}/{partition.partition}"


def _ensemble(connect: str) -> str:
    """HOST:PORT,HOST:PORT/CHROOT, with the port where there is none. Raises ValueError."""
    if not connect or connect.startswith("embedded:"):
        raise ValueError("it names no ZooKeeper")
    hosts, slash, chroot = connect.partition("/")
    if slash and (not chroot.strip("/") or "//" in chroot):
        raise ValueError(f"'/{chroot}' is not the path of a znode")
    return ",".join(_with_port(one.strip()) for one in hosts.split(",")) + f"{slash}{chroot}".rstrip("/")


def _with_port(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(_PORT)
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not HOST:PORT of a ZooKeeper")
    return f"{host}:{port}"
