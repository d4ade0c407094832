"""How far the clocks of the other brokers are from this one's, by the timestamps of the registrations.

A registration holds the time of its broker's clock, and the store adds the time of its own when it creates the znode:

    skew = timestamp in the znode - creation time            the broker's clock against the store's, less the time
                                                             that the write took
    difference = skew of the other broker - own skew         the store's clock cancels out

So a slow write makes a clock seem behind, never ahead. The duration of this broker's own write is known, that of
another broker's is not. A clock that is behind by little more than a second is therefore reported by the broker that
is behind, which sees the others ahead, unless that broker is an Apache Kafka broker.

Each broker reads all registrations whenever one is created or deleted, and gives them to `on_read`, too. A clock that
changes while its broker runs is noticed at the broker's next registration.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from sordini.broker.cluster.identity import broker_id_of
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import CoordinationError, Logger, NoNode, Session, SessionState, WatchEvent
from sordini.system.named_tuple import NamedTuple

DIFFERENCE_MS_MAX: Final = 1_000
"""Larger differences are logged: timestamps of records, and retention by time, are off by as much."""
WRITE_MS_MAX: Final = 1_000
"""How long the write of another broker's registration is assumed to take at most."""


class ClockReading(NamedTuple):
    """One broker's registration: its epoch, and its clock against the store's."""

    broker_epoch: int
    skew_ms: int


class PeerClocks:
    """The clocks of all registered brokers. `run` updates `differences_ms` and logs warnings."""

    def __init__(self, session: Session, broker_id: BrokerId, log: Logger) -> None:
        self._session = session
        self._broker_id = broker_id
        self._log = log
        self._changed = asyncio.Event()
        self._changed.set()
        self._compared: dict[BrokerId, tuple[int, int]] = {}
        """The broker epochs, own and other, of the last comparison with each broker."""
        self.differences_ms: dict[BrokerId, int] = {}
        """By how much each other broker's clock is ahead of this one's."""
        self.write_ms = WRITE_MS_MAX
        """How long the write of this broker's own registration took."""
        self.on_read: Callable[[Sequence[Broker]], None] = lambda _: None
        """Called with all registrations that could be read and decoded, whenever one is created or deleted."""
        session.on_state(self._session_changed)

    async def run(self) -> None:
        """Read registrations whenever they change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(CoordinationError):
                await self._read()
            # After a failure the next connection of this session or the next session triggers a reading.

    async def _read(self) -> None:
        found: dict[BrokerId, ClockReading] = {}
        registered: list[Broker] = []
        for name in await self._session.children(paths.BROKER_IDS, watch=self._fired):
            broker = broker_id_of(name)
            if broker is None:
                continue
            try:
                data, stat = await self._session.get(paths.broker(broker))
            except NoNode:
                continue
            other = znodes.decode_broker(broker, data, stat.czxid)
            if not isinstance(other, Malformed):
                registered.append(other)
            written_ms = znodes.decode_registration_time(broker, data)
            if not isinstance(written_ms, Malformed):
                found[broker] = ClockReading(stat.czxid, written_ms - stat.created_ms)
        self._compare(found)
        self.on_read(registered)

    def _compare(self, found: dict[BrokerId, ClockReading]) -> None:
        own = found.pop(self._broker_id, None)
        if own is None:
            self.differences_ms = {}
            return
        self.differences_ms = {broker: other.skew_ms - own.skew_ms for broker, other in sorted(found.items())}
        for broker, difference_ms in self.differences_ms.items():
            epochs = own.broker_epoch, found[broker].broker_epoch
            if self._compared.get(broker) != epochs and self._is_apart(difference_ms):
                self._log.warning(
                    "clock of another broker differs from this one's",
                    broker=broker,
                    ahead_ms=difference_ms,
                    allowed_ms=DIFFERENCE_MS_MAX,
                )
            self._compared[broker] = epochs
        self._compared = {broker: epochs for broker, epochs in self._compared.items() if broker in found}

    def _is_apart(self, difference_ms: int) -> bool:
        """Whether the clocks are too far apart however long the two writes took."""
        return not -DIFFERENCE_MS_MAX - WRITE_MS_MAX <= difference_ms <= DIFFERENCE_MS_MAX + self.write_ms

    def _fired(self, _event: WatchEvent) -> None:
        self._changed.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._changed.set()
