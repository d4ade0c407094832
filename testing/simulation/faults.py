"""Carries a schedule out: each fault strikes at its time and repairs what it broke; none strikes what is down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.app import AppInstance
from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.broker import SESSION_S, SimBroker
from sordini.testing.simulation.cluster import SimCluster
from sordini.testing.simulation.schedule import Fault, FaultKind
from sordini.testing.simulation.transcript import Transcript


class Striker:
    """The faults of one run."""

    def __init__(
        self, loop: AppLoop, cluster: SimCluster, instances: Mapping[int, AppInstance], transcript: Transcript
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._instances = instances
        self._transcript = transcript
        self._busy: set[str] = set()
        """Hosts that are down or paused by a fault that brings them back."""
        self._strikes: dict[FaultKind, Callable[[Fault], Awaitable[None]]] = {
            FaultKind.CRASH_BROKER: self._crash_broker,
            FaultKind.STOP_BROKER: self._stop_broker,
            FaultKind.PAUSE_BROKER: self._pause_broker,
            FaultKind.CUT_BROKER: self._cut_broker,
            FaultKind.EXPIRE_SESSION: self._expire_session,
            FaultKind.SLOW_DISK: self._slow_disk,
            FaultKind.CUT_APP: self._cut_app,
            FaultKind.RESET_APP: self._reset_app,
            FaultKind.SLOW_APP_LINK: self._slow_app_link,
            FaultKind.CRASH_APP: self._crash_app,
            FaultKind.STOP_APP: self._stop_app,
            FaultKind.PAUSE_APP: self._pause_app,
        }

    async def run(self, schedule: Sequence[Fault], began_s: float) -> None:
        """Strike all; returns when the last one is repaired."""
        async with asyncio.TaskGroup() as group:
            for fault in sorted(schedule):
                await asyncio.sleep(max(0.0, began_s + fault.at_s - self._loop.time()))
                group.create_task(self._strike(fault))

    async def _strike(self, fault: Fault) -> None:
        host = f"broker-{fault.broker}" if fault.kind in _TAKING_BROKERS else f"app-{fault.instance}"
        takes = fault.kind in _TAKING_BROKERS or fault.kind in _TAKING_APPS
        if takes and host in self._busy:
            self._transcript.note("fault", f"{fault.text().lstrip()}: left out, it is down already")
            return
        self._transcript.note("fault", fault.text().lstrip())
        if takes:
            self._busy.add(host)
        try:
            await self._strikes[fault.kind](fault)
        finally:
            if takes:
                self._busy.discard(host)

    # Brokers.

    async def _crash_broker(self, fault: Fault) -> None:
        broker = self._broker(fault)
        broker.kill()
        await asyncio.sleep(fault.seconds)
        broker.start()

    async def _stop_broker(self, fault: Fault) -> None:
        broker = self._broker(fault)
        await broker.stop()
        await asyncio.sleep(fault.seconds)
        broker.start()

    async def _pause_broker(self, fault: Fault) -> None:
        broker = self._broker(fault)
        silent = self._loop.call_later(SESSION_S, self._forget, broker)
        await self._pause(broker.process, fault.seconds)
        silent.cancel()

    def _forget(self, broker: SimBroker) -> None:
        self._loop.create_task(broker.expire_session())

    async def _cut_broker(self, fault: Fault) -> None:
        host = self._broker(fault).host
        for other in self._cluster.brokers.values():
            if other.host != host:
                self._cut(host, other.host, fault.seconds)
        await asyncio.sleep(fault.seconds)

    async def _expire_session(self, fault: Fault) -> None:
        await self._broker(fault).expire_session()

    async def _slow_disk(self, fault: Fault) -> None:
        disk = self._broker(fault).disk
        disk.is_slow = True
        await asyncio.sleep(fault.seconds)
        disk.is_slow = False

    # Links of the application.

    async def _cut_app(self, fault: Fault) -> None:
        self._cut(self._instance(fault).host, self._broker(fault).host, fault.seconds)
        await asyncio.sleep(fault.seconds)

    async def _reset_app(self, fault: Fault) -> None:
        process = self._instance(fault).process
        if process is not None and process.alive:
            for socket in self._cluster.network.connections(process):
                socket.reset()

    async def _slow_app_link(self, fault: Fault) -> None:
        process = self._instance(fault).process
        if process is not None and process.alive:
            for socket in self._cluster.network.connections(process):
                socket.inward.stall(fault.seconds)
                socket.outward.stall(fault.seconds)

    # The application.

    async def _crash_app(self, fault: Fault) -> None:
        instance = self._instance(fault)
        instance.crash()
        await asyncio.sleep(fault.seconds)
        instance.start()

    async def _stop_app(self, fault: Fault) -> None:
        instance = self._instance(fault)
        await instance.stop()
        await asyncio.sleep(fault.seconds)
        instance.start()

    async def _pause_app(self, fault: Fault) -> None:
        process = self._instance(fault).process
        if process is not None and process.alive and not self._loop.is_blocked(process):
            await self._pause(process, fault.seconds)

    async def _pause(self, process: LoopProcess, seconds: float) -> None:
        if not process.alive:
            return
        self._loop.pause(process)
        await asyncio.sleep(seconds)
        if process.alive:
            self._loop.resume(process, timers_first=seconds * 1_000 % 2 < 1)

    def _cut(self, host: str, other: str, seconds: float) -> None:
        self._cluster.network.cut(host, other, seconds)
        self._cluster.network.cut(other, host, seconds)

    def _broker(self, fault: Fault) -> SimBroker:
        return self._cluster.brokers[fault.broker]

    def _instance(self, fault: Fault) -> AppInstance:
        return self._instances[fault.instance]


_TAKING_BROKERS = (FaultKind.CRASH_BROKER, FaultKind.STOP_BROKER, FaultKind.PAUSE_BROKER)
_TAKING_APPS = (FaultKind.CRASH_APP, FaultKind.STOP_APP, FaultKind.PAUSE_APP)
