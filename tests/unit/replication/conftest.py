"""A coordination store in memory, and what the controller's shells need beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, Command, CommandAnswer
from sordini.replication.metadata_store.registration import ensure_base_paths

T = TypeVar("T")


class StoppedClock:
    """Time that a test advances."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._awaited: dict[str, asyncio.Event] = {}

    def info(self, event: str, **fields: object) -> None:
        self.events.append(event)
        if event in self._awaited:
            self._awaited[event].set()

    async def line(self, event: str) -> None:
        """Wait until there is such a line."""
        if event not in self.events:
            await asyncio.wait_for(self._awaited.setdefault(event, asyncio.Event()).wait(), 20)

    warning = error = info


class Brokers:
    """Brokers that answer every command at once, on the next turn of the loop, unless they are `silent`."""

    def __init__(self) -> None:
        self.alive: Mapping[BrokerId, Broker] = {}
        self.sent: list[tuple[BrokerId, Command]] = []
        self.silent: set[int] = set()

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        self.alive = brokers

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        assert broker_id in self.alive
        self.sent.append((broker_id, command))
        if broker_id not in self.silent:
            asyncio.get_running_loop().call_soon(answered, CommandAnswer())

    def commands(self, kind: type[T]) -> list[T]:
        return [command for _, command in self.sent if isinstance(command, kind)]


async def inline(call: Callable[[], Any]) -> Any:
    return call()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def log() -> Lines:
    return Lines()


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def store(clock: StoppedClock) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(":memory:", inline, clock)
    yield store
    await store.close()


@pytest.fixture
async def session(store: EmbeddedStore) -> EmbeddedSession:
    session = await store.open_session()
    await ensure_base_paths(session)
    return session


@pytest.fixture
def settled() -> Callable[[Any], Awaitable[None]]:
    """Wait until a controller and those it talks to have nothing more to say to each other."""

    async def wait(controller: Any) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
            await controller.caught_up()

    return wait


@pytest.fixture
async def scene(
    store: EmbeddedStore, session: EmbeddedSession, settled: Callable[[Any], Awaitable[None]]
) -> AsyncIterator[Any]:
    from tests.support.controller_harness import ControllerHarness

    scene = ControllerHarness(store, session, settled)
    yield scene
    if scene.controller is not None:
        await scene.controller.stop()
