"""Whether a command is of the controller that the coordination store names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.cluster.commands.command_origin import CommandOrigin
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import UpdateMetadata
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import ConnectionLoss, NoNode, Operation, Session, Stat
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import ME, OTHER, inline

STALE, NONE = ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.NONE


class Server:
    """A server of the store that shows the past until something is written through it, or is away for some calls."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._past: dict[str, bytes] | None = None
        self.away = 0
        self.reads = 0
        self.writes = 0

    async def fall_behind(self) -> None:
        """Show from now on what there is now."""
        found = {path: await self._session.exists(path) for path in (paths.CONTROLLER, paths.CONTROLLER_EPOCH)}
        self._past = {path: (await self._session.get(path))[0] for path, stat in found.items() if stat is not None}

    async def get(self, path: str) -> tuple[bytes, Stat]:
        self.reads += 1
        self._answer()
        if self._past is None:
            return await self._session.get(path)
        if path not in self._past:
            raise NoNode(path)
        return self._past[path], Stat(0, 0, 0, 0, 0, 0, 0)

    async def multi(self, operations: Sequence[Operation]) -> Any:
        self.writes += 1
        await asyncio.sleep(0)
        self._answer()
        self._past = None
        return await self._session.multi(operations)

    async def exists(self, path: str) -> Stat | None:
        self._answer()
        return await self._session.exists(path)

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionLoss


class Scene:
    """A store, a server of it, and the check of commands against it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.server = Server(session)
        self.origin = CommandOrigin(self.server, ME)  # type: ignore[arg-type]

    async def elect(self, controller: int, epoch: int) -> None:
        for path, data in (
            (paths.CONTROLLER, znodes.encode_controller(BrokerId(controller), 0)),
            (paths.CONTROLLER_EPOCH, b"%d" % epoch),
        ):
            if await self.session.exists(path) is None:
                await self.session.create(path)
            await self.session.set(path, data)

    async def judge(self, controller: int, epoch: int, broker_epoch: int = -1, own_epoch: int = 5) -> ErrorCode:
        command = UpdateMetadata(BrokerId(controller), epoch, broker_epoch, ())
        return await self.origin.refusal(command, own_epoch)


@asynccontextmanager
async def a_scene() -> AsyncIterator[Scene]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    try:
        yield Scene(await store.open_session())
    finally:
        await store.close()


async def test_one_read_of_the_store_serves_all_commands_of_a_controller() -> None:
    async with a_scene() as scene:
        await scene.elect(2, 7)
        assert [await scene.judge(2, 7) for _ in range(100)] == [NONE] * 100
        assert (scene.server.reads, scene.server.writes) == (2, 0)
        await scene.elect(3, 8)
        assert [await scene.judge(3, 8) for _ in range(100)] == [NONE] * 100
        assert (scene.server.reads, scene.server.writes) == (4, 0)


@pytest.mark.parametrize(
    ("controller", "epoch"), [(2, 8), (2, 2**31 - 1), (2, 6), (3, 7), (2**31 - 1, 7), (2, 0), (9, 6)], ids=str
)
async def test_a_command_must_name_the_controller_and_the_epoch_of_the_store(controller: int, epoch: int) -> None:
    async with a_scene() as scene:
        await scene.elect(2, 7)
        assert await scene.judge(controller, epoch) is STALE
        assert await scene.judge(2, 7) is NONE
        assert await scene.judge(controller, epoch) is STALE
        assert scene.origin.known == (2, 7)


async def test_a_replaced_controller_is_refused_without_a_read_of_the_store() -> None:
    async with a_scene() as scene:
        await scene.elect(2, 7)
        await scene.judge(2, 7)
        await scene.elect(3, 8)
        assert await scene.judge(3, 8) is NONE
        reads = scene.server.reads
        assert await scene.judge(2, 7) is STALE
        assert scene.server.reads == reads


async def test_a_server_that_is_behind_is_brought_up_to_date_before_a_controller_is_refused() -> None:
    async with a_scene() as scene:
        await scene.elect(2, 7)
        await scene.server.fall_behind()
        await scene.elect(3, 8)
        assert await scene.judge(3, 8) is NONE
        assert scene.server.writes == 1


async def test_commands_of_the_first_controller_are_obeyed_though_the_store_server_lags_behind_its_election() -> None:
    async with a_scene() as scene:
        await scene.server.fall_behind()
        await scene.elect(2, 1)
        assert await scene.judge(2, 1) is NONE


async def test_many_wrong_commands_at_once_cost_two_writes() -> None:
    async with a_scene() as scene:
        await scene.elect(2, 7)
        assert set(await asyncio.gather(*(scene.judge(2, 100 + number) for number in range(500)))) == {STALE}
        assert scene.server.writes <= 2


@pytest.mark.parametrize("data", [b"", b"x", b"{}"])
async def test_commands_are_stale_when_the_controller_in_the_store_is_missing_or_unreadable(data: bytes) -> None:
    async with a_scene() as scene:
        assert await scene.judge(2, 1) is STALE
        await scene.elect(2, 1)
        await scene.session.set(paths.CONTROLLER, data)
        assert [await scene.judge(number, 1) for number in (2, 0)] == [STALE, STALE]
        await scene.elect(2, 1)
        await scene.session.set(paths.CONTROLLER_EPOCH, data)
        assert [await scene.judge(2, epoch) for epoch in (1, 0)] == [STALE, STALE]


async def test_a_broker_epoch_above_the_registrations_must_be_that_of_the_store() -> None:
    async with a_scene() as scene:
        await scene.elect(OTHER, 1)
        stale = ErrorCode.STALE_BROKER_EPOCH
        assert await scene.judge(OTHER, 1, broker_epoch=6) is stale, "not registered at all"
        await scene.session.create(paths.broker(ME), make_parents=True)
        stat = await scene.session.exists(paths.broker(ME))
        assert stat is not None
        assert await scene.judge(OTHER, 1, stat.czxid, own_epoch=stat.czxid - 1) is NONE
        assert await scene.judge(OTHER, 1, stat.czxid + 1, own_epoch=stat.czxid) is stale
        assert await scene.judge(OTHER, 1, 2**63 - 1, own_epoch=stat.czxid) is stale
        for epoch in (-1, stat.czxid):
            assert await scene.judge(OTHER, 1, epoch, own_epoch=stat.czxid) is NONE


def test_a_command_waits_for_a_store_that_is_away() -> None:
    async def scene_of_calls() -> None:
        async with a_scene() as scene:
            await scene.elect(2, 7)
            scene.server.away = 30
            assert await scene.judge(2, 7) is NONE
            scene.server.away = 3
            assert await scene.judge(2, 9) is STALE
            scene.server.away = 30
            assert await scene.judge(2, 7, broker_epoch=9) is ErrorCode.STALE_BROKER_EPOCH

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(scene_of_calls())
