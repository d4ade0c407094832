"""Clients that register the same and different schemas with three registries over three brokers, under faults.

    kill -9 and a restart, or a stop of some seconds, of a registry     a broker killed, paused, or cut off from others
    connections closed before or after a record was appended            the group's members removed

Faults are drawn from a seed, one at a time, each undone before the next. The registries are processes; the brokers are
the kit's, on a thread, or processes, too (`process_campaign.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from sordini.testing import Kafka, KitError
from tests.registry.journal import numbering_process, rest_process
from tests.registry.journal.numbering_process import NumberingProcess
from tests.registry.journal.rest_process import RestProcess
from tests.registry.journal.verdict import verdict

REGISTRIES: Final = 3
CLIENTS: Final = 4
SHARED: Final = 3
"""So many of a round's schemas are registered by all clients at once."""
TOPIC: Final = "_schemas"
SETTLED_S_MAX: Final = 120.0
PAUSE_S: Final = (0.3, 1.5)


class Result(NamedTuple):
    """What a campaign found, and how much it did."""

    wrong: list[str]
    registered: int
    answered: int
    refused: int
    terms: int
    faults: Counter[str]

    def __str__(self) -> str:
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.registered} schemas registered, {self.answered} answers, {self.refused} refused attempts, "
            f"{self.terms} terms; {faults}"
        )


class Judged(Protocol):
    """A registry in a process of its own."""

    port: int
    pid: int

    def start(self) -> object: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...
    def tail(self) -> str: ...


class Kind(NamedTuple):
    """Which registries are judged."""

    name: str
    process: Callable[[Path, str, str], Any]
    """Makes one, of a directory, bootstrap addresses and the topic."""
    ask: Callable[[int, dict[str, Any]], Awaitable[dict[str, Any]]]
    read: Callable[[bytes], str]
    """The text of a registration, by the value of its record."""

    def __str__(self) -> str:
        return self.name


NUMBERING: Final = Kind(
    "a journal alone", NumberingProcess, numbering_process.ask, lambda value: str(json.loads(value)["schema"])
)
REST: Final = Kind(
    "sordini registry", RestProcess, rest_process.ask, lambda value: rest_process.text_of(json.loads(value)["schema"])
)


Fault = tuple[str, Callable[[], Any]]
Stored = tuple[bytes | None, bytes | None]


