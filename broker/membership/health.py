"""How this broker is: its contact with the coordination store, and whether it serves.

While the coordination store is away nothing changes in a cluster, and Metadata says of all brokers what it said
before. So a broker that is asked for its contact reads from the store at that moment, and says what came of it:

    the store answers ─► cluster id, own registration, all registrations, controller ─► connected, lost, unregistered
    no answer in time, no connection, no session ─► silent

One reading is under way at a time, and all requests that come meanwhile share it: however often a client asks, the
store has one reading at a time to answer. A broker that serves while the store is away is serving all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from sordini.broker.membership.health_keys import (
    NONE,
    SERVING,
    STORE_BROKERS,
    STORE_CONTACT,
    STORE_CONTROLLER,
    YES,
    StoreFinding,
)
from sordini.broker.membership.store_contact import StoreContact
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.wiring.inter_broker import Myself
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import ConnectionLoss, CoordinationError, NoNode, SessionExpired
from sordini.replication.replica_set import ReplicaSet

PATIENCE_MS_MAX = 2_000
"""How long the store has to answer, at most: commands that ask a broker wait for it in turn."""
DIGITS_MAX = 10
"""Of a broker's id; a node with a longer name is no registration."""


class StoreReading(NamedTuple):
    """What one reading from the store came to. `brokers` and `controller` are known while the store answers."""

    contact: StoreFinding
    reason: str = ""
    brokers: tuple[int, ...] | None = None
    controller: int | None = None

    def __str__(self) -> str:
        return f"{self.contact.value}: {self.reason}" if self.reason else self.contact.value


class StoreProbe:
    """Reads from the coordination store what says whether this broker is in contact with its cluster."""

    def __init__(self, me: Myself, cluster_id: str, contact: StoreContact, session_timeout_ms: int) -> None:
        self.me = me
        self._contact = contact
        self._cluster_id = cluster_id
        self._patience_ms = min(session_timeout_ms // 2, PATIENCE_MS_MAX)
        self._under_way: asyncio.Future[StoreReading] | None = None

    async def read(self) -> StoreReading:
        """What a reading finds that began no earlier than the one under way; it takes PATIENCE_MS_MAX at most."""
        if self._under_way is not None:
            return await asyncio.shield(self._under_way)
        under_way = self._under_way = asyncio.get_running_loop().create_future()
        try:
            found = await self._read_in_time()
            under_way.set_result(found)
            return found
        finally:
            self._under_way = None
            under_way.cancel()

    async def _read_in_time(self) -> StoreReading:
        try:
            async with asyncio.timeout(self._patience_ms / 1000):
                return await self._read()
        except TimeoutError:
            reason = f"the store did not answer within {self._patience_ms} ms"
        except ConnectionLoss:
            reason = "there is no connection to the store"
        except SessionExpired:
            reason = "the session with the store has expired, and there is no new one yet"
        except CoordinationError as error:
            reason = f"the store failed ({error})"
        if self._contact.lost_tree:  # The store answers, in a session that is not the broker's yet.
            return StoreReading(StoreFinding.LOST, self._contact.lost_tree)
        silent_ms = self._contact.silent_ms
        return StoreReading(StoreFinding.SILENT, f"{reason}; silent for {silent_ms} ms" if silent_ms else reason)

    async def _read(self) -> StoreReading:
        session, me = self.me.session, self.me.broker_id
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
        brokers = tuple(
            sorted(int(name) for name in names if name.isascii() and name.isdecimal() and len(name) <= DIGITS_MAX)
        )
        controller = await self._controller()
        stat = await session.exists(paths.broker(me))
        if stat is None:
            reason = f"the store does not have broker {me} registered"
        elif stat.czxid != self.me.epoch():
            reason = f"the store has another registration of broker {me}"
        else:
            return StoreReading(StoreFinding.CONNECTED, "", brokers, controller)
        return StoreReading(StoreFinding.UNREGISTERED, reason, brokers, controller)

    async def _controller(self) -> int | None:
        try:
            data, _ = await self.me.session.get(paths.CONTROLLER)
        except NoNode:
            return None
        found = znodes.decode_controller(data)
        return None if isinstance(found, Malformed) else found


class BrokerHealth:
    """What this broker answers when it is asked how it is."""

    def __init__(
        self, probe: StoreProbe, metadata: MetadataCache, replicas: ReplicaSet, slices: SliceScheduler
    ) -> None:
        self._broker_id = probe.me.broker_id
        self._probe = probe
        self._metadata = metadata
        self._replicas = replicas
        self._slices = slices
        self.doing: Callable[[], str] = lambda: ""
        """What the broker is about, in words, while it does not serve: before it is ready and after."""

    async def values(self) -> dict[str, str | None]:
        """The value of each key of `health_keys`. Never raises because of the store."""
        word = await self._probe.read()
        reason = await self._why_not_serving(word)
        is_read = word.brokers is not None
        return {
            SERVING: f"no: {reason}" if reason else YES,
            STORE_CONTACT: str(word),
            STORE_BROKERS: None if word.brokers is None else ",".join(map(str, word.brokers)),
            STORE_CONTROLLER: (NONE if word.controller is None else str(word.controller)) if is_read else None,
        }

    async def _why_not_serving(self, word: StoreReading) -> str:
        """Empty for a broker that serves. Silence of the store is no reason: a restart would only do harm then."""
        if doing := self.doing():
            return doing
        if word.contact is StoreFinding.LOST:
            return word.reason
        if self._broker_id not in self._metadata.brokers:
            return "no metadata received from a controller yet"
        if self._metadata.controller_id < 0:
            return "this broker knows no controller"
        count, example = await self._not_led()
        if count:
            return f"{count} of the partitions that this broker should lead are not led, {example} among them"
        return ""

    async def _not_led(self) -> tuple[int, str]:
        """How many partitions this broker should lead and does not, and the name of one."""
        count, example = 0, ""
        topics = list(self._metadata.topics.items())
        async for name, topic in self._slices.paced(topics, steps_each=lambda item: 1 + len(item[1].partitions)):
            for index, known in topic.partitions.items():
                if known.leader == self._broker_id:
                    partition = self._replicas.get(name, index)
                    if partition is None or partition.leader is None:
                        count, example = count + 1, f"{name}-{index}"
        return count, example
