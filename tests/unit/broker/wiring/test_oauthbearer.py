"""The key sets of a broker's listeners: which are shared, what refuses the start, and what is read from where."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.security.sasl.oauthbearer.claims import TokenRefused
from sordini.broker.wiring.deps import Runtime
from sordini.broker.wiring.oauthbearer import KeySources, key_fetcher
from sordini.broker.wiring.startup import StartRefused
from sordini.storage.disk import SystemDisk
from tests.support.fake_ports import ListLog, StillClock
from tests.support.token_issuer import claims, key_set, token
from tests.support.unit_broker import Timers

JWKS = "sasl.oauthbearer.jwks.endpoint.url"
URL = "https://issuer.example/keys"
SETTINGS = {
    "listeners": "PLAINTEXT://:1,A://:2,B://:3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,A:SASL_PLAINTEXT,B:SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sordini.oauthbearer.allowed.urls": URL,
    "sasl.oauthbearer.expected.audience": "kafka, other",
}


class Broker:
    """What key sources use of one."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = answers
        self.fetched: list[str] = []
        self.clock = StillClock()
        self.spawned: list[Coroutine[Any, Any, None]] = []
        runtime = Runtime(self.clock, random.Random(1), self.spawn, Timers().call_later, ListLog())
        self.sources = KeySources(self.fetch, runtime)

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        if url not in self.answers:
            raise OSError("no such document")
        return self.answers[url]

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.spawned.append(work)
        return asyncio.get_running_loop().create_task(work)

    async def stop(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


def config(**entries: str) -> Any:
    return build_config(SETTINGS | entries)[0]


async def test_listeners_with_the_same_key_set_share_it_and_each_has_its_own_rules() -> None:
    file = "file:///keys.json"
    broker = Broker(**{file: key_set()})
    found = config(**{JWKS: file, "listener.name.b.oauthbearer.sasl.oauthbearer.expected.issuer": "me"})
    one, two = (broker.sources.verifier(found.listener(name)) for name in ("A", "B"))
    await broker.sources.start()
    assert broker.fetched == [file]
    assert len(broker.spawned) == 1
    text = token(claims(broker.clock.ms / 1000))
    assert one.accept(text).principal == "alice"
    with pytest.raises(TokenRefused, match="issuer"):
        two.accept(text)
    await broker.stop()


@pytest.mark.parametrize("answers", [{}, {"file:///keys.json": b"{}"}])
async def test_a_file_that_cannot_be_used_refuses_the_start(answers: dict[str, bytes]) -> None:
    broker = Broker(**answers)
    broker.sources.verifier(config(**{JWKS: "file:///keys.json"}).listener("A"))
    with pytest.raises(StartRefused, match=r"the keys of OAUTHBEARER at file:///keys\.json cannot be used"):
        await broker.sources.start()


async def test_an_address_that_cannot_be_reached_refuses_no_start_and_accepts_no_token() -> None:
    broker = Broker()
    verifier = broker.sources.verifier(config(**{JWKS: URL}).listener("A"))
    await broker.sources.start()
    with pytest.raises(TokenRefused, match="not in the key set"):
        verifier.accept(token(claims(broker.clock.ms / 1000)))
    await broker.stop()


async def test_a_listener_that_takes_tokens_since_a_change_gets_its_keys_while_the_broker_runs() -> None:
    broker = Broker(**{URL: key_set()})
    await broker.sources.start()
    assert broker.spawned == []
    verifier = broker.sources.verifier(config(**{JWKS: URL}).listener("A"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert verifier.accept(token(claims(broker.clock.ms / 1000))).principal == "alice"
    await broker.stop()


async def test_a_file_is_read_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "key set.json"
    path.write_bytes(b"document")
    fetch = key_fetcher(SystemDisk())
    assert await fetch(path.as_uri()) == b"document"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        await fetch(path.as_uri())
