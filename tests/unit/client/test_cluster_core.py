"""How a cluster is reached: how a session begins, the words for what goes wrong, and which broker is where."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials
from sordini.client.cluster_core import (
    NO_LEADER,
    ClusterMap,
    cannot_reach,
    no_broker,
    not_opened,
    open_session,
)
from sordini.client.errors import (
    ClientError,
    Disconnected,
    InvalidResponse,
    NotABroker,
    Unauthorized,
    Unreachable,
    lost,
)
from sordini.client.routing import PartitionLeader
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from sordini.protocol.messages.sasl import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import TopicPartition
from tests.unit.client.test_steps import carried_out

ADDRESS = Address("h", 1)
SECOND = Address("i", 2)


def a_broker(lifetime_ms: int) -> Any:
    def answer(request: Any, _version: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            rows = [ApiVersion(api_key=key, min_version=0, max_version=api.max_version) for key, api in APIS.items()]
            return ApiVersionsResponse(api_keys=rows)
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    return answer


def test_a_session_begins_with_the_versions_and_a_login_if_there_is_one() -> None:
    session, sent = carried_out(open_session("h:1", None, "nonce"), a_broker(0))
    assert [name for name, _ in sent] == ["ApiVersionsRequest"]
    assert session.versions.highest(APIS[ApiKey.METADATA]) == APIS[ApiKey.METADATA].max_version
    assert session.lifetime_s == float("inf")
    login = SaslCredentials("PLAIN", "ann", "secret")
    session, sent = carried_out(open_session("h:1", lambda: login, "nonce"), a_broker(10_000))
    assert [name for name, _ in sent] == ["ApiVersionsRequest", "SaslHandshakeRequest", "SaslAuthenticateRequest"]
    assert session.lifetime_s == 8.5, "a connection is replaced before its login ends"
    assert carried_out(open_session("h:1", lambda: login, "nonce"), a_broker(0))[0].lifetime_s == float("inf")


@pytest.mark.parametrize("failure", [OSError("no such file"), ValueError("it is no token")])
def test_a_token_that_cannot_be_read_is_reported_before_anything_is_sent_for_the_login(failure: Exception) -> None:
    def login() -> SaslCredentials:
        raise failure

    with pytest.raises(Unauthorized, match=f"no token to log in with: {failure}"):
        carried_out(open_session("h:1", login, "nonce"), a_broker(0))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "cannot reach h:1: no answer within 10 s"),
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "cannot reach h:1: connection refused"),
        (OSError(-2, "Name or service not known"), "cannot reach h:1: name or service not known"),
        (UnicodeError("label too long"), "cannot reach h:1: 'h' is no host name"),
    ],
)
def test_an_address_that_is_not_reached_is_reported_with_the_reason(error: OSError | UnicodeError, text: str) -> None:
    assert str(cannot_reach(ADDRESS, error, 10.0)) == text


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (lost("h:1"), Unreachable, "h:1 accepts connections and does not answer as a broker does: is this a plaintext"),
        (InvalidResponse("x"), NotABroker, "h:1 accepts connections and does not answer as a broker does"),
        (
            lost("h:1", OSError("[SSL: ALERT] x [ssl]")),
            Unreachable,
            "h:1 accepts connections and ends TLS: [SSL: ALERT]",
        ),
        (Unauthorized("no such user"), Unauthorized, "no such user"),
    ],
)
def test_what_ends_the_first_exchanges_is_reported(error: ClientError, kind: type[ClientError], text: str) -> None:
    found = not_opened(ADDRESS, error)
    assert type(found) is kind
    assert str(found).startswith(text) or text in str(found)


def test_the_security_protocol_is_named_where_the_peer_is_none_of_its_brokers() -> None:
    assert "is this a SASL_SSL Kafka listener?" in str(not_opened(ADDRESS, lost("h:1"), "SASL_SSL"))


def test_no_broker_is_final_only_where_every_address_has_something_else() -> None:
    assert type(no_broker([NotABroker("a"), NotABroker("b")])) is NotABroker
    assert type(no_broker([NotABroker("a"), Unreachable("b")])) is Unreachable
    assert type(no_broker([])) is Unreachable
    assert str(no_broker([Unreachable("a"), Disconnected("b")])) == "a; b"


OLD, NEW = b"o" * 16, b"n" * 16


def metadata(leader: int, epoch: int = 4, topic_id: bytes = OLD) -> MetadataResponse:
    row = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=7, host="i", port=2)],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[row])],
    )


def test_brokers_of_the_metadata_are_tried_before_the_bootstrap_addresses_and_forgotten_again() -> None:
    found = ClusterMap([ADDRESS, SECOND])
    assert found.candidates() == [ADDRESS, SECOND]
    found.learn(metadata(7))
    assert found.addresses == {7: SECOND}
    assert found.candidates() == [SECOND, ADDRESS]
    found.forget()
    assert found.candidates() == [ADDRESS, SECOND]


def test_leaders_are_those_of_the_latest_metadata() -> None:
    found = ClusterMap([ADDRESS])
    partition = TopicPartition("t", 0)
    assert found.leader(partition) == NO_LEADER
    found.learn(metadata(7))
    assert found.leader(partition) == PartitionLeader(7, 4)
    found.learn(metadata(-1))
    assert found.leader(partition).broker_id == -1


def test_metadata_with_a_lower_leader_epoch_is_older_and_changes_no_leader() -> None:
    found, partition = ClusterMap([ADDRESS]), TopicPartition("t", 0)
    found.learn(metadata(7, 4))
    found.learn(metadata(8, 3))
    assert found.leader(partition) == PartitionLeader(7, 4)
    found.learn(metadata(8, 4))
    assert found.leader(partition) == PartitionLeader(8, 4)
    found.learn(metadata(9, 5))
    assert found.leader(partition) == PartitionLeader(9, 5)


def test_a_leader_without_an_epoch_is_taken_as_it_comes() -> None:
    found, partition = ClusterMap([ADDRESS]), TopicPartition("t", 0)
    found.learn(metadata(7, 4))
    found.learn(metadata(8, -1))
    assert found.leader(partition) == PartitionLeader(8, -1)
    found.learn(metadata(9, 0))
    assert found.leader(partition) == PartitionLeader(9, 0)


def test_a_topic_that_was_created_again_begins_with_a_low_epoch() -> None:
    found, partition = ClusterMap([ADDRESS]), TopicPartition("t", 0)
    found.learn(metadata(7, 4, OLD))
    found.learn(metadata(8, 0, NEW))
    assert found.leader(partition) == PartitionLeader(8, 0)


def test_a_broker_that_reports_no_topic_id_has_the_same_topic_and_its_id_stays_known() -> None:
    found, partition = ClusterMap([ADDRESS]), TopicPartition("t", 0)
    found.learn(metadata(7, 4, OLD))
    found.learn(metadata(8, 3, bytes(16)))
    assert found.leader(partition) == PartitionLeader(7, 4)
    found.learn(metadata(8, 0, NEW))
    assert found.leader(partition) == PartitionLeader(8, 0)


def test_leaders_of_a_topic_that_a_broker_does_not_know_stay_until_any_is_reported() -> None:
    found, partition = ClusterMap([ADDRESS]), TopicPartition("t", 0)
    found.learn(metadata(7, 4))
    unknown = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="t", partitions=[])
    found.learn(MetadataResponse(brokers=[], topics=[unknown]))
    assert found.leader(partition).broker_id == 7
    found.learn(metadata(8, 0, bytes(16)))
    assert found.leader(partition) == PartitionLeader(8, 0)


def test_partitions_that_a_response_does_not_have_keep_their_leaders() -> None:
    found = ClusterMap([ADDRESS])
    response = metadata(7)
    response.topics[0].partitions.append(MetadataResponsePartition(partition_index=1, leader_id=7, leader_epoch=2))
    found.learn(response)
    found.learn(metadata(8))
    assert found.leader(TopicPartition("t", 1)) == PartitionLeader(7, 2)
