"""Clocks of brokers that differ, found in their registrations: exact on a store whose clock stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sordini.broker.cluster.peer_clocks import DIFFERENCE_MS_MAX, WRITE_MS_MAX, PeerClocks
from sordini.coordination_store.current_session import CurrentSession
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint, Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import Registration, ensure_base_paths
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import ME, OTHER, inline

WARNING = "clock of another broker differs from this one's"
THIRD = BrokerId(3)


class Scene:
    """A store, whose clock stands still, and the brokers that are registered in it."""

    def __init__(self, store: EmbeddedStore, session: EmbeddedSession) -> None:
        self.store = store
        self.log = ListLog()
        self.session = CurrentSession(session)
        self.clocks = PeerClocks(self.session, ME, self.log)
        self.sessions: dict[BrokerId, EmbeddedSession] = {ME: session}

    async def register(self, broker: BrokerId, ahead_ms: int, rules: tuple[BrokerEndpoint, ...] = ()) -> Registration:
        """With a clock that is ahead of the store's."""
        if broker not in self.sessions:
            self.sessions[broker] = await self.store.open_session()
        clock = StillClock()
        clock.ms += ahead_ms
        who = Broker(broker, 0, (BrokerEndpoint("PLAINTEXT", f"h{broker}", 9092),), rule_endpoints=rules)
        made = Registration(self.sessions[broker], who, clock, self.log, session_timeout_ms=0)
        await made.register()
        await self.settled()
        return made

    async def leave(self, broker: BrokerId) -> None:
        await self.sessions.pop(broker).close()
        await self.settled()

    async def settled(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    def warned(self) -> list[tuple[int, int]]:
        """The brokers warned about since the last call, and by how much each clock is ahead."""
        found = [(fields["broker"], fields["ahead_ms"]) for event, fields in self.log.at("warning") if event == WARNING]
        self.log.lines.clear()
        return found


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    session = await store.open_session()
    await ensure_base_paths(session)
    scene = Scene(store, session)
    await scene.register(ME, 100)
    scene.clocks.write_ms = 0
    running = asyncio.create_task(scene.clocks.run())
    await scene.settled()
    yield scene
    running.cancel()
    await asyncio.wait([running])
    await store.close()


async def test_a_difference_is_that_of_two_clocks_whatever_the_stores_own_says(scene: Scene) -> None:
    await scene.register(OTHER, 700)
    await scene.register(THIRD, -300)
    assert scene.clocks.differences_ms == {OTHER: 600, THIRD: -400}
    assert scene.warned() == []


@pytest.mark.parametrize(
    ("difference_ms", "is_logged"),
    [
        (DIFFERENCE_MS_MAX, False),
        (DIFFERENCE_MS_MAX + 1, True),
        (-DIFFERENCE_MS_MAX - WRITE_MS_MAX, False),
        (-DIFFERENCE_MS_MAX - WRITE_MS_MAX - 1, True),
    ],
)
async def test_a_clock_difference_is_logged_when_no_slow_write_explains_it(
    scene: Scene,
    difference_ms: int,
    is_logged: bool,
) -> None:
    await scene.register(OTHER, 100 + difference_ms)
    assert scene.warned() == ([(OTHER, difference_ms)] if is_logged else [])
    assert scene.clocks.differences_ms == {OTHER: difference_ms}


async def test_what_the_own_registration_took_to_be_written_excuses_others_that_are_ahead(scene: Scene) -> None:
    scene.clocks.write_ms = 500
    await scene.register(OTHER, 100 + DIFFERENCE_MS_MAX + 500)
    assert scene.warned() == []
    await scene.register(THIRD, 100 + DIFFERENCE_MS_MAX + 501)
    assert scene.warned() == [(THIRD, DIFFERENCE_MS_MAX + 501)]


async def test_a_clock_difference_is_logged_once_per_registration_and_checked_again_for_a_new_one(scene: Scene) -> None:
    await scene.register(OTHER, 9_100)
    await scene.register(THIRD, 100)
    assert scene.warned() == [(OTHER, 9_000)]
    await scene.leave(OTHER)
    assert scene.clocks.differences_ms == {THIRD: 0}
    await scene.register(OTHER, 8_100)
    assert scene.warned() == [(OTHER, 8_000)]


async def test_a_new_session_of_the_broker_itself_is_a_reason_to_read_again(scene: Scene) -> None:
    await scene.register(OTHER, 9_100)
    assert scene.warned() == [(OTHER, 9_000)]
    await scene.sessions.pop(ME).expire()
    await scene.settled()
    session = scene.sessions[ME] = await scene.store.open_session()
    scene.session.replace(session)
    await scene.settled()
    await scene.register(ME, 9_100)
    assert (scene.clocks.differences_ms, scene.warned()) == ({OTHER: 0}, [])


async def test_a_registration_without_a_readable_time_is_passed_over(scene: Scene) -> None:
    session = scene.sessions[ME]
    for broker, data in ((OTHER, b'{"version":5}'), (THIRD, b"{"), (BrokerId(4), b'{"timestamp":1e999}')):
        await session.create(paths.broker(broker), data, ephemeral=True)
    await session.create(f"{paths.BROKER_IDS}/{'9' * 11}", b"", ephemeral=True)
    await scene.settled()
    assert (scene.clocks.differences_ms, scene.warned()) == ({}, [])
    await scene.register(BrokerId(5), 200)
    assert scene.clocks.differences_ms == {BrokerId(5): 100}


@pytest.mark.parametrize("timestamp", ['"1700000000000"', "1700000000000"])
def test_a_registrations_time_is_read_as_text_and_as_a_number(timestamp: str) -> None:
    assert znodes.decode_registration_time(ME, f'{{"timestamp":{timestamp}}}'.encode()) == 1_700_000_000_000


@pytest.mark.parametrize("timestamp", ['"-1"', "-1", str(2**63), "null", "1e999", '"soon"'])
def test_a_time_that_is_none_is_malformed(timestamp: str) -> None:
    assert isinstance(znodes.decode_registration_time(ME, f'{{"timestamp":{timestamp}}}'.encode()), Malformed)


async def test_a_registration_says_how_long_its_write_took_and_not_when_it_found_its_own(scene: Scene) -> None:
    class Slow(StillClock):
        """Each reading of the monotonic clock takes 40 ms."""

        def monotonic_ms(self) -> int:
            self.ms += 40
            return self.ms

    clock: Any = Slow()
    session = await scene.store.open_session()
    who = Broker(OTHER, 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
    made = Registration(session, who, clock, scene.log, session_timeout_ms=0)
    epoch = await made.register()
    assert made.write_ms == 40
    again = Registration(session, who, clock, scene.log, session_timeout_ms=0)
    assert (await again.register(), again.write_ms) == (epoch, None)


async def test_all_registrations_are_handed_on_whenever_one_is_created_or_deleted(scene: Scene) -> None:
    """Addresses by rule are in registrations alone: no controller distributes them."""
    read: list[list[tuple[BrokerId, list[str]]]] = []
    scene.clocks.on_read = lambda brokers: read.append(
        [(one.broker_id, [end.host for end in one.rule_endpoints]) for one in brokers]
    )
    await scene.register(OTHER, 100, rules=(BrokerEndpoint("HOST", "localhost", 1),))
    await scene.leave(OTHER)
    assert read == [[(ME, []), (OTHER, ["localhost"])], [(ME, [])]]
