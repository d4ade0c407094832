"""How a broker makes itself known: the common nodes, the cluster's id, and its own node in /brokers/ids.

The registration lives as long as the session. Its node's creation transaction is the *broker epoch*, by which others
tell this life of the broker from an earlier one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import Callable, Iterable

from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, Malformed
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import (
    Check,
    Clock,
    Create,
    Log,
    NodeExists,
    NoNode,
    Session,
    Set,
    Stat,
    StoreUnusable,
)


class RegistrationRefused(Exception):
    """The broker cannot be one of the cluster as it is set up; the text says why and what to do about it."""


class DuplicateBrokerId(RegistrationRefused):
    """Another living broker is registered under this id."""


class EndpointTaken(RegistrationRefused):
    """Another living broker is registered with an address of this one's."""


async def ensure_base_paths(session: Session) -> None:
    """Make the nodes that everybody expects to be there; silent about those that are."""
    made = await asyncio.gather(
        *(session.create(path, make_parents=True) for path in paths.BASE_PATHS), return_exceptions=True
    )
    for outcome in made:
        if isinstance(outcome, BaseException) and not isinstance(outcome, NodeExists):
            raise outcome


async def cluster_id(session: Session, random: Callable[[int], bytes] = os.urandom) -> str:
    """The cluster's 22-character id, drawn by whoever asks first. Raises StoreUnusable when the node is damaged."""
    drawn = base64.urlsafe_b64encode(random(16)).rstrip(b"=").decode()
    try:
        await session.create(paths.CLUSTER_ID, znodes.encode_cluster_id(drawn), make_parents=True)
    except NodeExists:
        data, _ = await session.get(paths.CLUSTER_ID)
        found = znodes.decode_cluster_id(data)
        if isinstance(found, Malformed):
            raise StoreUnusable(f"{found.path} holds no cluster id: {found.reason}") from None
        return found
    return drawn


async def other_brokers(session: Session, broker_id: BrokerId) -> list[Broker]:
    """All registered brokers but this one, by id. A registration that cannot be read is somebody's all the same."""
    found = []
    for name in await session.children(paths.BROKER_IDS):
        if not (name.isascii() and name.isdigit()) or int(name) == broker_id:
            continue
        other = BrokerId(int(name))
        try:
            data, stat = await session.get(paths.broker(other))
        except NoNode:
            continue
        broker = znodes.decode_broker(other, data, stat.czxid)
        found.append(Broker(other, stat.czxid, ()) if isinstance(broker, Malformed) else broker)
    return sorted(found, key=lambda broker: broker.broker_id)


def check_endpoints_free(broker: Broker, others: Iterable[Broker]) -> None:
    """Raise EndpointTaken when another broker tells clients an address that this one would tell them, too."""
    addresses = {(endpoint.host, endpoint.port) for endpoint in broker.endpoints}
    for other in others:
        for endpoint in other.endpoints:
            if (endpoint.host, endpoint.port) in addresses:
                raise EndpointTaken(
                    f"{endpoint.host}:{endpoint.port} is registered by broker {other.broker_id}: give this one "
                    "another address in listeners or advertised.listeners"
                )


class Registration:
    """One broker's node in /brokers/ids, for the life of one session. `broker.epoch` is not looked at."""

    def __init__(
        self,
        session: Session,
        broker: Broker,
        clock: Clock,
        log: Log,
        *,
        session_timeout_ms: int,
        conditions: tuple[Check, ...] = (),
    ) -> None:
        """`conditions` must hold when the node is made; one that does not raises NoNode or BadVersion."""
        self._session = session
        self._broker = broker
        self._clock = clock
        self._log = log
        self._conditions = conditions
        # A ZooKeeper ends sessions at its ticks, of which a timeout has two at the least.
        self._patience_ms = session_timeout_ms + session_timeout_ms // 2
        self.write_ms: int | None = None
        """How long the write of the node took, from the time that stands in it on; None when that is not known."""

    async def register(self) -> int:
        """Take the id; the broker epoch. A former life's node is waited for, until its session must have ended.

        Raises DuplicateBrokerId when another broker holds the id longer than that.
        """
        path = paths.broker(self._broker.broker_id)
        deadline_ms = self._clock.monotonic_ms() + self._patience_ms
        while True:
            gone = asyncio.Event()
            found = await self._session.exists(path, watch=lambda _, gone=gone: gone.set())  # type: ignore[misc]
            if found is None:
                epoch = await self._take(path)
                if epoch is not None:
                    return epoch
            elif found.ephemeral_owner == self._session.session_id:
                return found.czxid  # Our own, made by a call whose answer was lost.
            else:
                await self._wait(gone, deadline_ms)

    async def _take(self, path: str) -> int | None:
        # Created empty and set in one transaction, so a living broker's node has version 1, as Apache Kafka's has.
        data, began_ms = znodes.encode_broker(self._broker, self._clock.now_ms()), self._clock.monotonic_ms()
        try:
            _, stat, *_ = await self._session.multi(
                [Create(path, b"", ephemeral=True), Set(path, data, 0), *self._conditions]
            )
        except NodeExists:
            return None
        assert isinstance(stat, Stat), stat
        self.write_ms = self._clock.monotonic_ms() - began_ms
        return stat.czxid

    async def _wait(self, gone: asyncio.Event, deadline_ms: int) -> None:
        """Until the node has gone, or may have gone unnoticed."""
        remaining_ms = deadline_ms - self._clock.monotonic_ms()
        broker_id = self._broker.broker_id
        if remaining_ms <= 0:
            raise DuplicateBrokerId(
                f"broker id {broker_id} is registered by another live broker; give this one another broker.id"
            )
        self._log.info("broker id is taken, waiting for its session to end", broker=broker_id, ms=remaining_ms)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone.wait(), remaining_ms / 1000)
