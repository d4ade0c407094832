"""The cluster as one Metadata response has it, and what only each broker knows of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sordini import __version__
from sordini.admin.cluster_client import ClusterClient
from sordini.admin.parallel_requests import ParallelRequests
from sordini.broker.cluster.health_keys import SERVING
from sordini.client.cluster import Link
from sordini.client.record_requests import LATEST, listed_partitions, offsets_request
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

BROKER_RESOURCE: Final = 4
ROLES_KEY: Final = "process.roles"
PROTOCOL_KEY: Final = "inter.broker.protocol.version"
REQUESTS_S: Final = 9.0
"""For what brokers report of themselves, together: a page does not wait longer for one that is silent."""
METADATA_VERSIONS: Final = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}
"""The newest level of the feature metadata.version that each release of Apache Kafka has in production."""


class PartitionRow(NamedTuple):
    """One partition."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)

    @property
    def state(self) -> str:
        """A word for people, and the order in which partitions are listed."""
        if self.leader is None:
            return "offline"
        return "under-replicated" if self.is_under_replicated else "in sync"


class BrokerRow(NamedTuple):
    """One registered broker."""

    broker: int
    address: str
    rack: str | None
    is_controller: bool
    leads: int
    replicas: int
    out_of_sync: int


class TopicRow(NamedTuple):
    """One topic."""

    topic: str
    is_internal: bool
    partitions: int
    replication: int
    offline: int
    under_replicated: int


class ClusterState(NamedTuple):
    """All of it."""

    cluster_id: str | None
    controller: int | None
    brokers: list[BrokerRow]
    topics: list[TopicRow]
    partitions: list[PartitionRow]
    """Offline ones first, then under-replicated ones, then by name, those of internal topics last."""

    @property
    def offline(self) -> int:
        return sum(row.leader is None for row in self.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(row.is_under_replicated for row in self.partitions)


class BrokerFacts(NamedTuple):
    """What a broker says of itself."""

    software: str
    """`Sordini`, or `Apache Kafka 4.4`, or that it is not known."""
    role: str
    """`broker`, or what process.roles has."""
    note: str | None = None
    """Why a Sordini does not serve."""


async def read_state(cluster: ClusterClient) -> ClusterState:
    """Raises ClientError."""
    found: MetadataResponse = await cluster.retry(lambda: cluster.metadata(None))
    return state_of(found)


def state_of(found: MetadataResponse) -> ClusterState:
    """The rows of a response."""
    partitions = [
        PartitionRow(
            topic.name or "",
            row.partition_index,
            row.leader_id if row.leader_id >= 0 else None,
            row.leader_epoch if row.leader_epoch >= 0 else None,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
        )
        for topic in found.topics
        for row in topic.partitions
    ]
    internal = {topic.name for topic in found.topics if topic.is_internal}
    partitions.sort(
        key=lambda row: (
            row.leader is not None,
            not row.is_under_replicated,
            row.topic in internal,
            row.topic,
            row.partition,
        )
    )
    ids = {broker.node_id for broker in found.brokers}
    leads, replicas, late = _counts(partitions)
    brokers = [
        BrokerRow(
            one.node_id,
            f"{one.host}:{one.port}",
            one.rack,
            one.node_id == found.controller_id,
            leads.get(one.node_id, 0),
            replicas.get(one.node_id, 0),
            late.get(one.node_id, 0),
        )
        for one in sorted(found.brokers, key=lambda one: one.node_id)
    ]
    controller = found.controller_id if found.controller_id in ids else None
    return ClusterState(found.cluster_id, controller, brokers, _topics(found, partitions), partitions)


def _counts(rows: Iterable[PartitionRow]) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """By broker: the partitions that it leads, that it has, and of which its replica is out of sync."""
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    late: dict[int, int] = {}
    for row in rows:
        if row.leader is not None:
            leads[row.leader] = leads.get(row.leader, 0) + 1
        for broker in row.replicas:
            replicas[broker] = replicas.get(broker, 0) + 1
            if broker not in row.in_sync:
                late[broker] = late.get(broker, 0) + 1
    return leads, replicas, late


def _topics(found: MetadataResponse, rows: Iterable[PartitionRow]) -> list[TopicRow]:
    internal = {topic.name or "": topic.is_internal for topic in found.topics}
    by_topic: dict[str, list[PartitionRow]] = {name: [] for name in internal}
    for row in rows:
        by_topic[row.topic].append(row)
    return [
        TopicRow(
            name,
            internal[name],
            len(of_topic),
            max((len(row.replicas) for row in of_topic), default=0),
            sum(row.leader is None for row in of_topic),
            sum(row.is_under_replicated for row in of_topic),
        )
        for name, of_topic in sorted(by_topic.items())
    ]


async def end_offsets(cluster: ClusterClient, rows: Sequence[PartitionRow]) -> dict[TopicPartition, int]:
    """The end offset of each partition whose leader answers."""
    wanted: dict[int, list[TopicPartition]] = {}
    for row in rows:
        if row.leader is not None:
            wanted.setdefault(row.leader, []).append(row.name)

    async def listed(link: Link, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        answer = await link.ask(offsets_request(dict.fromkeys(partitions, LATEST)))
        return {name: row.offset for name, row in listed_partitions(answer) if row.error_code == ErrorCode.NONE}

    answers = await ParallelRequests(cluster, wanted, REQUESTS_S).send(listed, wanted)
    return {name: offset for answer in answers.values() for name, offset in answer.items()}


async def read_facts(cluster: ClusterClient, brokers: Iterable[int]) -> dict[int, BrokerFacts]:
    """What each broker says of itself; nothing of one that is silent, or does not let the visitor know."""
    wanted = {broker: broker for broker in brokers}
    return await ParallelRequests(cluster, wanted, REQUESTS_S).send(_facts, wanted)


async def _facts(link: Link, broker: int) -> BrokerFacts:
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[SERVING, ROLES_KEY, PROTOCOL_KEY]
    )
    answer: DescribeConfigsResponse = await link.ask(DescribeConfigsRequest(resources=[resource]))
    values: dict[str, Any] = {row.name: row.value for result in answer.results for row in result.configs}
    role = values.get(ROLES_KEY) or "broker"
    serving = values.get(SERVING)
    if serving is not None:
        return BrokerFacts("Sordini", "broker", None if serving == "yes" else serving)
    # Apache Kafka refuses one whose software has no name.
    request = ApiVersionsRequest(client_software_name="sordini", client_software_version=__version__)
    versions: ApiVersionsResponse = await link.ask(request)
    level = next((row.max_version_level for row in versions.finalized_features if row.name == "metadata.version"), None)
    if level is not None:
        return BrokerFacts(f"Apache Kafka, metadata.version {_release(level)}", role)
    if values.get(PROTOCOL_KEY):
        return BrokerFacts(f"inter.broker.protocol {values[PROTOCOL_KEY]}", role)
    return BrokerFacts("not known", role)


def _release(level: int) -> str:
    """`4.4 (level 33)`."""
    return f"{METADATA_VERSIONS[level]} (level {level})" if level in METADATA_VERSIONS else f"level {level}"
