"""Creating the topics of a run through the protocol."""

from __future__ import annotations

import asyncio

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from sordini.protocol.types import TopicId, TopicPartition
from sordini.testing.simulation.simulated_network import Address, SimNetwork
from tests.sim.client import Connection

TIMEOUT_S = 5.0
BACKOFF_S = 0.2


async def create_topics(
    network: SimNetwork,
    address: Address,
    partitions: dict[str, int],
    configs: dict[str, dict[str, str]],
    give_up: float,
) -> dict[TopicPartition, TopicId]:
    """Create topics, each with its own configs, and wait until every partition is led; TimeoutError past `give_up`."""
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key, value=value) for key, value in sorted(configs.get(name, {}).items())
            ],
        )
        for name, count in sorted(partitions.items())
    ]
    while network.loop.time() < give_up:
        try:
            connection = await Connection.open(network, address, "admin")
        except OSError:
            await asyncio.sleep(BACKOFF_S)
            continue
        try:
            async with asyncio.timeout(TIMEOUT_S):
                request = CreateTopicsRequest(topics=topics, timeout_ms=2_000)
                created = await connection.request(ApiKey.CREATE_TOPICS, 7, request)
                found = await connection.request(ApiKey.METADATA, 12, _all_of(partitions))
            refused = [topic for topic in created.topics if topic.error_code not in _FINE]
            assert not refused, f"{refused[0].name}: {refused[0].error_code} {refused[0].error_message}"
            ids = _led(found)
            if len(ids) == sum(partitions.values()):
                return ids
        except OSError:
            pass
        finally:
            connection.close()
        await asyncio.sleep(BACKOFF_S)
    raise TimeoutError("the topics could not be created in time")


_FINE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT)


def _all_of(partitions: dict[str, int]) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in sorted(partitions)], allow_auto_topic_creation=False
    )


def _led(found: MetadataResponse) -> dict[TopicPartition, TopicId]:
    return {
        TopicPartition(topic.name or "", partition.partition_index): TopicId(bytes(topic.topic_id))
        for topic in found.topics
        for partition in topic.partitions
        if not topic.error_code and not partition.error_code and partition.leader_id >= 0
    }
