"""A fetch session from the side of the one who asks (KIP-227)."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.requests.fetch_sessions import FetchSessions
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
from tests.support.replica_pair import topic_id_of

PLACES = [TopicIdPartition(topic, topic_id_of(topic), index) for topic in ("a", "b") for index in (0, 1)]
NAMELESS = TopicIdPartition("old", NO_TOPIC_ID, 0)


def a_wish(offset: int) -> FetchState:
    return FetchState(Offset(offset), LeaderEpoch(0), -1, 0)


def named(delta: SessionRequest) -> dict[TopicIdPartition, int]:
    return {place: wish.fetch_offset for place, wish in delta.wanted}


def an_open_session(*places: TopicIdPartition) -> FetchSessionHandler:
    session = FetchSessionHandler(17)
    for place in places:
        session.want(place, a_wish(0))
    session.next_request()
    assert session.answered(7, len(places))
    return session


def test_everything_is_named_first_and_then_what_has_changed() -> None:
    session = FetchSessionHandler(17)
    session.want(PLACES[0], a_wish(0))
    session.want(PLACES[1], a_wish(5))
    first = session.next_request()
    assert (first.number, first.epoch, named(first)) == (0, 0, {PLACES[0]: 0, PLACES[1]: 5})
    assert session.answered(7, 2)
    session.want(PLACES[0], a_wish(0))
    session.want(PLACES[1], a_wish(6))
    second = session.next_request()
    assert (second.number, second.epoch, named(second), second.forgotten) == (7, 1, {PLACES[1]: 6}, [])


def test_what_came_and_went_between_two_requests_is_not_told() -> None:
    session = an_open_session(PLACES[0])
    session.want(PLACES[1], a_wish(0))
    session.forget(PLACES[1])
    session.forget(PLACES[0])
    session.want(PLACES[0], a_wish(0))
    delta = session.next_request()
    assert (delta.wanted, delta.forgotten) == ([], [])


def test_after_a_broken_connection_everything_is_named_and_the_old_session_with_it() -> None:
    session = an_open_session(PLACES[0])
    session.next_request()
    session.lost()
    delta = session.next_request()
    assert (delta.number, delta.epoch, named(delta)) == (7, 0, {PLACES[0]: 0})


def test_a_session_that_the_leader_does_not_know_is_not_named_again() -> None:
    session = an_open_session(PLACES[0])
    session.next_request()
    session.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert session.next_request()[1:3] == (0, 0)
    session.answered(8, 1)
    session.next_request()
    session.refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.next_request()[1:3] == (8, 0), "but one that is out of step is, so that it ends"


def test_a_leader_may_end_the_session_by_its_answer() -> None:
    session = an_open_session(PLACES[0])
    session.next_request()
    session.answered(0, 0)
    assert session.next_request()[1:3] == (0, 0)


def test_an_answer_to_everything_that_lacks_something_is_not_built_upon() -> None:
    session = FetchSessionHandler(17)
    for place in PLACES:
        session.want(place, a_wish(0))
    session.next_request()
    assert not session.answered(7, 3)
    assert session.next_request()[1:3] == (7, 0)


def test_epochs_of_a_session_begin_again_at_one() -> None:
    session = an_open_session(PLACES[0])
    session._epoch = EPOCH_MAX
    assert session.next_request().epoch == EPOCH_MAX
    session.answered(7, 0)
    assert session.next_request().epoch == 1


def test_one_topic_without_an_id_makes_the_session_begin_anew_by_names() -> None:
    session = an_open_session(PLACES[0])
    session.want(NAMELESS, a_wish(0))
    delta = session.next_request()
    assert (delta.version, delta.number, delta.epoch, len(delta.wanted)) == (12, 7, 0, 2)
    session.answered(8, 2)
    session.forget(NAMELESS)
    delta = session.next_request()
    assert (delta.version, delta.number, delta.epoch, len(delta.wanted)) == (17, 8, 0, 1)
    assert FetchSessionHandler(11).next_request().version == 11


def test_without_a_session_who_got_records_comes_last_the_next_time() -> None:
    session = FetchSessionHandler(17)
    for place in PLACES:
        session.want(place, a_wish(0))
    session.next_request()
    session.answered(0, 4)
    session.give_way(PLACES[0])
    assert [place for place, _ in session.next_request().wanted] == [*PLACES[1:], PLACES[0]]


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.sampled_from([*PLACES, NAMELESS]), st.integers(0, 3)),
        st.tuples(st.just("forget"), st.sampled_from([*PLACES, NAMELESS]), st.just(0)),
        st.tuples(st.sampled_from(["ask", "lose question", "lose answer", "drop sessions"]), st.none(), st.just(0)),
    ),
    max_size=40,
)


@given(ACTS)
@settings(max_examples=300, deadline=None)
def test_both_ends_of_a_session_always_agree_on_what_is_wanted(
    acts: list[tuple[str, TopicIdPartition | None, int]],
) -> None:
    numbers = count(1)
    leader = FetchSessions(10, lambda: next(numbers), lambda _: "x")
    session, wanted = FetchSessionHandler(17), {}
    for act, place, offset in acts:
        if act == "want":
            wanted[place] = offset
            session.want(place, a_wish(offset))
        elif act == "forget":
            wanted.pop(place, None)
            session.forget(place)
        elif act == "drop sessions":
            leader._sessions.clear()
        elif session:
            ask(session, leader, wanted, act)
    for _ in range(2):
        if session:
            ask(session, leader, wanted, "ask")


def ask(session: FetchSessionHandler, leader: FetchSessions, wanted: dict[TopicIdPartition, int], act: str) -> None:
    delta = session.next_request()
    if act == "lose question":
        session.lost()
        return
    request = fetch_request(delta, BrokerId(2), 1, FetchSettings())
    try:
        plan = leader.plan(request, delta.version, 0)
    except BrokerError as error:
        session.refused(error.code)
        return
    by_ids = delta.version >= 13
    seen = {
        (target.topic_id if by_ids else target.topic, target.wish.partition): target.wish.fetch_offset
        for target in plan.targets
    }
    assert seen == {(place.topic_id if by_ids else place.topic, place.partition): at for place, at in wanted.items()}
    if act == "lose answer":
        session.lost()
    else:
        assert session.answered(0 if plan.session is None else plan.session.number, len(plan.targets))
