"""Topics, offsets and groups: what is asked of whom, in which version, how often, and what is text of failures."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from sordini.client.addresses import Address
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client import (
    EARLIEST,
    LATEST,
    Client,
    NoProgress,
    NotServed,
    OffsetLost,
    Refused,
    TopicRecreated,
    Unauthorized,
    UnknownTopic,
    Unreachable,
)
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sordini.protocol.types import TopicPartition
from tests.support.fake_cluster import TOPIC, FakeWorld

ORDERS = TopicPartition(TOPIC, 0)
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}


@pytest.fixture
def world() -> FakeWorld:
    made = FakeWorld()
    made.log.add(10)
    return made


def a_client(world: FakeWorld, **options: object) -> Client:
    return Client(world.settings(**options), world.outside())


def test_topics_partitions_ids_and_ends_are_returned(world: FakeWorld) -> None:
    world.log.start, world.log.stable = 2, 7
    with a_client(world) as client:
        assert client.topics() == [TOPIC]
        assert client.partitions([TOPIC]) == {TOPIC: [0]}
        assert client.topic_ids([TOPIC]) == {TOPIC: "AQEBAQEBAQEBAQEBAQEBAQ"}
        assert client.offsets({ORDERS: EARLIEST}) == {ORDERS: 2}
        assert client.offsets({ORDERS: LATEST}) == {ORDERS: 10}
        assert client.offsets({ORDERS: LATEST}, read_committed=True) == {ORDERS: 7}
        assert client.offsets({ORDERS: 1_700_000_000_000}) == {ORDERS: -1}
        assert client.offsets({}) == {}


def test_one_connection_serves_one_request_after_the_other(world: FakeWorld) -> None:
    with a_client(world) as client:
        for _ in range(5):
            client.offsets({ORDERS: LATEST})
            client.topics()
    assert world.opened == 1


def test_a_broker_without_topic_ids_tells_none(world: FakeWorld) -> None:
    world.versions[ApiKey.METADATA] = 9
    with a_client(world) as client:
        assert client.topic_ids([TOPIC]) == {TOPIC: ""}
        assert list(client.read(ORDERS, 0, 10))


def test_a_broker_that_is_too_old_is_reported(world: FakeWorld) -> None:
    world.versions[ApiKey.METADATA] = 3
    with a_client(world) as client, pytest.raises(NotServed, match="knows versions 0 to 3 of Metadata"):
        client.topics()


def test_offsets_are_asked_for_again_where_the_leader_has_moved(world: FakeWorld) -> None:
    with a_client(world) as client:
        client.partitions([TOPIC])
        world.log.leader, world.log.epoch = 2, 6
        assert client.offsets({ORDERS: LATEST}) == {ORDERS: 10}
    assert len(world.pauses) == 1


def test_every_bootstrap_address_is_tried_and_the_time_for_a_call_ends_it(world: FakeWorld) -> None:
    world.down = {1}
    with a_client(world) as client:
        assert client.topics() == [TOPIC]
    world.down = {1, 2}
    with a_client(world, default_api_timeout_ms=3_000) as client, pytest.raises(Unreachable) as caught:
        client.topics()
    assert str(caught.value) == (
        "cannot reach fake:1: connection refused; cannot reach fake:2: connection refused (tried for 3 s)"
    )
    assert sum(world.pauses) == pytest.approx(3)
    assert world.pauses[:3] == [0.1, 0.2, 0.4]


def test_a_check_does_not_wait(world: FakeWorld) -> None:
    world.down = {1, 2}
    with a_client(world) as client, pytest.raises(Unreachable):
        client.check()
    assert not world.pauses
    world.down.clear()
    with a_client(world) as client:
        client.check()


def test_a_broker_that_comes_back_is_found_again(world: FakeWorld) -> None:
    with a_client(world) as client:
        client.topics()
        world.down = {1, 2}
        world.on_pause = [world.down.clear]
        assert client.topics() == [TOPIC]
    assert len(world.pauses) == 1


def test_unknown_topics_are_all_named_after_a_moment(world: FakeWorld) -> None:
    with a_client(world) as client, pytest.raises(UnknownTopic) as caught:
        client.partitions(["a", TOPIC, "b"])
    assert caught.value.topics == ["a", "b"]
    assert str(caught.value) == "there are no topics 'a', 'b' in the cluster"
    assert 1 <= sum(world.pauses) < 2


def test_a_topic_that_a_broker_does_not_know_yet_is_found(world: FakeWorld) -> None:
    def make() -> None:
        world.topic_there = True

    world.topic_there = False
    world.on_pause = [make]
    with a_client(world) as client:
        assert client.partitions([TOPIC]) == {TOPIC: [0]}


def test_a_broker_that_hangs_up_at_every_first_request_may_want_a_login(world: FakeWorld) -> None:
    def hang_up(broker: int, version: int, request: Any) -> Any:
        if type(request).__name__ != "ApiVersionsRequest":
            world.down = {1, 2}
            world.on_pause = [world.down.clear]
        return FakeWorld.answer(world, broker, version, request)

    world.answer = hang_up  # type: ignore[method-assign]
    with a_client(world) as client, pytest.raises(Unauthorized, match="may require authentication"):
        client.topics()
    assert len(world.pauses) == 2


def test_an_answer_between_two_hang_ups_means_that_no_login_is_wanted(world: FakeWorld) -> None:
    answers = iter([False, False, True, False, False, True])

    def hang_up(broker: int, version: int, request: Any) -> Any:
        if type(request).__name__ != "ApiVersionsRequest" and not next(answers):
            world.down = {1, 2}
            world.on_pause = [world.down.clear]
        return FakeWorld.answer(world, broker, version, request)

    world.answer = hang_up  # type: ignore[method-assign]
    with a_client(world) as client:
        assert client.topics() == [TOPIC]
        for port in (1, 2):
            client._pool.forget(Address("fake", port))
        assert client.topics() == [TOPIC]
    assert len(world.pauses) == 4


def log_in(world: FakeWorld, *, code: int = 0, lifetime_ms: int = 0) -> list[bytes]:
    tokens: list[bytes] = []

    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        tokens.append(bytes(request.auth_bytes))
        reason = "no such user" if code else None
        return SaslAuthenticateResponse(error_code=code, error_message=reason, session_lifetime_ms=lifetime_ms)

    world.answers[SaslHandshakeRequest] = lambda request, version: SaslHandshakeResponse(mechanisms=["PLAIN"])
    world.answers[SaslAuthenticateRequest] = authenticate
    return tokens


def test_a_login_comes_before_all_requests_but_that_for_versions(world: FakeWorld) -> None:
    tokens = log_in(world)
    with a_client(world, **LOGIN) as client:
        client.topics()
    assert tokens == [b"\0a\0b"]
    assert world.asked == [
        "ApiVersionsRequest",
        "SaslHandshakeRequest",
        "SaslAuthenticateRequest",
        "MetadataRequest",
    ]


def test_refused_credentials_are_reported_in_the_brokers_words_at_once(world: FakeWorld) -> None:
    log_in(world, code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    with a_client(world, **LOGIN) as client, pytest.raises(Unauthorized, match=r"'a' \(PLAIN\): no such user"):
        client.topics()
    assert not world.pauses


def test_a_right_that_is_missing_is_reported_with_the_users_name(world: FakeWorld) -> None:
    log_in(world)
    a_group(world, code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    reported = r"group 'g' in orders-0: user 'a' is not authorized \(GROUP_AUTHORIZATION_FAILED\)"
    with a_client(world, **LOGIN) as client, pytest.raises(Unauthorized, match=reported):
        client.commit("g", {ORDERS: 7})
    assert not world.pauses


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "its SASL mechanisms: GSSAPI, SCRAM-SHA-256"),
        (ErrorCode.ILLEGAL_SASL_STATE, "requires no authentication"),
    ],
)
def test_a_mechanism_that_is_not_offered_is_reported_with_those_that_are(
    world: FakeWorld, code: ErrorCode, text: str
) -> None:
    answer = SaslHandshakeResponse(error_code=code, mechanisms=["GSSAPI", "SCRAM-SHA-256"])
    world.answers[SaslHandshakeRequest] = lambda request, version: answer
    with a_client(world, **LOGIN) as client, pytest.raises(Unauthorized, match=text):
        client.topics()


def test_a_connection_is_replaced_before_its_login_expires(world: FakeWorld) -> None:
    tokens = log_in(world, lifetime_ms=10_000)
    with a_client(world, **LOGIN) as client:
        client.topics()
        world.now += 7
        client.topics()
        assert len(tokens) == 1
        world.now += 2
        client.topics()
        assert len(tokens) == 2


def a_group(world: FakeWorld, *, code: int = 0) -> dict[tuple[str, int], int]:
    """A coordinator, broker 2, that keeps what is committed."""
    kept: dict[tuple[str, int], int] = {}

    def coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        where = {"node_id": 2, "host": "fake", "port": 2}
        if version < 4:
            return FindCoordinatorResponse(**where)
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", **where)])

    def commit(request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        assert request.generation_id_or_member_epoch == -1
        topics = []
        for topic in request.topics:
            for row in topic.partitions:
                kept[topic.name, row.partition_index] = row.committed_offset
            rows = [OffsetCommitResponsePartition(partition_index=0, error_code=code)]
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return OffsetCommitResponse(topics=topics)

    def fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        offset = kept.get((TOPIC, 0), -1)
        if version < 8:
            old = OffsetFetchResponsePartition(partition_index=0, committed_offset=offset)
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name=TOPIC, partitions=[old])])
        row = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset)
        topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=[row])]
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])

    world.answers |= {FindCoordinatorRequest: coordinator, OffsetCommitRequest: commit, OffsetFetchRequest: fetch}
    return kept


@pytest.mark.parametrize("versions", [{}, {ApiKey.FIND_COORDINATOR: 3, ApiKey.OFFSET_FETCH: 7}])
def test_committed_offsets_of_a_group_are_returned(world: FakeWorld, versions: dict[int, int]) -> None:
    world.versions |= versions
    kept = a_group(world)
    with a_client(world) as client:
        assert client.committed("g") == {}
        client.commit("g", {ORDERS: 7})
        assert client.committed("g") == {ORDERS: 7}
    assert kept == {(TOPIC, 0): 7}


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Refused, "consumers are members of this group"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopic, "no topic 'orders'"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Unauthorized, "GROUP_AUTHORIZATION_FAILED"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, Refused, "OFFSET_METADATA_TOO_LARGE"),
    ],
)
def test_a_refused_commit_is_reported(world: FakeWorld, code: ErrorCode, error: type[PipelineError], text: str) -> None:
    a_group(world, code=code)
    with a_client(world) as client, pytest.raises(error, match=text):
        client.commit("g", {ORDERS: 7})
    assert not world.pauses


def test_a_commit_is_repeated_while_the_coordinator_moves(world: FakeWorld) -> None:
    kept = a_group(world, code=ErrorCode.NOT_COORDINATOR)
    world.on_pause = [lambda: a_group(world) and None]
    with a_client(world) as client:
        client.commit("g", {ORDERS: 7})
    assert len(world.pauses) == 1
    assert kept


@pytest.mark.parametrize(
    "error",
    [
        Refused("x", 7, "reason"),
        UnknownTopic(["a", "b"]),
        TopicRecreated("a", "old", "new"),
        OffsetLost(ORDERS, 1, 5, 10),
        NoProgress(ORDERS, 1, 60.0, "nothing"),
        Unreachable("x"),
    ],
)
def test_errors_survive_the_way_from_a_worker(error: PipelineError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
