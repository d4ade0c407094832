"""GET /healthz, /readyz and /health before a broker serves, while it does, and while it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sordini.broker.metrics.endpoint import MetricsEndpoint
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, UnitBroker, a_broker, known_broker
from tests.unit.broker.metrics.test_readings import Scraped

PATHS = ("/healthz", "/readyz", "/health")


class Scene:
    """An endpoint that listens, and a broker behind it."""

    def __init__(self, broker: UnitBroker) -> None:
        self.broker = broker
        self.endpoint = MetricsEndpoint(broker.parts.dispatcher, ListLog())
        self.address = ("", 0)
        self.activity = ""

    async def get(self, path: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body.decode()

    def serve(self) -> None:
        self.endpoint.open(Scraped(self.broker).sources, lambda: self.activity)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with a_broker() as broker:
        broker.parts.metadata.set_brokers(ME, [known_broker(ME)])
        made = Scene(broker)
        made.address = await made.endpoint.listen("127.0.0.1", 0)
        yield made
        await made.endpoint.close()


async def test_a_broker_that_starts_is_alive_and_not_ready(scene: Scene) -> None:
    assert [await scene.get(path) for path in PATHS] == [(200, "ok\n"), (503, "starting\n"), (503, "starting\n")]


async def test_a_broker_that_serves_is_alive_and_ready(scene: Scene) -> None:
    scene.serve()
    assert [await scene.get(path) for path in PATHS] == [(200, "ok\n")] * 3


async def test_a_broker_that_stops_is_alive_and_not_ready(scene: Scene) -> None:
    scene.serve()
    scene.activity = "moving leaderships"
    stops = (503, "moving leaderships\n")
    assert [await scene.get(path) for path in PATHS] == [(200, "ok\n"), stops, stops]


async def test_a_broker_that_serves_and_is_not_ready_says_all_reasons(scene: Scene) -> None:
    scene.serve()
    scene.broker.parts.metadata.set_brokers(ME, [])
    scene.broker.contact.lost_tree = "no cluster id"
    reasons = (
        "the coordination store does not have this cluster: no cluster id\nno metadata received from a controller yet\n"
    )
    assert [await scene.get(path) for path in PATHS] == [(200, "ok\n"), (503, reasons), (200, "ok\n")]
