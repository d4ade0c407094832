"""Answers that name brokers' addresses follow the rule of the connection, whichever broker is named."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.records.preferred_replica import RackAwareReplicaSelector
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest
from sordini.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.types import BrokerId
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, known_broker

APACHE, LOST = BrokerId(3), BrokerId(4)
PLAIN = {ME: ("one", 9092), OTHER: ("two", 9092), APACHE: ("three", 9092)}
TUNNEL = {ME: ("tunnel", 1), OTHER: ("tunnel", 2), APACHE: ("three", 9092)}
RULES = {ME: {"TUNNEL": TUNNEL[ME]}, OTHER: {"TUNNEL": TUNNEL[OTHER]}, APACHE: {}, LOST: {}}
"""Broker 3 has none."""


@pytest.fixture
async def broker() -> AsyncIterator[UnitBroker]:
    """Brokers 1 to 4; only the first two have the rule TUNNEL, and the last has another listener alone."""
    async with a_broker({"offsets.topic.num.partitions": "1"}) as one:
        await one.lead("orders")
        await one.lead(OFFSETS_TOPIC)
        one.parts.metadata.set_brokers(
            ME,
            [
                known_broker(ME, PLAINTEXT=PLAIN[ME]),
                known_broker(OTHER, PLAINTEXT=PLAIN[OTHER]),
                known_broker(APACHE, PLAINTEXT=PLAIN[APACHE]),
                known_broker(LOST, INSIDE=("four", 9092)),
            ],
        )
        one.parts.metadata.set_rule_addresses(RULES)
        one.parts.metadata.changed()
        yield one


def use_rule(broker: UnitBroker, name: str) -> None:
    broker.peer = a_peer()
    broker.peer.endpoint_name = name


def metadata_addresses(broker: UnitBroker) -> dict[int, tuple[str, int]]:
    answer = broker.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    return {row.node_id: (row.host, row.port) for row in answer.brokers}


async def test_metadata_has_each_brokers_address_of_the_rule_and_else_of_the_listener(broker: UnitBroker) -> None:
    assert metadata_addresses(broker) == PLAIN
    use_rule(broker, "TUNNEL")
    assert metadata_addresses(broker) == TUNNEL


async def test_a_cached_answer_is_not_given_to_a_connection_with_another_rule(broker: UnitBroker) -> None:
    found = []
    for name in ("PLAINTEXT", "TUNNEL", "PLAINTEXT", "TUNNEL"):
        use_rule(broker, name)
        found.append(metadata_addresses(broker))
    assert found == [PLAIN, TUNNEL, PLAIN, TUNNEL]
    assert len(broker.parts.metadata._responses) == 2


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_the_coordinator_has_the_address_of_the_rule(broker: UnitBroker, version: int) -> None:
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
    found = []
    for name in ("PLAINTEXT", "TUNNEL"):
        use_rule(broker, name)
        answer = broker.ask(ApiKey.FIND_COORDINATOR, version, request)
        row = answer.coordinators[0] if version >= 4 else answer
        found.append((row.host, row.port))
    assert found == [PLAIN[ME], TUNNEL[ME]]


async def test_describe_cluster_has_the_addresses_of_the_rule(broker: UnitBroker) -> None:
    use_rule(broker, "TUNNEL")
    answer = broker.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    assert {row.broker_id: (row.host, row.port) for row in answer.brokers} == TUNNEL


async def test_a_leader_that_has_the_listener_alone_is_reachable_by_a_rule(broker: UnitBroker) -> None:
    metadata = broker.parts.metadata
    use_rule(broker, "TUNNEL")
    found = [metadata.why_unreachable(number, broker.peer) for number in (ME, APACHE, LOST, BrokerId(9))]
    none, missing = ErrorCode.NONE, ErrorCode.LISTENER_NOT_FOUND
    assert found == [none, none, missing, ErrorCode.LEADER_NOT_AVAILABLE]
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    (row,) = broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request).topics[0].partitions
    assert (row.error_code, row.leader_id) == (0, ME)


async def test_a_broker_whose_registration_was_not_read_yet_is_not_named_by_a_rule(broker: UnitBroker) -> None:
    """Its plain address might be one that the client cannot reach."""
    use_rule(broker, "TUNNEL")
    assert metadata_addresses(broker).keys() == {ME, OTHER, APACHE}
    broker.parts.metadata.set_rule_addresses({ME: RULES[ME]})
    assert metadata_addresses(broker) == {ME: TUNNEL[ME]}, "what was cached is not valid any more"
    use_rule(broker, "PLAINTEXT")
    assert metadata_addresses(broker) == PLAIN
    broker.parts.metadata.set_rule_addresses(RULES)
    use_rule(broker, "TUNNEL")
    assert metadata_addresses(broker) == TUNNEL


async def test_addresses_that_have_not_changed_keep_the_cached_answers(broker: UnitBroker) -> None:
    metadata_addresses(broker)
    broker.parts.metadata.set_rule_addresses(dict(RULES))
    assert len(broker.parts.metadata._responses) == 1


def test_the_closest_replica_is_one_that_the_client_can_reach() -> None:
    metadata = MetadataCache("a-cluster")
    rows = [(ME, {"PLAINTEXT": PLAIN[ME]}), (OTHER, {"INSIDE": ("two", 1)}), (LOST, {"INSIDE": ("four", 9092)})]
    metadata.set_brokers(ME, [BrokerMetadata(number, endpoints, "near") for number, endpoints in rows])
    metadata.changed()
    selector, peer = RackAwareReplicaSelector(metadata), a_peer()
    assert selector.reachable_in("near", peer) == {ME}
    peer.endpoint_name = "TUNNEL"
    assert selector.reachable_in("near", peer) == frozenset()
    metadata.set_rule_addresses(RULES)
    assert selector.reachable_in("near", peer) == {ME, OTHER}
    assert selector.reachable_in("far", peer) == frozenset()
    assert selector.reachable_in("near", a_peer()) == {ME}
