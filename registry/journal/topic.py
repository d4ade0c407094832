"""The topic of the records: created where it is missing, refused where a registry would lose records in it.

One partition, since decisions depend on the order of all records; compacted and nothing else, since a registry reads
the whole topic at its start.
"""

from __future__ import annotations

from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.config_requests import TOPIC, Resource, describe_configs
from sordini.admin.topics.topic_requests import create_topics
from sordini.client.errors import Refused
from sordini.protocol.errors import ErrorCode
from sordini.registry.journal.settings import JournalSettings
from sordini.registry.ports import JournalFailed
from sordini.replication.ports import Logger

SEGMENT_BYTES: Final = 16 * 1024 * 1024
"""Only closed segments are compacted, and all of the topic is read at a start."""
_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_REPLICAS_FOR_TWO_IN_SYNC: Final = 3


async def ensure_topic(cluster: ClusterClient, settings: JournalSettings, log: Logger) -> None:
    """Create the topic if there is none; then check it. Raises JournalFailed and ClientError.

    Retries without limit while the cluster's errors are temporary: the caller bounds the time.
    """
    if (partitions := await _partitions_of(cluster, settings.topic)) is None:
        partitions = await _create(cluster, settings, log)
    if partitions != 1:
        raise JournalFailed(f"topic '{settings.topic}' has {partitions} partitions, and a registry's topic has one")
    policy = await _cleanup_policy(cluster, settings.topic)
    if policy is not None and policy != _COMPACT:
        raise JournalFailed(
            f"topic '{settings.topic}' has {_POLICY}={policy}, so schemas in it would be deleted: "
            f"set {_POLICY}={_COMPACT}"
        )


async def _partitions_of(cluster: ClusterClient, topic: str) -> int | None:
    """The number of its partitions; None where there is no such topic."""

    async def attempt() -> int | None:
        for row in (await cluster.metadata([topic])).topics:
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return None
            if row.error_code:
                raise Refused(f"topic '{topic}'", row.error_code)
            return len(row.partitions)
        return None

    return await cluster.retry(attempt)


async def _create(cluster: ClusterClient, settings: JournalSettings, log: Logger) -> int:
    replicas = min(settings.replication_factor, await _count_brokers(cluster))
    in_sync = 2 if replicas >= _REPLICAS_FOR_TWO_IN_SYNC else 1
    configs = {_POLICY: _COMPACT, "min.insync.replicas": str(in_sync), "segment.bytes": str(SEGMENT_BYTES)}
    (row,) = await create_topics(
        cluster,
        [settings.topic],
        partitions=1,
        replication_factor=replicas,
        configs=configs,
        validate_only=False,
        if_not_exists=True,
    )
    if row["error"] is not None:
        raise JournalFailed(row["error"])
    if row["created"]:
        log.info("topic of schemas created", replicas=replicas, topic=settings.topic)
    # Another registry may have been first, with what an administrator configured.
    return 1 if row["created"] else await _partitions_of(cluster, settings.topic) or 1


async def _count_brokers(cluster: ClusterClient) -> int:
    async def attempt() -> int:
        if count := len((await cluster.metadata([])).brokers):
            return count
        # Apache Kafka, while it starts.
        raise Refused("the brokers of the cluster", ErrorCode.BROKER_NOT_AVAILABLE, "none is registered yet")

    return await cluster.retry(attempt)


async def _cleanup_policy(cluster: ClusterClient, topic: str) -> str | None:
    """None where this client may not describe it: an administrator who gave no right to is trusted."""

    async def attempt() -> str | None:
        try:
            (rows,) = await describe_configs(cluster, [Resource(TOPIC, topic)])
        except Refused as error:
            if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise known_later(error) from None
        return next((row["value"] for row in rows if row["key"] == _POLICY), None)

    return await cluster.retry(attempt)


def known_later(error: Refused) -> Refused:
    """The error of a broker for a topic that others have just created, as one that is tried again."""
    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    return Refused("the topic", ErrorCode.LEADER_NOT_AVAILABLE, "a broker does not know it yet")
