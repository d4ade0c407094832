"""Sessions: how long they last, and what ends with them."""

from __future__ import annotations

from itertools import count

from sordini.console.security.sessions import IDLE_S, LIFETIME_S, SESSIONS_MAX, SESSIONS_OF_USER_MAX, Sessions


class Connection:
    """Something that is closed with a session."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def make_sessions() -> Sessions:
    numbers = count()
    return Sessions(lambda: f"key-{next(numbers)}")


def test_a_session_in_use_lasts_its_lifetime_and_no_longer() -> None:
    sessions = make_sessions()
    session = sessions.begin("alice", "secret", 0.0)
    now_s = 0.0
    while now_s < LIFETIME_S:
        now_s = min(now_s + IDLE_S / 2, LIFETIME_S)
        assert sessions.find(session.key, now_s) is session
    assert sessions.find(session.key, LIFETIME_S + 1.0) is None


def test_an_idle_session_is_over_with_its_connections() -> None:
    sessions, connection = make_sessions(), Connection()
    session = sessions.begin("alice", None, 0.0)
    session.closables.append(connection)
    sessions.end_idle(IDLE_S)
    assert not connection.is_closed
    sessions.end_idle(IDLE_S + 1.0)
    assert (connection.is_closed, session.is_open, len(sessions)) == (True, False, 0)


def test_a_session_that_was_ended_is_not_found() -> None:
    sessions = make_sessions()
    session = sessions.begin("alice", None, 0.0)
    sessions.end(session)
    sessions.end(session)
    assert sessions.find(session.key, 0.0) is None
    assert sessions.find("", 0.0) is None


def test_the_session_that_was_used_longest_ago_makes_room() -> None:
    sessions = make_sessions()
    first, second = (sessions.begin(name, None, 0.0) for name in ("first", "second"))
    for number in range(SESSIONS_MAX - 2):
        sessions.begin(str(number), None, 1.0)
    assert sessions.find(first.key, 2.0) is first
    sessions.begin("one more", None, 3.0)
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(first.key, 3.0) is first
    assert sessions.find(second.key, 3.0) is None


def test_no_secret_is_in_the_text_of_a_session() -> None:
    session = make_sessions().begin("alice", "secret", 0.0)
    assert "secret" not in repr(session)
    assert session.key not in repr(session)


def test_the_logins_of_one_user_end_no_session_of_another_one() -> None:
    sessions = make_sessions()
    other = sessions.begin("bob", "secret", 0.0)
    own = [sessions.begin("alice", "secret", 1.0) for _ in range(SESSIONS_MAX)]
    assert sessions.find(other.key, 2.0) is other
    assert [one.is_open for one in own].count(True) == SESSIONS_OF_USER_MAX
    assert own[-1].is_open


def test_visitors_by_the_token_are_many_under_one_name() -> None:
    sessions = make_sessions()
    own = [sessions.begin("(by token)", None, 1.0) for _ in range(SESSIONS_MAX)]
    assert all(one.is_open for one in own)
