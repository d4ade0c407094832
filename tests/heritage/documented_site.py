"""A cluster with its ZooKeeper as a test of the documents' clients uses it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from examples.heritage.config import ConsumerConfig, ProducerConfig
from examples.heritage.consumer_connector import ConsumerConnector
from examples.heritage.fetchers import OnFetch
from examples.heritage.partitions import Partitioner, ProducerData
from examples.heritage.producer import Producer
from examples.heritage.simple_consumer import SimpleConsumer
from examples.heritage.streams import KafkaStream, MessageAndMetadata
from tests.cluster.cluster import Cluster
from tests.compat.groups.waiting import eventually

PATIENCE_MS = 20_000


class KeyIsPartition(Partitioner):
    """A number as the key is the partition."""

    def partition(self, key: int, num_partitions: int) -> int:
        assert key < num_partitions
        return key


class DocumentedSite:
    """A group and topics of one test."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.tree = cluster.tree
        self.group = f"group-{name}"
        self._name = name
        self._topics = itertools.count()
        self._connectors: list[ConsumerConnector] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connector in self._connectors:
            connector.shutdown()

    def topic(self, leaders: Sequence[int] = (1,), name: str = "") -> str:
        """A topic whose partitions have one replica each, on these brokers."""
        name = name or f"{self._name}-topic-{next(self._topics)}"
        self.cluster.create(name, [[leader] for leader in leaders])
        return name

    def move_leader(self, topic: str, replicas: Sequence[int]) -> None:
        """Let the first of its two replicas lead partition 0."""
        self.tree.reassign([(topic, 0, replicas)])
        self.cluster.wait(lambda: not self.tree.exists("/admin/reassign_partitions"), "the replicas have another order")
        if self.cluster.leader((topic, 0)) != replicas[0]:
            self.tree.elect_preferred([(topic, 0)])
        self.cluster.wait_for_leader((topic, 0), replicas[0])

    def created(self, path: str) -> int:
        """The transaction that created a node; 0 without the node."""
        stat = self.tree._client.exists(path)
        return 0 if stat is None else stat.czxid

    def producer(self, partitioner: Partitioner | None = None, **properties: object) -> Producer:
        """`batch_size=3` is `batch.size`."""
        return Producer(ProducerConfig.of(self.properties("zk.connect", properties)), partitioner=partitioner)

    def send(self, topic: str, partitions: Iterable[int], text: str = "") -> list[str]:
        """One message for each of these partitions, `<partition>:<number><text>`; what was sent."""
        sent = [f"{partition}:{number}{text}" for number, partition in enumerate(partitions)]
        producer = self.producer(KeyIsPartition())
        producer.send([ProducerData(topic, int(one.partition(":")[0]), [one.encode()]) for one in sent])
        producer.close()
        return sent

    def connector(self, on_fetch: OnFetch | None = None, **properties: object) -> ConsumerConnector:
        """A member of this test's group that begins at the beginning; not in the group until it has streams."""
        mild = {"auto.offset.reset": "smallest", "consumer.timeout.ms": PATIENCE_MS, "rebalance.backoff.ms": 100}
        mild |= {"group.id": self.group, "rebalance.max.retries": 100, "fetch.wait.max.ms": 50}
        given = mild | self.properties("zookeeper.connect", properties)
        connector = ConsumerConnector(ConsumerConfig.of(given), on_fetch)
        self._connectors.append(connector)
        return connector

    def properties(self, connect: str, properties: dict[str, object]) -> dict[str, object]:
        return {connect: self.tree.connect, **{name.replace("_", "."): value for name, value in properties.items()}}

    def simple_consumer(self, broker: int = 1) -> SimpleConsumer:
        return SimpleConsumer("127.0.0.1", self.cluster.brokers[broker].port)

    def nodes(self, kind: str) -> dict[str, Any]:
        """What is in the group's nodes below ids, or below owners or offsets and a topic."""
        root = f"/consumers/{self.group}/{kind}"
        return {name: self.tree.text(f"{root}/{name}") for name in self.tree.children(root)}


def texts(messages: Iterable[MessageAndMetadata]) -> list[str]:
    return [(one.message or b"").decode() for one in messages]


def take(stream: KafkaStream, count: int) -> list[str]:
    """So many messages of a stream, which raises ConsumerTimeout when they do not come."""
    return texts(next(stream) for _ in range(count))


class Reader:
    """Reads a stream to its end on a thread of its own."""

    def __init__(self, stream: KafkaStream) -> None:
        self.messages: list[MessageAndMetadata] = []
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, count: int) -> list[str]:
        """So many messages, or more."""
        eventually(lambda: len(self.messages) >= count, f"{count} messages come")
        return texts(self.messages)

    def join(self) -> list[str]:
        """All messages, once the stream has ended."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "the stream has not ended"
        return texts(self.messages)

    def _read(self) -> None:
        for message in self._stream:
            self.messages.append(message)
