"""Clocks of brokers that differ, the same on every kind of store: its own clock dates each registration."""

from __future__ import annotations

import asyncio
from typing import Any

from sordini.broker.cluster.peer_clocks import PeerClocks
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.metadata_store.registration import Registration, ensure_base_paths
from sordini.system.clock import SystemClock
from tests.contract.conftest import Store

HOUR_MS = 3_600_000


class Ahead(SystemClock):
    """The system's clock, off by so much."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class Warnings:
    """The warnings of a log, to wait for."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def info(self, event: str, **fields: object) -> None: ...

    error = info

    def warning(self, event: str, **fields: object) -> None:
        self.queue.put_nowait({"event": event, **fields})


async def test_clocks_that_are_hours_apart_are_found_by_registrations(store: Store) -> None:
    log = Warnings()
    sessions = [await store.open_session() for _ in range(4)]
    await ensure_base_paths(sessions[0])
    for number, ahead_ms in enumerate((0, HOUR_MS, 0, -2 * HOUR_MS)):
        who = Broker(BrokerId(number), 0, (BrokerEndpoint("PLAINTEXT", f"h{number}", 9092),))
        await Registration(sessions[number], who, Ahead(ahead_ms), log, session_timeout_ms=60_000).register()
    clocks = PeerClocks(sessions[0], BrokerId(0), log)
    running = asyncio.create_task(clocks.run())
    reported = [await asyncio.wait_for(log.queue.get(), 20) for _ in range(2)]
    assert [(line["broker"], round(line["ahead_ms"] / HOUR_MS, 1)) for line in reported] == [(1, 1.0), (3, -2.0)]
    assert [round(ms / HOUR_MS, 1) for ms in clocks.differences_ms.values()] == [1.0, 0.0, -2.0]
    assert log.queue.empty()
    running.cancel()
    await asyncio.wait([running])
