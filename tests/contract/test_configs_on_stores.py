"""Settings changed by several brokers at once, the same on the embedded store and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from sordini.broker.clock import SystemClock
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import ConfigChanges, change_config, read_config
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import NoNode, Session
from tests.contract.conftest import Store

ENTITY = "topics/orders"
ROUNDS = 10


class Silent:
    def info(self, event: str, **fields: object) -> None: ...

    warning = error = info


class Member:
    """A broker as far as settings are concerned: it changes them and is notified of changes."""

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self.session = session
        self.latest: Mapping[str, str] = {}
        self.changes = ConfigChanges(session, self._changed, SystemClock(), Silent())

    def _changed(self, entity_path: str, settings: Mapping[str, str]) -> None:
        assert entity_path == ENTITY
        self.latest = settings

    async def count_up(self) -> None:
        """Raise a key that all members share and one of its own, and see each change before the next."""
        for own in range(1, ROUNDS + 1):
            number = await change_config(self.session, ENTITY, self._raised, guard=paths.topic("orders"))
            await self.changes.applied(number)
            assert self.latest[self.name] == str(own)

    def _raised(self, found: Mapping[str, str]) -> dict[str, str]:
        return dict(found) | {key: str(int(found.get(key, "0")) + 1) for key in (self.name, "all")}


async def test_no_change_of_several_brokers_is_lost_and_each_sees_its_own_at_once(store: Store) -> None:
    members = [Member(name, await store.open_session()) for name in ("first", "second", "third")]
    await ensure_base_paths(members[0].session)
    await members[0].session.create(paths.topic("orders"))
    for member in members:
        await member.changes.start()
    await asyncio.gather(*(member.count_up() for member in members))
    expected = {"all": str(3 * ROUNDS)} | {member.name: str(ROUNDS) for member in members}
    assert await read_config(members[0].session, ENTITY) == expected
    for member in members:
        await member.changes.applied(3 * ROUNDS - 1)
        assert member.latest == expected
        await member.changes.stop()


async def test_settings_of_what_is_not_there_are_not_written(session: Session) -> None:
    await ensure_base_paths(session)
    with pytest.raises(NoNode):
        await change_config(session, ENTITY, dict, guard=paths.topic("orders"))
    assert await session.exists(paths.config(ENTITY)) is None
    assert await session.children(paths.CONFIG_CHANGES) == []


async def test_settings_deleted_by_another_session_meanwhile_are_created_again(session: Session) -> None:
    await ensure_base_paths(session)
    await session.create(paths.config(ENTITY), b'{"config":{"a":"1"}}')
    seen: list[dict[str, str]] = []

    def decide(found: Mapping[str, str]) -> dict[str, str]:
        seen.append(dict(found))
        return {**found, "b": "2"}

    # The calls of one session take effect in order: the node is read, deleted, and only then to be written.
    await asyncio.gather(change_config(session, ENTITY, decide), session.delete(paths.config(ENTITY)))
    assert seen == [{"a": "1"}, {}]
    assert await read_config(session, ENTITY) == {"b": "2"}
