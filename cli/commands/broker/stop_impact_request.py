"""The partitions of a broker on this machine, read through its own listener in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.config_requests import TOPIC
from sordini.admin.failure import Failure
from sordini.broker.configuration.config import Config
from sordini.cli.commands.broker.stop_impact import PartitionReplicas, StopImpact, assess_stop
from sordini.cli.common.command_cluster import command_cluster
from sordini.client.addresses import Address
from sordini.client.errors import check
from sordini.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from sordini.protocol.types import TopicPartition
from sordini.storage.checkpoints import DamagedFile, read_meta
from sordini.storage.disk import Disk

SECONDS_MAX: Final = 3.0
"""For all requests together: the stop is not delayed for longer."""
IN_SYNC_MIN: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
_LOCAL: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to.


def fetch_stop_impact(config: Config, disk: Disk) -> StopImpact:
    """The effect of stopping the broker of this configuration. Raises Failure if it is unknown after SECONDS_MAX."""
    broker = _broker_id(config, disk)
    address = next((Address(_LOCAL.get(one.host, one.host), one.port) for one in config.endpoints if one.port), None)
    if address is None:
        raise Failure("its listeners have no fixed port")
    return asyncio.run(_within_time(broker, address))


def _broker_id(config: Config, disk: Disk) -> int:
    if config.broker_id >= 0:
        return config.broker_id
    try:
        for directory in config.log_directories:
            found = read_meta(disk, directory)
            if found is not None and found[0].broker_id is not None:
                return found[0].broker_id
    except (DamagedFile, OSError) as error:
        raise Failure(f"its broker id is unknown: {error}") from None
    raise Failure("its broker id is unknown: neither broker.id nor meta.properties has it")


async def _within_time(broker: int, address: Address) -> StopImpact:
    try:
        async with asyncio.timeout(SECONDS_MAX), command_cluster([address]) as cluster:
            return await _stop_impact(cluster, broker)
    except TimeoutError:
        raise Failure(f"{address} did not answer within {SECONDS_MAX:g} s") from None


async def _stop_impact(cluster: ClusterClient, broker: int) -> StopImpact:
    found = await cluster.metadata(None)
    running = {one.node_id for one in found.brokers}
    if broker not in running:
        raise Failure(f"broker {broker} is not among the live brokers of its cluster at the moment")
    rows = [
        (topic.name or "", row) for topic in found.topics for row in topic.partitions if broker in row.replica_nodes
    ]
    settings = await _settings(cluster, {name for name, row in rows if broker in row.isr_nodes})
    partitions = (
        PartitionReplicas(
            TopicPartition(name, row.partition_index),
            row.leader_id,
            row.replica_nodes,
            row.isr_nodes,
            *settings.get(name, ()),
        )
        for name, row in rows
    )
    return assess_stop(broker, partitions, running)


async def _settings(cluster: ClusterClient, topics: Collection[str]) -> dict[str, tuple[int, bool]]:
    """`min.insync.replicas` and `unclean.leader.election.enable` of each topic."""
    if not topics:
        return {}
    wanted = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[IN_SYNC_MIN, UNCLEAN])
        for name in sorted(topics)
    ]
    answer: DescribeConfigsResponse = await (await cluster.any_broker()).ask(DescribeConfigsRequest(resources=wanted))
    settings = {}
    for result in answer.results:
        check(f"topic '{result.resource_name}'", result.error_code, result.error_message)
        values = {config.name: config.value or "" for config in result.configs}
        in_sync_min = values.get(IN_SYNC_MIN, "")
        if not in_sync_min.isdecimal():
            raise Failure(f"the broker's answer has no {IN_SYNC_MIN} of topic '{result.resource_name}'")
        settings[result.resource_name] = int(in_sync_min), values.get(UNCLEAN) == "true"
    return settings
