"""The follower's side of a fetch session (KIP-227)."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset
from sordini.replication.fetching.messages import FetchSettings, fetch_request
from sordini.replication.fetching.session import (
    EPOCH_MAX,
    FetchSessionHandler,
    FetchState,
    SessionRequest,
    TopicIdPartition,
)
from tests.support.parts import examples
from tests.support.replica_pair import topic_id_of

PARTITIONS = [TopicIdPartition(topic, topic_id_of(topic), index) for topic in ("a", "b") for index in (0, 1)]
WITHOUT_ID = TopicIdPartition("old", NO_TOPIC_ID, 0)


def a_state(offset: int) -> FetchState:
    return FetchState(Offset(offset), LeaderEpoch(0), -1, 0)


def named(request: SessionRequest) -> dict[TopicIdPartition, int]:
    return {partition: state.fetch_offset for partition, state in request.to_send}


def an_open_session(*partitions: TopicIdPartition) -> FetchSessionHandler:
    session = FetchSessionHandler(17)
    for partition in partitions:
        session.add(partition, a_state(0))
    session.next_request()
    assert session.on_response(7, len(partitions))
    return session


def test_the_first_request_names_all_partitions_and_the_next_only_what_changed() -> None:
    session = FetchSessionHandler(17)
    session.add(PARTITIONS[0], a_state(0))
    session.add(PARTITIONS[1], a_state(5))
    first = session.next_request()
    assert (first.session_id, first.epoch, named(first)) == (0, 0, {PARTITIONS[0]: 0, PARTITIONS[1]: 5})
    assert session.on_response(7, 2)
    session.add(PARTITIONS[0], a_state(0))
    session.add(PARTITIONS[1], a_state(6))
    second = session.next_request()
    assert (second.session_id, second.epoch, named(second), second.to_forget) == (7, 1, {PARTITIONS[1]: 6}, [])


def test_a_partition_added_and_removed_between_two_requests_is_not_sent() -> None:
    session = an_open_session(PARTITIONS[0])
    session.add(PARTITIONS[1], a_state(0))
    session.remove(PARTITIONS[1])
    session.remove(PARTITIONS[0])
    session.add(PARTITIONS[0], a_state(0))
    request = session.next_request()
    assert (request.to_send, request.to_forget) == ([], [])


def test_after_a_lost_connection_the_request_is_full_and_names_the_old_session() -> None:
    session = an_open_session(PARTITIONS[0])
    session.next_request()
    session.connection_lost()
    request = session.next_request()
    assert (request.session_id, request.epoch, named(request)) == (7, 0, {PARTITIONS[0]: 0})


def test_a_session_unknown_to_the_leader_is_not_named_again() -> None:
    session = an_open_session(PARTITIONS[0])
    session.next_request()
    session.on_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert session.next_request()[1:3] == (0, 0)
    session.on_response(8, 1)
    session.next_request()
    session.on_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.next_request()[1:3] == (8, 0), "but one that is out of step is, so that it ends"


def test_a_leader_may_close_the_session_in_its_response() -> None:
    session = an_open_session(PARTITIONS[0])
    session.next_request()
    session.on_response(0, 0)
    assert session.next_request()[1:3] == (0, 0)


def test_after_an_incomplete_response_to_a_full_request_the_next_one_is_full() -> None:
    session = FetchSessionHandler(17)
    for partition in PARTITIONS:
        session.add(partition, a_state(0))
    session.next_request()
    assert not session.on_response(7, 3)
    assert session.next_request()[1:3] == (7, 0)


def test_epochs_of_a_session_begin_again_at_one() -> None:
    session = an_open_session(PARTITIONS[0])
    session._epoch = EPOCH_MAX
    assert session.next_request().epoch == EPOCH_MAX
    session.on_response(7, 0)
    assert session.next_request().epoch == 1


def test_a_topic_without_an_id_makes_the_next_request_full_and_by_names() -> None:
    session = an_open_session(PARTITIONS[0])
    session.add(WITHOUT_ID, a_state(0))
    request = session.next_request()
    assert (request.version, request.session_id, request.epoch, len(request.to_send)) == (12, 7, 0, 2)
    session.on_response(8, 2)
    session.remove(WITHOUT_ID)
    request = session.next_request()
    assert (request.version, request.session_id, request.epoch, len(request.to_send)) == (17, 8, 0, 1)
    assert FetchSessionHandler(11).next_request().version == 11


def test_without_a_session_a_partition_that_got_records_is_fetched_last() -> None:
    session = FetchSessionHandler(17)
    for partition in PARTITIONS:
        session.add(partition, a_state(0))
    session.next_request()
    session.on_response(0, 4)
    session.move_to_end(PARTITIONS[0])
    assert [partition for partition, _ in session.next_request().to_send] == [*PARTITIONS[1:], PARTITIONS[0]]


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([*PARTITIONS, WITHOUT_ID]), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.sampled_from([*PARTITIONS, WITHOUT_ID]), st.just(0)),
        st.tuples(st.sampled_from(["send", "lose request", "lose response", "drop sessions"]), st.none(), st.just(0)),
    ),
    max_size=40,
)


@given(ACTS)
@settings(max_examples=examples(300), deadline=None)
def test_both_ends_of_a_session_always_agree_on_the_partitions(
    acts: list[tuple[str, TopicIdPartition | None, int]],
) -> None:
    numbers = count(1)
    leader = FetchSessions(10, lambda: next(numbers), lambda _: "x")
    session, expected = FetchSessionHandler(17), {}
    for act, partition, offset in acts:
        if act == "add":
            expected[partition] = offset
            session.add(partition, a_state(offset))
        elif act == "remove":
            expected.pop(partition, None)
            session.remove(partition)
        elif act == "drop sessions":
            leader._sessions.clear()
        elif session:
            send(session, leader, expected, act)
    for _ in range(2):
        if session:
            send(session, leader, expected, "send")


def send(session: FetchSessionHandler, leader: FetchSessions, expected: dict[TopicIdPartition, int], act: str) -> None:
    request = session.next_request()
    if act == "lose request":
        session.connection_lost()
        return
    message = fetch_request(request, BrokerId(2), 1, FetchSettings())
    try:
        plan = leader.plan(message, request.version, 0)
    except BrokerError as error:
        session.on_error(error.code)
        return
    by_ids = request.version >= 13
    seen = {
        (target.topic_id if by_ids else target.topic, target.requested.partition): target.requested.fetch_offset
        for target in plan.targets
    }
    assert seen == {
        (partition.topic_id if by_ids else partition.topic, partition.partition): at
        for partition, at in expected.items()
    }
    if act == "lose response":
        session.connection_lost()
    else:
        assert session.on_response(0 if plan.session is None else plan.session.number, len(plan.targets))
