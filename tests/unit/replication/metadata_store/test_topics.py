"""Topic names, placement, and the nodes of topics."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import TopicAssignment
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.replica_placement import without_racks

TOPIC_ID = TopicId(b"0123456789abcdef")
BROKERS = [BrokerId(b) for b in (0, 1, 2)]


def plan(name: str = "t", **changes: Any) -> Any:
    wanted = {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [],
        "racks": without_racks(BROKERS),
        "existing": [],
        "default_partitions": 1,
        "default_replication_factor": 1,
    }
    return topics.plan_topic(name, **(wanted | changes))


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_names_that_are_allowed(name: str) -> None:
    topics.check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "é", "a\n", "a\x00"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        topics.check_topic_name(name)
    assert refusal.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_defaults_apply_where_the_request_has_none() -> None:
    placed = plan(default_partitions=4, default_replication_factor=2)
    assert len(placed) == 4
    assert {len(held) for held in placed.values()} == {2}
    assert len(plan(num_partitions=2, default_partitions=4)) == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"existing": ["t"]}, ErrorCode.TOPIC_ALREADY_EXISTS),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"racks": {}}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": "no spaces"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a.b", "existing": ["a_b"]}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "no spaces", "num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"assignments": [(0, [0])], "num_partitions": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [0])], "replication_factor": 1}, ErrorCode.INVALID_REQUEST),
        ({"assignments": [(0, [0, 1]), (1, [0])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [0, 0])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [0]), (2, [0])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": [(0, [0]), (0, [1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_topics_are_rejected_with_their_code(changes: dict[str, Any], code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as refusal:
        plan(**changes)
    assert refusal.value.code == code


def test_a_manual_assignment_is_kept_even_on_unknown_brokers() -> None:
    assert plan(assignments=[(1, [7]), (0, [0])]) == {0: (0,), 1: (7,)}


def test_only_names_with_dots_or_underscores_collide() -> None:
    assert topics.colliding("a.b", ["a_b", "ab", "a.b", "a.b.c"]) == ["a_b"]
    assert topics.colliding("ab", ["a_b"]) == []


async def test_a_topic_and_its_settings_are_written_together(session: EmbeddedSession) -> None:
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {"retention.ms": "5"})
    data, stat = await session.get(paths.topic("t"))
    assert znodes.decode_topic("t", data, 0) == znodes.TopicAssignment("t", {0: (BrokerId(0),)}, TOPIC_ID)
    config, config_stat = await session.get(paths.topic_config("t"))
    assert znodes.decode_config("topics/t", config) == {"retention.ms": "5"}
    assert stat.czxid == config_stat.czxid


async def test_creating_a_topic_twice_is_refused_and_keeps_its_settings(session: EmbeddedSession) -> None:
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {"retention.ms": "5"})
    with pytest.raises(BrokerError) as refusal:
        await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {})
    assert refusal.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    config, _ = await session.get(paths.topic_config("t"))
    assert znodes.decode_config("topics/t", config) == {"retention.ms": "5"}


async def test_settings_that_were_left_behind_are_replaced(session: EmbeddedSession) -> None:
    await session.create(paths.topic_config("t"), znodes.encode_config({"old": "x"}))
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {"new": "y"})
    config, _ = await session.get(paths.topic_config("t"))
    assert znodes.decode_config("topics/t", config) == {"new": "y"}


def more(count: int, *given: list[int], topic: TopicAssignment | None = None, brokers: list[BrokerId] = BROKERS) -> Any:
    topic = topic or TopicAssignment("t", topics.place_replicas("t", without_racks(BROKERS), range(3), 2))
    return topics.plan_more_partitions(topic, count, list(given) or None, without_racks(brokers))


@given(
    st.text("abc", min_size=1),
    st.integers(1, 6),
    st.integers(1, 9),
    st.integers(1, 3),
    st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), min_size=3, max_size=7),
    st.booleans(),
)
def test_a_grown_topic_is_placed_as_if_created_with_that_size(
    name: str, first: int, added: int, factor: int, stands: dict[int, str], knows_racks: bool
) -> None:
    racks = {BrokerId(broker): rack if knows_racks else None for broker, rack in stands.items()}
    small = topics.place_replicas(name, racks, range(first), factor)
    grown = {**small, **topics.plan_more_partitions(TopicAssignment(name, small), first + added, None, racks)}
    assert grown == topics.place_replicas(name, racks, range(first + added), factor)


def test_a_manually_placed_topic_grows_from_its_first_partition() -> None:
    held = {0: (BrokerId(2),), 1: (BrokerId(2),)}
    assert more(4, topic=TopicAssignment("t", held)) == {2: (1,), 3: (2,)}
    assert more(3, topic=TopicAssignment("t", {0: (BrokerId(9),), 1: (BrokerId(9),)})) == {2: (2,)}


def test_new_partitions_are_placed_as_requested() -> None:
    assert more(5, [2, 0], [1, 2]) == {3: (2, 0), 4: (1, 2)}


@pytest.mark.parametrize(
    ("count", "given", "code"),
    [
        (2, [], ErrorCode.INVALID_PARTITIONS),
        (3, [], ErrorCode.INVALID_PARTITIONS),
        (5, [[0, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0, 1], [1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0, 7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0, 0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[0, 1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_invalid_growth_of_a_topic_is_rejected(count: int, given: list[list[int]], code: ErrorCode) -> None:
    with pytest.raises(BrokerError) as refusal:
        more(count, *given)
    assert refusal.value.code == code


def test_no_topic_is_created_or_grown_while_only_some_brokers_have_a_rack() -> None:
    racks = without_racks(BROKERS) | {BROKERS[1]: "a"}
    grown = TopicAssignment("t", {0: (BrokerId(0),)})
    for planned in (
        lambda: plan(racks=racks),
        lambda: topics.plan_more_partitions(grown, 2, None, racks),
    ):
        with pytest.raises(BrokerError, match=r"Brokers \[0, 2\] have no broker.rack") as refusal:
            planned()
        assert refusal.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert plan(racks=racks, assignments=[(0, [2])]) == {0: (2,)}, "a manual assignment needs no racks"
    assert topics.plan_more_partitions(grown, 2, [[2]], racks) == {1: (2,)}


def test_a_topic_does_not_grow_with_fewer_brokers_than_its_partitions_have_replicas() -> None:
    with pytest.raises(BrokerError) as refusal:
        more(4, brokers=BROKERS[:1])
    assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


async def test_settings_of_a_former_topic_may_be_deleted_while_the_new_one_is_created(session: EmbeddedSession) -> None:
    await session.create(paths.topic_config("t"), znodes.encode_config({"old": "x"}), make_parents=True)
    multi, requested = session.multi, []

    async def beside(operations: Any) -> Any:
        requested.append(type(operations[0]).__name__)
        if len(requested) == 2:
            await session.delete(paths.topic_config("t"))  # The deletion of the former topic ends just now.
        return await multi(operations)

    session.multi = beside  # type: ignore[method-assign]
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {"new": "y"})
    assert requested == ["Create", "Set", "Create"]
    data, _ = await session.get(paths.topic_config("t"))
    assert data == znodes.encode_config({"new": "y"})


async def test_partitions_are_added_to_the_topic_as_it_is_when_they_are_written(session: EmbeddedSession) -> None:
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {})
    seen: list[int] = []

    def plan_more(topic: TopicAssignment) -> dict[int, tuple[BrokerId, ...]]:
        seen.append(len(topic.replicas))
        return {len(topic.replicas): (BrokerId(1),)}

    reading = session.get

    async def overtaken(path: str, **fields: Any) -> Any:
        """Somebody else writes the topic right after it was first read."""
        read = await reading(path, **fields)
        if not seen:
            wider = TopicAssignment("t", {0: (BrokerId(0),), 1: (BrokerId(2),)}, TOPIC_ID)
            await session.set(path, znodes.encode_topic(wider))
        return read

    session.get = overtaken  # type: ignore[method-assign]
    assert await topics.add_partitions(session, "t", plan_more, validate_only=False) == {2: (1,)}
    assert seen == [1, 2]
    data, stat = await reading(paths.topic("t"))
    written = znodes.decode_topic("t", data, stat.version)
    assert isinstance(written, TopicAssignment)
    assert (written.replicas, written.topic_id) == ({0: (0,), 1: (2,), 2: (1,)}, TOPIC_ID)


async def test_no_partitions_are_added_to_a_deleted_topic_or_one_being_deleted(session: EmbeddedSession) -> None:
    async def code_of(name: str) -> ErrorCode:
        with pytest.raises(BrokerError) as refusal:
            await topics.add_partitions(session, name, lambda _: {1: (BrokerId(0),)}, validate_only=False)
        return refusal.value.code

    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {})
    await topics.delete_topic(session, "t")
    assert await code_of("t") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await code_of("ghost") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await session.create(paths.topic("odd"), b"{}")
    assert await code_of("odd") == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_deleting_a_topic_is_requested_from_the_controller_and_idempotent(session: EmbeddedSession) -> None:
    await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {})
    await topics.delete_topic(session, "t")
    await topics.delete_topic(session, "t")
    assert await session.children(paths.DELETE_TOPICS) == ["t"]
    with pytest.raises(BrokerError) as refusal:
        await topics.delete_topic(session, "ghost")
    assert refusal.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_topic_id_never_looks_like_an_option() -> None:
    draw = topics.topic_ids(random.Random(1).getrandbits)
    assert all(not znodes.topic_id_text(draw()).startswith("-") for _ in range(500))