class Campaign(ABC):
    """One run."""

    def __init__(self, bootstrap: str, directory: Path, seed: int, seconds: float, kind: Kind) -> None:
        self._random = Random(seed)
        self._seconds = seconds
        self._registries: list[Judged] = [
            kind.process(directory / str(number), bootstrap, TOPIC) for number in range(REGISTRIES)
        ]
        self._ask = kind.ask
        self._read = kind.read
        self._answered: list[tuple[str, int]] = []
        self._refused = 0
        self._faults: Counter[str] = Counter()
        self._is_over = False

    def run(self) -> Result:
        """Start all, disturb, settle, judge."""
        try:
            for registry in self._registries:
                registry.start()
            return asyncio.run(self._run())
        finally:
            for registry in self._registries:
                registry.kill()

    async def _run(self) -> Result:
        end_s = time.monotonic() + self._seconds
        async with asyncio.TaskGroup() as tasks:
            for number in range(CLIENTS):
                tasks.create_task(self._register(number))
            while time.monotonic() < end_s:
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                name, fault = self._random.choice(self._all_faults())
                self._faults[name] += 1
                await fault()
            await asyncio.to_thread(self.heal)
            self._is_over = True
        return await self._judge()

    # Clients.

    async def _register(self, number: int) -> None:
        count = 0
        choice = Random(number)
        while not self._is_over:
            kind = "shared" if count % 5 < SHARED else f"client {number}"
            await self._register_one(f"{kind} {count}", choice)
            count += 1

    async def _register_one(self, schema: str, choice: Random) -> None:
        """Ask any registry, then the one that it names, until there is an id."""
        ports = [registry.port for registry in self._registries]
        port = choice.choice(ports)
        while not self._is_over:
            try:
                answer = await self._ask(port, {"register": schema})
            except (OSError, TimeoutError, ValueError):
                answer = {}
            if "id" in answer:
                self._answered.append((schema, answer["id"]))
                return
            self._refused += 1
            named = answer.get("writer")
            port = int(named.rpartition(":")[2]) if named else choice.choice(ports)
            await asyncio.sleep(0.02)

    # Faults.

    @abstractmethod
    def broker_faults(self) -> list[Fault]:
        """What is done to brokers."""

    @abstractmethod
    def heal(self) -> None:
        """Undo what may be left of faults of brokers."""

    @abstractmethod
    def stored(self) -> list[Stored]:
        """Keys and values of the topic, as they are committed."""

    def _all_faults(self) -> list[Fault]:
        return [
            ("registry killed", self._kill_registry),
            ("registry killed", self._kill_registry),
            ("registry stopped for seconds", self._stop_registry),
            ("registry ended", self._end_registry),
            *self.broker_faults(),
        ]

    def some(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    async def pause(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self._random.uniform(shortest_s, longest_s))

    async def _kill_registry(self) -> None:
        registry = self.some(self._registries)
        registry.kill()
        await asyncio.sleep(self._random.uniform(0, 2.5))
        await asyncio.to_thread(registry.start)

    async def _end_registry(self) -> None:
        registry = self.some(self._registries)
        await asyncio.to_thread(registry.stop)
        await asyncio.to_thread(registry.start)

    async def _stop_registry(self) -> None:
        """Past its session: it continues as a former writer."""
        process = self.some(self._registries)
        os.kill(process.pid, signal.SIGSTOP)
        await asyncio.sleep(self._random.uniform(0.5, 4))
        os.kill(process.pid, signal.SIGCONT)

    # The judgement.

    async def _judge(self) -> Result:
        states = await asyncio.gather(*map(self._state, self._registries))
        records = await asyncio.to_thread(self.stored)
        kinds = [json.loads(key or b"{}").get("keytype") for key, _ in records]
        values = [value for kind, (_, value) in zip(kinds, records, strict=True) if kind == "SCHEMA" and value]
        logged = [(self._read(value), json.loads(value)["id"]) for value in values]
        wrong = verdict(logged, self._answered, [one["ids"] for one in states], [one["digest"] for one in states])
        return Result(wrong, len(logged), len(self._answered), self._refused, kinds.count("NOOP"), self._faults)

    async def _state(self, registry: Judged) -> dict[str, Any]:
        """When all has settled: no record is under way any more."""
        deadline_s = time.monotonic() + SETTLED_S_MAX
        before: dict[str, Any] = {}
        while True:
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                found = await self._ask(registry.port, {"state": True})
                if found == before and "ids" in found:
                    return found
                before = found
            if time.monotonic() > deadline_s:
                raise AssertionError(f"registry {registry.port} has no state: {before or registry.tail()}")
            await asyncio.sleep(1.0)


class KitCampaign(Campaign):
    """With brokers of the kit."""

    def __init__(self, kafka: Kafka, directory: Path, seed: int, seconds: float, kind: Kind = NUMBERING) -> None:
        self._kafka = kafka
        super().__init__(kafka.bootstrap_servers, directory, seed, seconds, kind)

    def heal(self) -> None:
        self._kafka.end_test()

    def stored(self) -> list[Stored]:
        return [(record.key, record.value) for record in self._kafka.records(TOPIC)]

    def broker_faults(self) -> list[Fault]:
        return [
            ("broker killed", self._kill_broker),
            ("broker paused", self._pause_broker),
            ("brokers cut off", self._cut_broker),
            ("connections closed before an append", lambda: self._cut_connections(after=False)),
            ("connections closed after an append", lambda: self._cut_connections(after=True)),
            ("answers lost", self._lose_answers),
            ("members removed", self._remove_members),
        ]

    async def _kill_broker(self) -> None:
        broker = self.some(self._kafka.brokers)
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(self._random.uniform(0, 2))
        await asyncio.to_thread(broker.start)
        await asyncio.to_thread(self._wait_in_sync)

    async def _pause_broker(self) -> None:
        broker = self.some(self._kafka.brokers)
        await asyncio.to_thread(broker.pause, detected=self._random.random() < 0.5)
        await asyncio.sleep(self._random.uniform(0.2, 2))
        await asyncio.to_thread(broker.resume)
        await asyncio.to_thread(self._wait_in_sync)

    async def _cut_broker(self) -> None:
        broker = self.some(self._kafka.brokers)
        await asyncio.to_thread(broker.partition_from)
        await asyncio.sleep(self._random.uniform(0.2, 2))
        await asyncio.to_thread(broker.heal)
        await asyncio.to_thread(self._wait_in_sync)

    def _wait_in_sync(self) -> None:
        """So that one broker at a time is missing: with two, nothing is registered."""
        with contextlib.suppress(KitError):
            self._kafka.wait_for(lambda: len(self._kafka.in_sync(TOPIC)) == len(self._kafka.brokers), 20)

    async def _cut_connections(self, *, after: bool) -> None:
        rule = self._kafka.on("Produce", topic=TOPIC, times=self._random.randrange(1, 6))
        await asyncio.to_thread(rule.close_connection, after=after)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(rule.undo)

    async def _lose_answers(self) -> None:
        rule = self._kafka.on("Produce", topic=TOPIC, times=1)
        await asyncio.to_thread(rule.drop_answer)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(rule.undo)

    async def _remove_members(self) -> None:
        with contextlib.suppress(KitError):
            await asyncio.to_thread(self._kafka.expel, TOPIC)
