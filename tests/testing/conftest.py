"""Brokers of the kit, shared by the tests of a file; and clusters behind their control, as another language uses them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple, Self

import pytest

from sordini.testing import Kafka, make_kafka
from sordini.testing.brokers.site import Site
from sordini.testing.control.controlled import Control
from sordini.testing.control.server import ControlServer
from tests.support.fake_ports import ListLog


class Answer(NamedTuple):
    status: int
    value: Any
    headers: dict[str, str]


class Controlled:
    """A site, its control on a thread, and a client of it that knows nothing of the kit."""

    def __init__(self, brokers: int) -> None:
        self.site = Site(brokers, {}, 0)
        self.kafka = Kafka(self.site)
        self.log = ListLog()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server = ControlServer(Control(self.kafka, self.site), self.log)

    def __enter__(self) -> Self:
        self.kafka.start()
        self._thread.start()
        _, self.port = asyncio.run_coroutine_threadsafe(self._server.start("127.0.0.1", 0), self._loop).result(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.kafka.close()

    @property
    def bootstrap_servers(self) -> str:
        return str(self.get("/")["bootstrap_servers"])

    def ask(self, method: str, path: str, body: bytes | Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, data, dict(headers or {}))
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        found = dict(response.getheaders())
        return Answer(response.status, json.loads(text) if "json" in found["Content-Type"] else text, found)

    def get(self, path: str) -> Any:
        return self._granted("GET", path, None)

    def post(self, path: str, **fields: Any) -> Any:
        return self._granted("POST", path, fields or None)

    def delete(self, path: str) -> Any:
        return self._granted("DELETE", path, None)

    def fault(self, api: str, do: str, **fields: Any) -> int:
        """The id of a new fault."""
        return int(self.post("/faults", api=api, do=do, **fields)["id"])

    def used(self, fault: int) -> int:
        return int(self.get(f"/faults/{fault}")["used"])

    def _granted(self, method: str, path: str, body: Any) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status in (200, 201), answer
        return answer.value


@pytest.fixture(scope="module")
def site() -> Iterator[Kafka]:
    """One broker for all tests of a file. A file that needs others has a `site` of its own."""
    with make_kafka() as made:
        yield made


@pytest.fixture
def broker(site: Kafka) -> Iterator[Kafka]:
    """The brokers of the file, with everything undone that a test has done."""
    site.begin_test()
    yield site
    site.end_test()


@pytest.fixture
def cluster(broker: Kafka) -> Kafka:
    """The same, for files whose `site` has several."""
    return broker


@pytest.fixture(scope="package")
def controlled_once() -> Iterator[Controlled]:
    with Controlled(1) as made:
        yield made


@pytest.fixture
def controlled(controlled_once: Controlled) -> Iterator[Controlled]:
    """One broker, shared, with everything undone that a test has done."""
    yield controlled_once
    controlled_once.delete("/requests")
    controlled_once.post("/undo")


@pytest.fixture(scope="package")
def controlled_cluster_once() -> Iterator[Controlled]:
    with Controlled(3) as made:
        yield made


@pytest.fixture
def controlled_cluster(controlled_cluster_once: Controlled) -> Iterator[Controlled]:
    """Three brokers, as above."""
    yield controlled_cluster_once
    controlled_cluster_once.post("/undo")
