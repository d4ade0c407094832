"""Settings changed by several brokers at once, the same on the embedded store and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.group_config import group_entity
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.configs import ConfigChanges, change_config, read_config
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.replication.ports import NoNode, Session
from sordini.system.clock import SystemClock
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


@pytest.mark.parametrize("group_id", ["billing", "with/slash", "..", "ümlaut", "a b%2F"])
async def test_settings_of_a_group_of_any_name_are_in_force_at_every_broker_and_read_by_one_that_joins(
    store: Store, group_id: str
) -> None:
    key = "consumer.session.timeout.ms"
    sessions = [await store.open_session() for _ in range(2)]
    await ensure_base_paths(sessions[0])
    configs = [GroupConfigs(DynamicConfig(Config()), Silent()) for _ in sessions]
    changes = [
        ConfigChanges(session, of_broker.changed, SystemClock(), Silent())
        for session, of_broker in zip(sessions, configs, strict=True)
    ]
    for listening in changes:
        await listening.start()
    for settings, session_timeout_ms in (({key: "50000"}, 50000), ({key: "51000"}, 51000), ({}, 45000)):
        number = await change_config(sessions[0], group_entity(group_id), lambda _, new=settings: new)  # type: ignore[misc]
        joining = GroupConfigs(DynamicConfig(Config()), Silent())
        await joining.load(sessions[1])
        for listening in changes:
            await listening.applied(number)
        for of_broker in (*configs, joining):
            assert of_broker.timings_of(group_id).session_timeout_ms == session_timeout_ms
            assert of_broker.group_ids == ([group_id] if settings else [])
    for listening in changes:
        await listening.stop()
