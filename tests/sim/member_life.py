"""The life of a member of a group, whichever protocol it speaks: a correct client, and the disturbances of clients.

It is a member until it is due to be disturbed: it falls silent for a while, vanishes without a word, leaves, or does
what its protocol has besides; a process that has ended starts again some time later. What ends a connection does not
disturb it further: it finds its coordinator again.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import random
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import TopicPartition
from tests.sim.broker_contact import BrokerContact
from tests.sim.brokers import Brokers
from tests.sim.client import Connection
from tests.sim.group_client import LifeRules, TryAgain
from tests.sim.group_history import GroupHistory, Unanswered
from tests.sim.offsets_client import OffsetsClient
from tests.sim.reading import Reading

GONE_CHANCE = 0.3
SILENCE = (0.4, 0.8)
PAUSES = (0.05, 0.5, 1.8)
"""In sessions."""


class MemberLife(abc.ABC):
    """One member; `run` returns at its end, and leaves no connection."""

    kinds: tuple[str, ...]
    """Its disturbances, each as often as it is named."""

    def __init__(self, name: str, brokers: Brokers, history: GroupHistory, rules: LifeRules, seed: int) -> None:
        self.member_id = ""
        self.connection: Connection | None = None
        self.is_gone = False
        """Vanished permanently."""
        self.group_id, self.topics = rules.group_id, rules.topics
        self._pace = rules.pace
        self._change_gap_s = rules.change_gap_s
        self._name = name
        self._brokers = brokers
        self._network = brokers.network
        self._loop = brokers.network.loop
        self._history = history
        self._random = random.Random(f"{name} {seed}")
        self._offsets = OffsetsClient(name, brokers.network, history, rules.group_id)
        self._contact = BrokerContact(self._loop, history)
        self.reading = Reading(name, rules.group_id, brokers, self._offsets, history)
        self._is_calm = False

    async def run(self, calm_from: float, until: float) -> None:
        """Run until `until` (loop time); without disturbances from `calm_from`."""
        next_change = self._next_change()
        while self._loop.time() < until and not self.is_gone:
            changes = min(next_change, calm_from)
            is_calm = changes >= calm_from
            if is_calm and await self._vanishes_for_good():
                break
            try:
                await self._live(until if is_calm else changes)
                if not is_calm:
                    await self._change(calm_from)
                    next_change = self._next_change()
            except (OSError, TryAgain, TimeoutError):
                self._leave_connection()
                await asyncio.sleep(self._pace.backoff_s * (0.5 + self._random.random()))
        self._leave_connection()

    # What protocols have of their own.

    @property
    @abc.abstractmethod
    def generation_id(self) -> int:
        """The generation, or the member epoch."""

    @property
    @abc.abstractmethod
    def assignment(self) -> frozenset[TopicPartition] | None:
        """None while it is no member."""

    @abc.abstractmethod
    async def _live(self, until: float) -> None:
        """Be a member until then. Raises OSError, TryAgain, TimeoutError when that cannot go on over this connection."""

    @abc.abstractmethod
    async def _leave(self) -> None:
        """Say that the process ends."""

    @abc.abstractmethod
    def _end_process(self) -> None:
        """Nothing of the process is known to the next."""

    @abc.abstractmethod
    def _may_vanish(self) -> bool:
        """Whether it is a member that the coordinator has to miss."""

    async def _disturb(self, kind: str, calm_from: float) -> None:
        """A disturbance that only this protocol has."""
        raise AssertionError(f"{self._name} has no disturbance {kind!r}")

    # Disturbances.

    async def _change(self, calm_from: float) -> None:
        kind = self._random.choice(self.kinds)
        self._network.trace.note(self._name, kind)
        if kind == "silent":
            await asyncio.sleep(self._random.uniform(*SILENCE) * self._pace.session_s)
        elif kind in ("vanish", "leave"):
            if kind == "leave":
                await self._leave()
            await self._start_again(calm_from, PAUSES)
        else:
            await self._disturb(kind, calm_from)

    async def _start_again(self, calm_from: float, pauses: tuple[float, ...]) -> None:
        """The process ends, and another one starts after one of the pauses."""
        self._leave_connection()
        self._end_process()
        pause = self._random.choice(pauses) * self._random.uniform(0.5, 1.0) * self._pace.session_s
        await asyncio.sleep(max(0.0, min(pause, calm_from - self._loop.time())))

    async def _vanishes_for_good(self) -> bool:
        """One last chance, when no other change follows that could hide it."""
        if not self._is_calm and self._may_vanish():
            self.is_gone = self._random.random() < GONE_CHANCE
        self._is_calm = True
        if self.is_gone:
            with contextlib.suppress(OSError, TryAgain, TimeoutError):
                await self._say_goodbye()
        return self.is_gone

    async def _say_goodbye(self) -> None:  # noqa: B027 - most processes end without a word.
        """What a process sends that is not started again: nothing."""

    def _next_change(self) -> float:
        return self._loop.time() + self._random.expovariate(1 / self._change_gap_s)

    # Connections.

    async def _coordinator(self) -> Connection:
        """The connection to the coordinator, a new one if need be."""
        if self.connection is None or not self.connection.is_open:
            self._leave_connection()
            self._contact.tries()
            self.connection = await self._brokers.coordinator(self._offsets, self._random)
        return self.connection

    async def _ask(self, connection: Connection, api_key: ApiKey, version: int, request: Any, patience_s: float) -> Any:
        self._contact.tries()
        began = self._loop.time()
        try:
            async with asyncio.timeout(patience_s):
                return await connection.request(api_key, version, request)
        except TimeoutError:
            socket = connection.socket.wire
            held_up = max(socket.inward.stalled_until, socket.outward.stalled_until, connection.asleep_until)
            if connection.is_open and not socket.inward.cut and held_up < began:
                waited = Unanswered(self.group_id, api_key.name, began, self._loop.time())
                self._history.unanswered.append(waited)
            raise

    def close(self) -> None:
        """Close what a cancelled `run` has left open."""
        self._leave_connection()

    def _leave_connection(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self._brokers.close()
