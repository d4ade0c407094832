"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from itertools import count

import pytest

from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

VERSION = 12


def some_sessions(slots: int = 10, partitions_max: int = 1000) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots, lambda: next(numbers), lambda topic_id: None, partitions_max)


def a_fetch(session: int, epoch: int, offsets: dict[int, int], forget: tuple[int, ...] = ()) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=offset) for index, offset in offsets.items()]
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forget))] if forget else [],
    )


def wanted(sessions: FetchSessions, request: FetchRequest, now_ms: int = 0) -> dict[int, int]:
    plan = sessions.plan(request, VERSION, now_ms)
    return {target.requested.partition: target.requested.fetch_offset for target in plan.targets}


def test_a_session_remembers_what_is_not_named_again() -> None:
    sessions = some_sessions()
    plan = sessions.plan(a_fetch(0, 0, {0: 5, 1: 7}), VERSION, 0)
    assert plan.session is not None
    assert not plan.incremental
    assert wanted(sessions, a_fetch(plan.session.number, 1, {1: 8})) == {0: 5, 1: 8}
    assert wanted(sessions, a_fetch(plan.session.number, 2, {2: 0}, forget=(0,))) == {1: 8, 2: 0}


def test_a_final_epoch_wants_no_session_and_ends_the_one_named() -> None:
    sessions = some_sessions()
    plan = sessions.plan(a_fetch(0, 0, {0: 5}), VERSION, 0)
    assert plan.session is not None
    assert sessions.plan(a_fetch(plan.session.number, -1, {0: 5}), VERSION, 0).session is None
    assert len(sessions) == 0


@pytest.mark.parametrize(
    ("session", "epoch", "code"),
    [(99, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND), (1, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH)],
)
def test_a_session_that_is_not_ours_or_not_in_step_is_refused(session: int, epoch: int, code: ErrorCode) -> None:
    sessions = some_sessions()
    sessions.plan(a_fetch(0, 0, {0: 5}), VERSION, 0)
    with pytest.raises(BrokerError) as refusal:
        sessions.plan(a_fetch(session, epoch, {}), VERSION, 0)
    assert refusal.value.code == code


def test_a_session_keeps_to_topic_names_or_to_topic_ids() -> None:
    sessions = some_sessions()
    sessions.plan(a_fetch(0, 0, {0: 5}), VERSION, 0)
    with pytest.raises(BrokerError) as refusal:
        sessions.plan(a_fetch(1, 1, {}), 13, 0)
    assert refusal.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_that_forgets_everything_ends() -> None:
    sessions = some_sessions()
    sessions.plan(a_fetch(0, 0, {0: 5}), VERSION, 0)
    plan = sessions.plan(a_fetch(1, 1, {}, forget=(0,)), VERSION, 0)
    assert plan.targets == []
    assert plan.session is None
    assert len(sessions) == 0


def test_a_full_table_refuses_a_small_new_session_but_evicts_a_stale_one() -> None:
    sessions = some_sessions(slots=1)
    assert sessions.plan(a_fetch(0, 0, {0: 0, 1: 0}), VERSION, 0).session is not None
    assert sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 1000).session is None
    assert sessions.plan(a_fetch(0, 0, {0: 0, 1: 0, 2: 0}), VERSION, 1000).session is not None
    assert sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 200_000).session is not None
    assert len(sessions) == 1


def test_the_epoch_starts_over_after_its_largest() -> None:
    sessions = some_sessions()
    plan = sessions.plan(a_fetch(0, 0, {0: 5}), VERSION, 0)
    assert plan.session is not None
    plan.session.epoch = 2**31 - 1
    sessions.plan(a_fetch(1, 2**31 - 1, {}), VERSION, 0)
    assert plan.session.epoch == 1


def test_a_followers_session_pushes_out_a_consumers_and_never_the_other_way_round() -> None:
    sessions = some_sessions(slots=2)
    large = dict.fromkeys(range(50), 0)
    sessions.plan(a_fetch(0, 0, large), VERSION, 0)
    sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0, privileged=True)
    follower = sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0, privileged=True)
    assert follower.session is not None, "a consumer's large session is evicted before a follower's small one"
    assert sessions.plan(a_fetch(0, 0, large), VERSION, 0).session is None
    assert sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0, privileged=True).session is None, "it is no larger"
    assert sessions.plan(a_fetch(0, 0, large), VERSION, 0, privileged=True).session is not None


def some_partitions(number: int) -> dict[int, int]:
    return dict.fromkeys(range(number), 0)


