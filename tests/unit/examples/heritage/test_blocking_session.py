"""Races that a real ZooKeeper shows rarely: tests/heritage/test_blocking_session.py has the rest."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NodeExistsError
from kazoo.protocol.states import ZnodeStat

from examples.heritage.blocking_session import BlockingSession


class Scripted:
    """A session whose answers are given; `exists` notes whether it was asked to watch."""

    session_id = 7

    def __init__(self, creates: list[bool], owners: list[int | None]) -> None:
        self._creates = creates
        self._owners = owners
        self.watches: list[bool] = []

    def call(self, name: str, path: str, *_given: Any, **options: Any) -> Any:
        if name == "create":
            if not self._creates.pop(0):
                raise NodeExistsError
            return path
        assert name == "exists"
        self.watches.append(options["watch"] is not None)
        owner = self._owners.pop(0)
        return None if owner is None else ZnodeStat(0, 0, 0, 0, 0, 0, 0, owner, 0, 0, 0)


def over(session: Scripted) -> BlockingSession:
    return BlockingSession(session, lambda: None)


def test_a_node_that_is_deleted_before_its_owner_is_read_is_created_at_the_next_attempt() -> None:
    session = Scripted([False, True], [None])
    assert over(session).create_ephemeral("/owner", b"")
    assert session.watches == [True], "a deletion that was before the watch would never be reported"


def test_a_node_of_another_session_is_watched_and_one_of_this_session_is_taken() -> None:
    other, own = Scripted([False], [8]), Scripted([False], [7])
    assert not over(other).create_ephemeral("/owner", b"")
    assert over(own).create_ephemeral("/owner", b"")
    assert other.watches == [True]
