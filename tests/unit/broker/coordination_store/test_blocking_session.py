"""Races that a real ZooKeeper shows rarely: tests/contract/test_blocking_session.py has the rest."""

from __future__ import annotations

import asyncio
from typing import Any

from sordini.broker.coordination_store.blocking_session import BlockingSession
from sordini.replication.ports import NodeExists, Stat


class Scripted:
    """A session whose answers are given; `exists` notes whether it was asked to watch."""

    session_id = 7

    def __init__(self, creates: list[bool], owners: list[int | None]) -> None:
        self._creates = creates
        self._owners = owners
        self.watches: list[bool] = []

    async def create(self, path: str, _data: bytes, **_how: Any) -> str:
        if not self._creates.pop(0):
            raise NodeExists(path)
        return path

    async def exists(self, _path: str, *, watch: Any) -> Stat | None:
        self.watches.append(watch is not None)
        owner = self._owners.pop(0)
        return None if owner is None else Stat(0, 0, 0, 0, 0, owner, 0)


def over(session: Scripted) -> BlockingSession:
    return BlockingSession(asyncio.run, session, lambda: None, 1.0)


def test_a_node_that_is_deleted_before_its_owner_is_read_is_created_at_the_next_attempt() -> None:
    session = Scripted([False, True], [None])
    assert over(session).create_ephemeral("/owner", b"")
    assert session.watches == [True], "a deletion that was before the watch would never be reported"


def test_a_node_of_another_session_is_watched_and_one_of_this_session_is_taken() -> None:
    other, own = Scripted([False], [8]), Scripted([False], [7])
    assert not over(other).create_ephemeral("/owner", b"")
    assert over(own).create_ephemeral("/owner", b"")
    assert other.watches == [True]
