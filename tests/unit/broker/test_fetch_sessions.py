"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from itertools import count

import pytest

from sordini.broker.fetch_sessions import FetchSessions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

VERSION = 12


def some_sessions(slots: int = 10) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots, lambda: next(numbers), lambda topic_id: None)


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
    return {target.wish.partition: target.wish.fetch_offset for target in plan.targets}


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


def test_a_full_table_gives_a_fresh_small_session_no_place_but_a_stale_one_goes() -> None:
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
    assert follower.session is not None, "a large session of a consumer's goes before a small one of a follower's"
    assert sessions.plan(a_fetch(0, 0, large), VERSION, 0).session is None
    assert sessions.plan(a_fetch(0, 0, {0: 0}), VERSION, 0, privileged=True).session is None, "it is no larger"
    assert sessions.plan(a_fetch(0, 0, large), VERSION, 0, privileged=True).session is not None
