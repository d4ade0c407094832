"""How far the clocks of the other brokers are from this one's, by what all wrote when they registered.

A registration holds the time of its broker's clock, and the store notes the time of its own when it creates the node:

    skew = timestamp in the node - time of its creation      the broker's clock against the store's, or less than
                                                             that by the time that the write took
    difference = skew of the other broker - own skew         the store's clock cancels out

So a write that took long makes a clock look behind, and never ahead. How long this broker's own took is known; of
another's it is not. A clock that is behind by little more than a second is therefore told of by the broker that is
behind, which sees the others ahead, unless that one is an Apache Kafka.

Each broker reads all registrations whenever one comes or goes. A clock that is set right, or goes wrong, while its
broker runs shows with its next registration.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple

from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import CoordinationError, Log, NoNode, Session, SessionState, WatchEvent

DIFFERENCE_MS_MAX: Final = 1_000
"""Clocks that are further apart are worth a warning: timestamps of records, and retention by them, are off by that."""
WRITE_MS_MAX: Final = 1_000
"""How long another broker's registration may have taken to be written, where that is not known."""
DIGITS_MAX: Final = 10
"""Of a broker's id; a node with a longer name is no registration."""


class Registered(NamedTuple):
    """One broker's registration: its epoch, and its clock against the store's."""

    broker_epoch: int
    skew_ms: int


class PeerClocks:
    """The clocks of all registered brokers. `run` keeps `differences_ms` up to date, and warns."""

    def __init__(self, session: Session, broker_id: BrokerId, log: Log) -> None:
        self._session = session
        self._broker_id = broker_id
        self._log = log
        self._changed = asyncio.Event()
        self._changed.set()
        self._judged: dict[BrokerId, tuple[int, int]] = {}
        """The epochs, own and other, by which each broker's clock was judged last."""
        self.differences_ms: dict[BrokerId, int] = {}
        """By how much each other broker's clock is ahead of this one's."""
        self.write_ms = WRITE_MS_MAX
        """How long this broker's own registration took to be written."""
        session.on_state(self._session_changed)

    async def run(self) -> None:
        """Read registrations as they come and go, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(CoordinationError):
                await self._read()
            # After a failure the next session, or this one's next connection, says when to read again.

    async def _read(self) -> None:
        found: dict[BrokerId, Registered] = {}
        for name in await self._session.children(paths.BROKER_IDS, watch=self._fired):
            if not (name.isascii() and name.isdecimal() and len(name) <= DIGITS_MAX):
                continue
            broker = BrokerId(int(name))
            try:
                data, stat = await self._session.get(paths.broker(broker))
            except NoNode:
                continue
            written_ms = znodes.decode_registration_time(broker, data)
            if not isinstance(written_ms, Malformed):
                found[broker] = Registered(stat.czxid, written_ms - stat.created_ms)
        self._judge(found)

    def _judge(self, found: dict[BrokerId, Registered]) -> None:
        own = found.pop(self._broker_id, None)
        if own is None:
            self.differences_ms = {}
            return
        self.differences_ms = {broker: other.skew_ms - own.skew_ms for broker, other in sorted(found.items())}
        for broker, difference_ms in self.differences_ms.items():
            epochs = own.broker_epoch, found[broker].broker_epoch
            if self._judged.get(broker) != epochs and self._is_apart(difference_ms):
                self._log.warning(
                    "clock of another broker differs from this one's",
                    broker=broker,
                    ahead_ms=difference_ms,
                    allowed_ms=DIFFERENCE_MS_MAX,
                )
            self._judged[broker] = epochs
        self._judged = {broker: epochs for broker, epochs in self._judged.items() if broker in found}

    def _is_apart(self, difference_ms: int) -> bool:
        """Whether clocks are too far apart whatever the two writes took."""
        return not -DIFFERENCE_MS_MAX - WRITE_MS_MAX <= difference_ms <= DIFFERENCE_MS_MAX + self.write_ms

    def _fired(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._changed.set()
