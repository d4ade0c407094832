"""Settings in the store: one transaction per change, with its notification."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.replication.metadata_store import change_notifications, paths
from sordini.replication.metadata_store.configs import (
    SETTINGS_BYTES_MAX,
    ConfigChanges,
    SettingsTooLarge,
    change_config,
    read_config,
)
from sordini.replication.ports import ConnectionLoss, NoNode, SessionState, Watch
from tests.unit.replication.conftest import Lines, StoppedClock

ENTITY = "topics/orders"
PATH = paths.config(ENTITY)


async def test_the_first_change_creates_the_node_and_every_change_a_notification(session: EmbeddedSession) -> None:
    numbers = [await change_config(session, ENTITY, lambda found, key=key: {**found, key: "1"}) for key in "ab"]
    assert numbers == [0, 1]
    assert (await session.get(PATH))[0] == b'{"version":1,"config":{"a":"1","b":"1"}}'
    notifications = sorted(await session.children(paths.CONFIG_CHANGES))
    assert notifications == ["config_change_0000000000", "config_change_0000000001"]
    data, _ = await session.get(f"{paths.CONFIG_CHANGES}/{notifications[1]}")
    assert json.loads(data) == {"version": 2, "entity_path": ENTITY}


class Decision:
    """Adds its entry to what it is shown, and keeps what that was."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def __call__(self, found: Mapping[str, str]) -> dict[str, str]:
        self.seen.append(dict(found))
        return {**found, "mine": "1"}


@pytest.mark.parametrize("there", [False, True])
async def test_the_change_of_a_faster_writer_is_not_overwritten(session: EmbeddedSession, there: bool) -> None:
    if there:
        await session.create(PATH, b'{"config":{"old":"0"}}')
    ours, theirs = Decision(), Decision()
    # The calls of one session take effect in order: both read before either writes.
    await asyncio.gather(change_config(session, ENTITY, ours), change_config(session, ENTITY, theirs))
    assert len(ours.seen) + len(theirs.seen) == 3
    assert len(await session.children(paths.CONFIG_CHANGES)) == 2
    found = await read_config(session, ENTITY)
    assert found == ({"old": "0", "mine": "1"} if there else {"mine": "1"})


async def test_a_refusal_writes_nothing(session: EmbeddedSession) -> None:
    def refuse(_: Mapping[str, str]) -> dict[str, str]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await change_config(session, ENTITY, refuse)
    with pytest.raises(SettingsTooLarge):
        await change_config(session, ENTITY, lambda _: {"a": "x" * SETTINGS_BYTES_MAX})
    assert await session.children(paths.CONFIG_CHANGES) == []
    assert await session.exists(PATH) is None


@pytest.mark.parametrize("there", [False, True])
async def test_without_the_guard_node_nothing_is_written(session: EmbeddedSession, there: bool) -> None:
    if there:
        await session.create(PATH)
    with pytest.raises(NoNode):
        await change_config(session, ENTITY, dict, guard=paths.topic("orders"))
    assert await session.children(paths.CONFIG_CHANGES) == []
    await session.create(paths.topic("orders"))
    assert await change_config(session, ENTITY, dict, guard=paths.topic("orders")) == 0


async def test_settings_without_a_parent_node_are_refused_and_not_retried_forever(session: EmbeddedSession) -> None:
    await session.delete("/config/topics")
    with pytest.raises(NoNode):
        await change_config(session, ENTITY, dict)


async def test_a_change_is_applied_when_its_notification_was_processed(session: EmbeddedSession) -> None:
    notified: list[tuple[str, dict[str, str]]] = []
    changes = ConfigChanges(
        session, lambda entity, found: notified.append((entity, dict(found))), StoppedClock(), Lines()
    )
    await changes.start()
    try:
        for count in range(1, 4):
            number = await change_config(session, ENTITY, lambda _, count=count: {"a": str(count)})
            await changes.applied(number)
            assert notified[-1] == (ENTITY, {"a": str(count)})
        await asyncio.gather(changes.applied(0), changes.applied(number))
        later = asyncio.ensure_future(changes.applied(number + 2))
        await changes.applied(await change_config(session, "users/u", dict))
        assert not later.done()
        await change_config(session, "users/u", dict)
        await later
    finally:
        await changes.stop()


class Away:
    """A session without a connection, which counts its calls."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session
        self.state = SessionState.SUSPENDED
        self.requested = 0
        self.listeners: list[Callable[[SessionState], None]] = []

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self.listeners.append(listener)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        self.requested += 1
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLoss(path)
        return await self._session.children(path, watch=watch)


async def test_without_a_connection_notifications_are_read_once_and_again_after_a_reconnect(
    session: EmbeddedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_notifications, "RETRY_DELAY_S", 0)
    away: Any = Away(session)
    changes = ConfigChanges(away, lambda *_: None, StoppedClock(), Lines())
    starting = asyncio.ensure_future(changes.start())
    for _ in range(50):
        await asyncio.sleep(0)
    assert away.requested == 1
    away.state = SessionState.CONNECTED
    for listener in away.listeners:
        listener(away.state)
    await starting
    assert away.requested == 2
    await changes.stop()
