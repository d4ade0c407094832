"""Transactional clients of a run: which process has which transactional id now, and what it is doing.

A process whose transactional id passes to another one is killed, or stopped and continued when its successor is at
work. Each process has a name of its own, which is that of the id and a number.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sordini.broker.coordinators.partitioning import partition_for
from tests.cluster.chaos.events import OPEN
from tests.cluster.chaos.world import PARTITIONS, ClientProcess, World

OPEN_SECONDS_MAX: Final = 3.0
"""For a transaction to be under way."""
BEGIN_SECONDS_MAX: Final = 10.0
"""For a successor to have begun."""
LOOK_SECONDS: Final = 0.01
_LAST_BYTES: Final = 100_000


class Held(NamedTuple):
    """Who has a transactional id: his number among those that had it, what he is, and what he was told."""

    number: int
    client: ClientProcess
    module: str
    partitions: Sequence[str]
    orders: dict[str, Any]


class Successions:
    """All transactional ids of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[str, Held] = {}

    @property
    def ids(self) -> list[str]:
        return sorted(self._held)

    def start(self, module: str, transactional_id: str, partitions: Sequence[str], **orders: Any) -> None:
        """The first process with this id."""
        self._start(1, module, transactional_id, partitions, orders)

    def kill(self, transactional_id: str) -> None:
        """SIGKILL, as it is."""
        held = self._held[transactional_id]
        held.client.kill()
        self._world.clients.pop(_key(held), None)

    def succeed(self, transactional_id: str) -> None:
        """Start the next process with this id."""
        held = self._held[transactional_id]
        self._start(held.number + 1, held.module, transactional_id, held.partitions, held.orders)

    def supersede(self, transactional_id: str) -> ClientProcess:
        """Stop the process with this id where it is, and start the next one; returns when that has begun.

        The former is returned. It is to be continued: it ends then.
        """
        held = self._held[transactional_id]
        os.kill(held.client.pid, signal.SIGSTOP)
        self._world.clients.pop(_key(held), None)
        self._world.ending.append(held.client)
        self.succeed(transactional_id)
        self._world.wait_for(lambda: "began" in self._kinds(transactional_id), BEGIN_SECONDS_MAX)
        held.client.terminate()  # It gets the signal when it is continued.
        return held.client

    def open_transaction(self, transactional_id: str) -> list[str]:
        """Wait until a transaction is under way, and return its partitions; none when there is none in time."""
        deadline = time.monotonic() + OPEN_SECONDS_MAX
        while time.monotonic() < deadline:
            last = _last(Path(self._held[transactional_id].client.orders.history))
            if last.get("state") == OPEN:
                return sorted({tp for tp, _, _ in last["recs"]})
            time.sleep(LOOK_SECONDS)
        return []

    def coordinator_of(self, transactional_id: str) -> str:
        """The partition whose leader coordinates its transactions."""
        return f"__transaction_state-{partition_for(transactional_id, PARTITIONS)}"

    def _start(
        self, number: int, module: str, transactional_id: str, partitions: Sequence[str], orders: dict[str, Any]
    ) -> None:
        name = f"{transactional_id}.{number}"
        client = self._world.start_client(module, name, partitions, transactional_id=transactional_id, **orders)
        self._held[transactional_id] = Held(number, client, module, partitions, orders)

    def _kinds(self, transactional_id: str) -> set[str]:
        """The kinds of the events that the present process has noted."""
        path = Path(self._held[transactional_id].client.orders.history)
        if not path.exists():
            return set()
        return {json.loads(line)["k"] for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")}


def _key(held: Held) -> str:
    return f"{held.module}-{held.client.name}"


def _last(path: Path) -> dict[str, Any]:
    """The last event of a history that is being written."""
    if not path.exists():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST_BYTES))
        lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    found: dict[str, Any] = json.loads(lines[-1]) if len(lines) > 1 else {}
    return found
