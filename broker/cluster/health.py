"""The health of this broker: its contact with the coordination store, and whether it serves.

While the coordination store is unreachable a cluster's metadata does not change, so Metadata does not show the
outage. Therefore a request for the health reads from the store:

    the store answers ─► cluster id, own registration, all registrations, controller ─► connected, lost, unregistered
    no answer in time, no connection, no session ─► silent

One reading is in flight at a time, and all requests that arrive meanwhile share it, so clients cannot load the store.
A broker that serves clients while the store is unreachable counts as serving.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from itertools import islice

from sordini.broker.cluster.health_keys import (
    NONE,
    SERVING,
    STORE_BROKERS,
    STORE_CONTACT,
    STORE_CONTROLLER,
    UNREACHED,
    YES,
    StoreFinding,
)
from sordini.broker.cluster.identity import LocalBroker, broker_id_of
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import ConnectionLoss, CoordinationError, NoNode, SessionExpired
from sordini.replication.replica_set import ReplicaSet
from sordini.system.named_tuple import NamedTuple

TIMEOUT_MS_MAX = 2_000
"""How long a reading may take: commands that request the health wait for it."""

UNREACHED_MAX = 10
"""Brokers whose reasons are listed; of more there is the number."""


class StoreReading(NamedTuple):
    """The result of one reading from the store. `brokers` and `controller` are known if the store answered."""

    contact: StoreFinding
    reason: str = ""
    brokers: tuple[int, ...] | None = None
    controller: int | None = None

    def __str__(self) -> str:
        return f"{self.contact.value}: {self.reason}" if self.reason else self.contact.value


class StoreProbe:
    """Reads from the coordination store what says whether this broker is in contact with its cluster."""

    def __init__(self, local: LocalBroker, cluster_id: str, contact: StoreContact, session_timeout_ms: int) -> None:
        self.local = local
        self._contact = contact
        self._cluster_id = cluster_id
        self._timeout_ms = min(session_timeout_ms // 2, TIMEOUT_MS_MAX)
        self._in_flight: asyncio.Future[StoreReading] | None = None

    async def read(self) -> StoreReading:
        """The result of the reading in flight, or of a new one; takes TIMEOUT_MS_MAX at most."""
        if self._in_flight is not None:
            return await asyncio.shield(self._in_flight)
        in_flight = self._in_flight = asyncio.get_running_loop().create_future()
        try:
            found = await self._read_in_time()
            in_flight.set_result(found)
            return found
        finally:
            self._in_flight = None
            in_flight.cancel()

    async def _read_in_time(self) -> StoreReading:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._read()
        except TimeoutError:
            reason = f"the store did not answer within {self._timeout_ms} ms"
        except ConnectionLoss:
            reason = "there is no connection to the store"
        except SessionExpired:
            reason = "the session with the store has expired, and there is no new one yet"
        except CoordinationError as error:
            reason = f"the store failed ({error})"
        if self._contact.lost_tree:  # The store answers, in a session in which this broker is not registered.
            return StoreReading(StoreFinding.LOST, self._contact.lost_tree)
        silent_ms = self._contact.silent_ms
        return StoreReading(StoreFinding.SILENT, f"{reason}; silent for {silent_ms} ms" if silent_ms else reason)

    async def _read(self) -> StoreReading:
        session, broker_id = self.local.session, self.local.broker_id
        try:
            found = znodes.decode_cluster_id((await session.get(paths.CLUSTER_ID))[0])
        except NoNode:
            return StoreReading(
                StoreFinding.LOST, f"the store has no cluster id, and this broker's is {self._cluster_id}"
            )
        if found != self._cluster_id:
            theirs = "a cluster id that cannot be read" if isinstance(found, Malformed) else f"cluster id {found}"
            return StoreReading(StoreFinding.LOST, f"the store has {theirs}, and this broker's is {self._cluster_id}")
        try:
            names = await session.children(paths.BROKER_IDS)
        except NoNode:
            return StoreReading(StoreFinding.LOST, f"the store has no {paths.BROKER_IDS}")
        brokers = tuple(sorted(broker for name in names if (broker := broker_id_of(name)) is not None))
        controller = await self._controller()
        stat = await session.exists(paths.broker(broker_id))
        if stat is None:
            reason = f"broker {broker_id} is not registered in the store"
        elif stat.czxid != self.local.epoch():
            reason = f"the store has another registration of broker {broker_id}"
        else:
            return StoreReading(StoreFinding.CONNECTED, "", brokers, controller)
        return StoreReading(StoreFinding.UNREGISTERED, reason, brokers, controller)

    async def _controller(self) -> int | None:
        try:
            data, _ = await self.local.session.get(paths.CONTROLLER)
        except NoNode:
            return None
        found = znodes.decode_controller(data)
        return None if isinstance(found, Malformed) else found


class BrokerHealth:
    """Answers requests for the health of this broker."""

    def __init__(
        self, probe: StoreProbe, metadata: MetadataCache, replicas: ReplicaSet, slices: SliceScheduler
    ) -> None:
        self._broker_id = probe.local.broker_id
        self._probe = probe
        self._metadata = metadata
        self._replicas = replicas
        self._slices = slices
        self.activity: Callable[[], str] = lambda: ""
        """What the broker does while it does not serve, before it is ready and while it stops; otherwise empty."""
        self.unreached: Mapping[BrokerId, str] = {}
        """Brokers that its commands do not reach, if it is the controller, and why."""

    async def values(self) -> dict[str, str | None]:
        """The value of each key of `health_keys`. Never raises because of the store."""
        reading = await self._probe.read()
        reason = await self._why_not_serving(reading)
        is_read = reading.brokers is not None
        return {
            SERVING: f"no: {reason}" if reason else YES,
            STORE_CONTACT: str(reading),
            STORE_BROKERS: None if reading.brokers is None else ",".join(map(str, reading.brokers)),
            UNREACHED: _listed(self.unreached.values()),
            STORE_CONTROLLER: (NONE if reading.controller is None else str(reading.controller)) if is_read else None,
        }

    async def _why_not_serving(self, reading: StoreReading) -> str:
        """Empty for a broker that serves. A silent store is no reason: a restart would not help."""
        if activity := self.activity():
            return activity
        if reading.contact is StoreFinding.LOST:
            return reading.reason
        if self._broker_id not in self._metadata.brokers:
            return "no metadata received from a controller yet"
        if self._metadata.controller_id < 0:
            return "this broker knows no controller"
        count, example = await self._not_led()
        if count:
            return f"{count} of the partitions that this broker should lead are not led, {example} among them"
        return ""

    async def _not_led(self) -> tuple[int, str]:
        """How many partitions this broker should lead and does not, and the name of one of them."""
        count, example = 0, ""
        topics = list(self._metadata.topics.items())
        async for name, topic in self._slices.paced(topics, steps_each=lambda item: 1 + len(item[1].partitions)):
            for index, known in topic.partitions.items():
                if known.leader == self._broker_id:
                    partition = self._replicas.get(name, index)
                    if partition is None or partition.leader is None:
                        count, example = count + 1, f"{name}-{index}"
        return count, example


def _listed(reasons: Collection[str]) -> str:
    more = f"; {len(reasons) - UNREACHED_MAX} more" if len(reasons) > UNREACHED_MAX else ""
    return "; ".join(islice(reasons, UNREACHED_MAX)) + more
