"""Log directories and sizes of partitions: DescribeLogDirs of every broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.parallel_requests import ParallelRequests
from sordini.client.cluster import Link
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

REQUESTS_S: Final = 9.0


class Directory(NamedTuple):
    """A log directory of a broker; sizes in bytes, None where the broker does not say."""

    path: str
    size: int
    total: int | None
    usable: int | None
    is_offline: bool

    @property
    def used_part(self) -> float | None:
        """Of the volume, by whatever is on it; 0 to 1."""
        if not self.total or self.usable is None:
            return None
        return 1 - self.usable / self.total


class Disks(NamedTuple):
    """What the brokers say; brokers that are silent, or do not let the visitor know, are left out."""

    directories: dict[int, list[Directory]]
    sizes: dict[tuple[TopicPartition, int], int]
    """By partition and broker."""

    def topic_sizes(self) -> dict[str, int]:
        """Bytes of all replicas of each topic."""
        found: dict[str, int] = {}
        for (partition, _), size in self.sizes.items():
            found[partition.topic] = found.get(partition.topic, 0) + size
        return found


async def read_disks(cluster: ClusterClient, brokers: Iterable[int], topic: str | None = None, count: int = 0) -> Disks:
    """The directories of brokers, with all partitions, or with the first `count` partitions of one topic."""
    topics = None if topic is None else [DescribableLogDirTopic(topic=topic, partitions=list(range(count)))]
    request = DescribeLogDirsRequest(topics=topics)

    async def asked(link: Link, _broker: int) -> DescribeLogDirsResponse:
        answer: DescribeLogDirsResponse = await link.ask(request)
        return answer

    wanted = {broker: broker for broker in brokers}
    answers = await ParallelRequests(cluster, wanted, REQUESTS_S).send(asked, wanted)
    found = Disks({}, {})
    for broker, answer in answers.items():
        if answer.error_code != ErrorCode.NONE or not answer.results:
            continue
        found.directories[broker] = []
        for row in answer.results:
            size = 0
            for described in row.topics:
                for one in described.partitions:
                    size += one.partition_size
                    if not one.is_future_key:
                        found.sizes[TopicPartition(described.name, one.partition_index), broker] = one.partition_size
            is_offline = row.error_code != ErrorCode.NONE
            found.directories[broker].append(
                Directory(row.log_dir, size, _known(row.total_bytes), _known(row.usable_bytes), is_offline)
            )
    return found


def _known(number: int) -> int | None:
    return None if number < 0 else number
