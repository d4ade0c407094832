"""Faults in the middle of a transaction: of its client, of its coordinator, of a leader that it writes to.

Each is a context that gives the line that says what was done.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.cluster.chaos.schedule import Kind
from tests.cluster.chaos.successions import Successions
from tests.cluster.chaos.world import BROKERS, World

CLIENTS: Final = "clients"


class TransactionFaults:
    """What can be done to the transactions of one world."""

    def __init__(self, world: World, successions: Successions) -> None:
        self._world = world
        self._successions = successions

    def ways(self) -> dict[Kind, Callable[[random.Random], AbstractContextManager[str]]]:
        return {
            Kind.KILL_IN_TRANSACTION: self._kill_client,
            Kind.SUPERSEDE: self._supersede,
            Kind.KILL_COORDINATOR: self._kill_coordinator,
            Kind.FREEZE_COORDINATOR: self._freeze_coordinator,
            Kind.KILL_OPEN_LEADER: self._kill_leader,
            Kind.LATE_END: self._late,
        }

    def _open(self, chance: random.Random) -> tuple[str, list[str], str]:
        """A transactional id, the partitions of its open transaction, and what is to be said about it."""
        chosen = chance.choice(self._successions.ids)
        tps = self._successions.open_transaction(chosen)
        return chosen, tps, f"{chosen} in a transaction on {', '.join(tps)}" if tps else f"{chosen} at rest"

    @contextmanager
    def _kill_client(self, chance: random.Random) -> Iterator[str]:
        chosen, _, what = self._open(chance)
        self._successions.kill(chosen)
        yield what
        self._successions.succeed(chosen)

    @contextmanager
    def _supersede(self, chance: random.Random) -> Iterator[str]:
        chosen, _, what = self._open(chance)
        former = self._successions.supersede(chosen)
        try:
            yield what
        finally:
            os.kill(former.pid, signal.SIGCONT)

    @contextmanager
    def _kill_coordinator(self, chance: random.Random) -> Iterator[str]:
        chosen, _, what = self._open(chance)
        hit = self._leader(self._successions.coordinator_of(chosen), chance)
        self._world.kill(hit)
        yield f"broker {hit}, {what}"
        self._world.revive()

    @contextmanager
    def _freeze_coordinator(self, chance: random.Random) -> Iterator[str]:
        chosen, _, what = self._open(chance)
        hit = self._leader(self._successions.coordinator_of(chosen), chance)
        process = self._world.brokers[hit].pid
        os.kill(process, signal.SIGSTOP)
        try:
            yield f"broker {hit}, {what}"
        finally:
            os.kill(process, signal.SIGCONT)

    @contextmanager
    def _kill_leader(self, chance: random.Random) -> Iterator[str]:
        _, tps, what = self._open(chance)
        tp = chance.choice(tps or self._world.partitions)
        hit = self._leader(tp, chance)
        self._world.kill(hit)
        yield f"broker {hit}, the leader of {tp}, {what}"
        self._world.revive()

    @contextmanager
    def _late(self, chance: random.Random) -> Iterator[str]:
        """For longer than a client waits: it connects and sends again, and both requests are served in the end."""
        chosen, _, what = self._open(chance)
        hit = str(self._leader(self._successions.coordinator_of(chosen), chance))
        held = chance.random() < 0.5
        self._world.network.cut(*((CLIENTS, hit) if held else (hit, CLIENTS)))
        yield f"{'requests to' if held else 'responses of'} broker {hit}, {what}"
        self._world.network.heal()

    def _leader(self, tp: str, chance: random.Random) -> int:
        """The leader of a partition; any broker when there is none."""
        state = self._world.state(tp)
        return chance.choice(BROKERS) if state is None or state.leader < 0 else state.leader
