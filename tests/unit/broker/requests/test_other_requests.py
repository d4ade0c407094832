"""The small handlers: ApiVersions, InitProducerId, FindCoordinator, DescribeCluster, SASL, DescribeConfigs."""

from __future__ import annotations

import pytest

from sordini.broker.cluster.cluster_handler import ClusterHandler
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.unit_broker import ADDRESS, CLUSTER_ID, ME, UnitBroker, a_broker


async def test_a_client_says_what_it_is() -> None:
    async with a_broker() as broker:
        request = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="3.9.1")
        assert broker.ask(ApiKey.API_VERSIONS, 3, request).error_code == 0
        assert (broker.peer.software_name, broker.peer.software_version) == ("apache-kafka-java", "3.9.1")


@pytest.mark.parametrize("name", ["", "a\nb", "-a", "a-", "a b", "x" * 0, "../x"])
async def test_a_malformed_software_name_is_refused_and_not_remembered(name: str) -> None:
    async with a_broker() as broker:
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        assert broker.ask(ApiKey.API_VERSIONS, 4, request).error_code == ErrorCode.INVALID_REQUEST
        assert broker.peer.software_name == "unknown"


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, ME, ErrorCode.NONE),
        ("another", ME, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", ME, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, ME + 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, ME, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_client_that_means_another_broker_is_sent_back_to_its_bootstrap_addresses(
    cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    """The codes are those of Apache Kafka 4.4.0 (KIP-1242)."""
    request = ApiVersionsRequest(
        client_software_name="c", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    async with a_broker() as broker:
        answer = broker.ask(ApiKey.API_VERSIONS, 5, request)
        assert answer.error_code == code
        assert bool(answer.api_keys) == (code == ErrorCode.NONE)
        assert broker.ask(ApiKey.API_VERSIONS, 4, request).error_code == ErrorCode.NONE  # It names neither.


async def given_id(broker: UnitBroker) -> int:
    answer = await broker.ask_later(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return answer.producer_id


async def test_producer_ids_are_given_once_and_not_again_by_the_next_broker() -> None:
    async with a_broker({"inter.broker.protocol.version": "2.8"}) as broker:  # It takes blocks from the store itself.
        first = await given_id(broker)
        others = [
            broker.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)).producer_id
            for _ in range(5)
        ]
        assert others == list(range(first + 1, first + 6))
        later = UnitBroker(broker.config, frozenset(), broker.disk.killed(), broker.session)
        assert await given_id(later) >= first + 1000


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id="mine"), ErrorCode.NOT_COORDINATOR),
        (InitProducerIdRequest(transactional_id=""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_producer_id_that_cannot_be_given_is_refused(request_: InitProducerIdRequest, code: ErrorCode) -> None:
    async with a_broker() as broker:
        answer = broker.ask(ApiKey.INIT_PRODUCER_ID, 4, request_)
        assert (answer.error_code, answer.producer_id) == (code, -1)


@pytest.mark.parametrize("version", range(2))
async def test_where_topics_have_no_ids_a_member_of_the_consumer_protocol_is_answered_which_setting_it_needs(
    version: int,
) -> None:
    async with a_broker({"inter.broker.protocol.version": "2.7"}) as broker:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["orders"])
        answer = broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "inter.broker.protocol.version is below 2.8, set group.protocol=classic" in answer.error_message


async def test_where_the_protocol_is_switched_off_its_members_are_answered_so() -> None:
    async with a_broker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["orders"])
        answer = broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.error_message.startswith("group.coordinator.rebalance.protocols of this broker lacks consumer")


async def test_a_coordinator_of_an_unknown_kind_is_refused() -> None:
    async with a_broker() as broker:
        answer = broker.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g", key_type=7))
        assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(1, 0), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_the_cluster_describes_its_brokers_and_no_controllers(endpoint_type: int, code: int) -> None:
    async with a_broker() as broker:
        await broker.learn()
        answer = broker.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=endpoint_type))
        assert answer.error_code == code
        assert [(row.broker_id, row.host, row.port) for row in answer.brokers] == ([] if code else [(ME, *ADDRESS)])


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker's listener: a controller cannot be described here"),
        (
            9,
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "this is a broker's listener: endpoint type 9 cannot be described here",
        ),
        (1, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_only_a_refused_type_of_endpoint_is_explained_by_it(
    endpoint_type: int, code: ErrorCode, message: str | None
) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    assert ClusterHandler.describe_error_response(request, code).error_message == message


async def test_sasl_is_refused_with_illegal_sasl_state() -> None:
    async with a_broker() as broker:
        answer = broker.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = broker.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "orders", 0),
        (2, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "../x", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (4, "1", 0),
        (4, "", 0),
        (4, "2", ErrorCode.INVALID_REQUEST),
        (4, "²", ErrorCode.INVALID_REQUEST),
        (4, "one", ErrorCode.INVALID_REQUEST),
        (8, "1", 0),
        (8, "2", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (16, "m", 0),  # Client metrics have no settings here.
        (32, "g", 0),
        (32, "", ErrorCode.INVALID_REQUEST),
        (-1, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_configurations_are_described_of_what_is_here(kind: int, name: str, code: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        answer = broker.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource]))
        (result,) = answer.results
        assert result.error_code == code
        assert bool(result.configs) is (code == 0 and name != "")