def test_all_sessions_together_hold_a_bounded_number_of_partitions() -> None:
    sessions = some_sessions(slots=1000, partitions_max=100)
    kept = [sessions.plan(a_fetch(0, 0, some_partitions(30)), VERSION, 0).session for _ in range(10)]
    assert [session is not None for session in kept] == [True] * 3 + [False] * 7
    assert sessions.partitions == 90
    assert sessions.plan(a_fetch(0, 0, some_partitions(101)), VERSION, 0).session is None
    plan = sessions.plan(a_fetch(0, 0, some_partitions(30)), VERSION, 0)
    assert len(plan.targets) == 30, "it is served all the same"


def test_a_session_that_grows_past_the_bound_ends_and_its_client_opens_a_new_one() -> None:
    sessions = some_sessions(partitions_max=100)
    for _ in range(2):
        sessions.plan(a_fetch(0, 0, some_partitions(40)), VERSION, 0)
    assert len(wanted(sessions, a_fetch(1, 1, some_partitions(60)))) == 60
    assert sessions.partitions == 100
    assert len(wanted(sessions, a_fetch(1, 2, some_partitions(60)))) == 60, "what it holds may move on"
    with pytest.raises(BrokerError) as refusal:
        wanted(sessions, a_fetch(2, 1, some_partitions(41)))
    assert refusal.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (1, 60)


def test_the_count_of_partitions_follows_every_end_of_a_session() -> None:
    sessions = some_sessions(slots=2)
    sessions.plan(a_fetch(0, 0, some_partitions(5)), VERSION, 0)
    sessions.plan(a_fetch(1, 1, {}, forget=(0, 1, 7)), VERSION, 0)
    assert sessions.partitions == 3
    sessions.plan(a_fetch(1, 0, some_partitions(4)), VERSION, 0)
    assert sessions.partitions == 4
    sessions.plan(a_fetch(0, 0, some_partitions(6)), VERSION, 0)
    sessions.plan(a_fetch(0, 0, some_partitions(7)), VERSION, 0)
    assert sessions.partitions == 13, "the least gave its place up"
    sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 500_000)
    assert sessions.partitions in (7, 8), "a stale one did"
    sessions.plan(a_fetch(4, -1, {}), VERSION, 500_000)
    sessions.plan(a_fetch(5, -1, {}), VERSION, 500_000)
    assert sessions.partitions == sum(len(session.targets) for session in sessions._sessions.values())


def test_for_a_follower_the_largest_of_consumers_sessions_goes_and_a_stale_one_before_it() -> None:
    sessions = some_sessions(partitions_max=100)
    for size in (20, 50, 30):
        sessions.plan(a_fetch(0, 0, some_partitions(size)), VERSION, 0)
    assert sessions.plan(a_fetch(0, 0, some_partitions(40)), VERSION, 0, privileged=True).session is not None
    assert sessions.partitions == 90
    assert sessions.plan(a_fetch(0, 0, some_partitions(90)), VERSION, 200_000).session is not None
    assert sessions.partitions <= 100


def test_what_may_not_be_read_counts_for_the_bound_of_all_sessions() -> None:
    sessions = some_sessions(partitions_max=3)
    session = sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0).session
    assert session is not None
    sessions.deny(session, a_fetch(0, 0, {1: 0, 2: 0, 3: 0}).topics)
    assert (sessions.partitions, sorted(index for _, index in session.denied)) == (3, [1, 2])
    sessions.deny(session, a_fetch(0, 0, {1: 5}).topics)
    assert session.denied["t", 1].requested.fetch_offset == 5
    sessions.deny(session, [FetchTopic(topic="x" * 30_000, partitions=[FetchPartition(partition=0)])])
    assert sessions.partitions == 3
    sessions.plan(a_fetch(session.number, -1, {}), VERSION, 0)
    assert sessions.partitions == 0


def test_a_name_that_no_topic_can_have_is_kept_in_no_session() -> None:
    sessions = some_sessions()
    partitions = [FetchPartition(partition=0, fetch_offset=0)]
    request = FetchRequest(session_epoch=0, topics=[FetchTopic(topic="x" * 30_000, partitions=partitions)])
    plan = sessions.plan(request, VERSION, 0)
    assert (plan.session, len(plan.targets)) == (None, 1)
    sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0)
    request.session_id, request.session_epoch = 1, 1
    with pytest.raises(BrokerError) as refusal:
        sessions.plan(request, VERSION, 0)
    assert refusal.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.partitions == 0
