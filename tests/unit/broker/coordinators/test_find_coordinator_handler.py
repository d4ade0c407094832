"""FindCoordinator, and the creation of __consumer_offsets and __transaction_state."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.share_state.records import SHARE_STATE_TOPIC
from sordini.broker.topics.metadata_cache import BrokerMetadata
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.types import BrokerId, TopicId, topic_id_text
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.topics import create_topic
from tests.support.unit_broker import ADDRESS, ME, UnitBroker, a_broker, a_peer, answer_of, led, topic_id_of

FIVE = {"offsets.topic.num.partitions": "5"}


def find(broker: UnitBroker, version: int, *keys: str) -> Any:
    request = FindCoordinatorRequest(key=keys[0], coordinator_keys=list(keys))
    return broker.ask(ApiKey.FIND_COORDINATOR, version, request)


async def written(broker: UnitBroker, topic: str = OFFSETS_TOPIC) -> None:
    """Wait until the topic is in the store, where the controller finds it."""
    seen = asyncio.Event()
    if await broker.session.exists(paths.topic(topic), watch=lambda _: seen.set()) is None:
        await seen.wait()


@pytest.mark.parametrize("version", range(7))
async def test_the_first_request_creates_the_topic_and_is_answered_when_it_exists(version: int) -> None:
    async with a_broker(FIVE) as broker:
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
        pending = broker.serve(ApiKey.FIND_COORDINATOR, version, request)
        assert isinstance(pending, DelayedResponse)
        await written(broker)
        assert not pending.is_answered
        await broker.lead(OFFSETS_TOPIC, 5)
        await broker.settled()
        found = answer_of(pending, ApiKey.FIND_COORDINATOR, version)
        found = found.coordinators[0] if version >= 4 else found
        assert (found.error_code, found.node_id, found.host, found.port) == (0, ME, *ADDRESS)


async def test_a_topic_that_another_broker_has_created_is_waited_for() -> None:
    async with a_broker(FIVE) as broker:
        replicas = dict.fromkeys(range(5), (ME,))
        await create_topic(broker.session, OFFSETS_TOPIC, replicas, topic_id_of(OFFSETS_TOPIC), {})
        pending = broker.serve(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"))
        assert isinstance(pending, DelayedResponse)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not pending.is_answered
        await broker.lead(OFFSETS_TOPIC, 5)
        await broker.settled()
        assert answer_of(pending, ApiKey.FIND_COORDINATOR, 3).node_id == ME
        assert not broker.log.at("warning")


async def test_the_topic_is_created_once_with_its_own_settings() -> None:
    async with a_broker({**FIVE, "offsets.topic.segment.bytes": "1048576"}) as broker:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        pendings = [broker.serve(ApiKey.FIND_COORDINATOR, 4, request) for _ in range(3)]
        await written(broker)
        assert len(broker.tasks) == 1
        settings, _ = await broker.session.get(paths.topic_config(OFFSETS_TOPIC))
        assert json.loads(settings)["config"] == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "1048576",
        }
        assignment, _ = await broker.session.get(paths.topic(OFFSETS_TOPIC))
        assert json.loads(assignment)["partitions"] == {str(index): [ME] for index in range(5)}
        await broker.lead(OFFSETS_TOPIC, 5)
        await broker.settled()
        assert all(isinstance(pending, DelayedResponse) and pending.is_answered for pending in pendings)


async def test_metadata_creates_the_topic_with_its_own_settings_too() -> None:
    async with a_broker(FIVE) as broker:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)], allow_auto_topic_creation=True)
        answer = broker.ask(ApiKey.METADATA, 4, request)
        assert answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        await written(broker)
        settings, _ = await broker.session.get(paths.topic_config(OFFSETS_TOPIC))
        assert json.loads(settings)["config"]["cleanup.policy"] == "compact"
        await broker.lead(OFFSETS_TOPIC, 5)
        await broker.settled()


async def test_with_zookeeper_the_topic_has_the_configured_replicas_or_is_not_created() -> None:
    async with a_broker({"zookeeper.connect": "zk:2181"}) as broker:
        answer = await broker.ask_later(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
        assert [row.error_code for row in answer.coordinators] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await broker.session.exists(paths.topic(OFFSETS_TOPIC)) is None
        [(_, fields)] = broker.log.at("warning")
        assert "larger than available brokers" in fields["reason"]


async def test_many_coordinators_are_found_at_once() -> None:
    async with a_broker(FIVE) as broker:
        await broker.lead(OFFSETS_TOPIC, 5)
        answer = find(broker, 4, "a", "b", "")
        assert [(row.key, row.node_id, row.error_code) for row in answer.coordinators] == [
            ("a", ME, 0),
            ("b", ME, 0),
            ("", ME, 0),
        ]
        assert broker.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest()).coordinators == []


async def test_the_coordinators_address_is_that_of_the_clients_listener() -> None:
    async with a_broker(FIVE) as broker:
        await broker.lead(OFFSETS_TOPIC, 5)
        broker.peer = a_peer("INTERNAL")
        assert find(broker, 3, "g").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_group_keeps_its_partition_when_partitions_are_added() -> None:
    async with a_broker(FIVE) as broker:
        await broker.lead(OFFSETS_TOPIC, 5)
        assert find(broker, 3, "g").node_id == ME
        for index in range(5, 10):
            no_leader = led(BrokerId(-1))
            broker.parts.metadata.set_partition(OFFSETS_TOPIC, topic_id_of(OFFSETS_TOPIC), index, no_leader)
        assert not any(find(broker, 3, f"g{number}").error_code for number in range(20))


SHARE_PARTITION = f"with:colon:{topic_id_text(TopicId(bytes(range(16))))}:7"


async def test_the_coordinator_of_a_share_partition_leads_its_partition_of_the_state_topic() -> None:
    async with a_broker(FIVE) as broker:
        await broker.lead(SHARE_STATE_TOPIC, 50)
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SHARE_PARTITION, "g:1:0"])
        found, refused = broker.ask(ApiKey.FIND_COORDINATOR, 6, request).coordinators
        assert (found.key, found.error_code, found.node_id) == (SHARE_PARTITION, 0, 1)
        assert (refused.key, refused.error_code, refused.node_id) == ("g:1:0", ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("key", ["", "g", "g:0", "g:1:0", " :AAAAAAAAAAAAAAAAAAAAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAA:one"])
async def test_what_names_no_share_partition_is_refused_and_makes_no_topic(key: str) -> None:
    async with a_broker(FIVE) as broker:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        [row] = broker.ask(ApiKey.FIND_COORDINATOR, 6, request).coordinators
        assert (row.error_code, row.node_id) == (ErrorCode.INVALID_REQUEST, -1)
        assert not broker.tasks


async def test_share_partitions_are_unknown_before_version_6() -> None:
    async with a_broker(FIVE) as broker:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[SHARE_PARTITION])
        [row] = broker.ask(ApiKey.FIND_COORDINATOR, 5, request).coordinators
        assert row.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_transactional_id_is_coordinated_by_the_leader_of_its_partition_whichever_broker_that_is(
    version: int,
) -> None:
    async with a_broker({"transaction.state.log.num.partitions": "3"}) as broker:
        other = BrokerMetadata(BrokerId(9), {"PLAINTEXT": ("there", 9092)}, None)
        broker.parts.metadata.set_brokers(BrokerId(9), [other])
        for index in range(3):
            row = led(BrokerId(9 if index == partition_for("t", 3) else -1))
            broker.parts.metadata.set_partition(TRANSACTIONS_TOPIC, topic_id_of(TRANSACTIONS_TOPIC), index, row)
        request = FindCoordinatorRequest(key="t", key_type=1, coordinator_keys=["t"])
        found = broker.ask(ApiKey.FIND_COORDINATOR, version, request)
        found = found.coordinators[0] if version >= 4 else found
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 9, "there", 9092)


async def test_the_first_transactional_id_creates_its_topic_and_is_answered_when_that_exists() -> None:
    settings = {"transaction.state.log.num.partitions": "3", "transaction.state.log.segment.bytes": "1048576"}
    async with a_broker(settings) as broker:
        pending = broker.serve(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="t", key_type=1))
        assert isinstance(pending, DelayedResponse)
        await written(broker, TRANSACTIONS_TOPIC)
        assert not pending.is_answered
        created, _ = await broker.session.get(paths.topic_config(TRANSACTIONS_TOPIC))
        assert json.loads(created)["config"] == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "1048576",
            "unclean.leader.election.enable": "false",
        }
        assignment, _ = await broker.session.get(paths.topic(TRANSACTIONS_TOPIC))
        assert json.loads(assignment)["partitions"] == {str(index): [ME] for index in range(3)}
        assert await broker.session.exists(paths.topic(OFFSETS_TOPIC)) is None
        await broker.lead(TRANSACTIONS_TOPIC, 3)
        await broker.settled()
        assert answer_of(pending, ApiKey.FIND_COORDINATOR, 2).node_id == ME


async def test_metadata_creates_the_transactions_topic_with_its_own_settings_too() -> None:
    async with a_broker({"transaction.state.log.num.partitions": "3"}) as broker:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=TRANSACTIONS_TOPIC)], allow_auto_topic_creation=True
        )
        answer = broker.ask(ApiKey.METADATA, 4, request)
        assert answer.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        await written(broker, TRANSACTIONS_TOPIC)
        settings, _ = await broker.session.get(paths.topic_config(TRANSACTIONS_TOPIC))
        assert json.loads(settings)["config"]["compression.type"] == "uncompressed"
        await broker.lead(TRANSACTIONS_TOPIC, 3)
        await broker.settled()
