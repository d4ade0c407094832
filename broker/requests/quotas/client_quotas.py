"""The quotas in force, which of them is a client's, and the meters of clients.

Of the quotas of one key the most specific one counts, in Apache Kafka's order (KIP-55):

    user and client id | user and any client id | user | any user and client id | any user, any client id | any user
    | client id | any client id

Quotas of a user alone are shared by its connections with all client ids, those of a client id alone by all users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sordini.broker.requests.quotas.entities import (
    CONNECTION_RATE,
    CONSUMER_RATE,
    DEFAULT,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
    entity_of,
    quotas_of,
)
from sordini.broker.requests.quotas.rates import RateWindows, TokenBucket, WindowedRate
from sordini.replication.cluster_model import Malformed
from sordini.replication.metadata_store.configs import read_config
from sordini.replication.ports import Logger, NoNode, Session
from sordini.system.named_tuple import NamedTuple

METERS_MAX: Final = 10_000
"""Meters of one broker, and clients whose meters are known. Client ids are chosen by peers: beyond this number the
oldest meter is dropped, and its client begins anew."""
_TREES: Final = ("users", "clients", "ips")


class Meter(NamedTuple):
    """A rate, and what it may be."""

    rate: WindowedRate
    bound: float
    """Units per second."""


class ClientMeters(NamedTuple):
    """The meters of one user with one client id; None where there is no quota."""

    produced: Meter | None
    """Bytes of Produce requests."""
    fetched: Meter | None
    """Bytes of responses to Fetch."""
    request_time: Meter | None
    """Hundredths of the time of one core."""


class Throttled:
    """Counters that the exporter reads."""

    def __init__(self) -> None:
        self.responses = 0
        self.milliseconds = 0


class ClientQuotas:
    """The quotas of all clients."""

    def __init__(self, windows: RateWindows, mutation_windows: RateWindows, log: Logger) -> None:
        """`mutation_windows` are those of controller mutations."""
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._log = log
        self._quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self._clients: dict[tuple[str, bytes], ClientMeters | None] = {}
        self._rates: dict[tuple[str, str, str], WindowedRate] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.throttled = Throttled()
        self.listeners: list[Callable[[], None]] = []
        """Called after each change."""

    async def load(self, session: Session) -> None:
        """Read all of them, and forget those of entities that are gone. Raises CoordinationError."""
        before = dict(self._quotas)
        found = await _paths(session)
        for path in found:
            settings = await read_config(session, path)
            if isinstance(settings, Malformed):
                self._log.error("unreadable quotas", path=settings.path, reason=settings.reason)
                continue
            self.changed(path, settings)
        present = set(map(entity_of, found))
        for entity, quotas in before.items():
            # An entity that was given quotas again meanwhile has others by now.
            if entity not in present and self._quotas.get(entity) is quotas:
                self.changed(entity.path, {})

    def changed(self, path: str, settings: Mapping[str, str]) -> None:
        """An entity's settings are these now. Entities of other kinds are passed over."""
        entity = entity_of(path)
        if entity is None:
            return
        found, unreadable = quotas_of(entity, settings)
        for key in unreadable:
            self._log.error("unreadable quota ignored", entity=path, key=key)
        if found:
            self._quotas[entity] = found
        elif self._quotas.pop(entity, None) is None:
            return
        self._clients.clear()
        for listener in self.listeners:
            listener()

    def all(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Every entity with its quotas."""
        return self._quotas

    @property
    def limits_clients(self) -> bool:
        """Whether any client may have a quota of bytes or of request time."""
        keys = {PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE}
        return any(keys & quotas.keys() for quotas in self._quotas.values())

    def meters(self, user: str, client_id: bytes) -> ClientMeters | None:
        """The meters of a client; None without any quota."""
        key = user, client_id
        try:
            return self._clients[key]
        except KeyError:
            pass
        client = client_id.decode(errors="replace")
        found = ClientMeters(
            *(self._meter(user, client, name) for name in (PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE))
        )
        _make_room(self._clients)
        self._clients[key] = None if found == (None, None, None) else found
        return self._clients[key]

    def mutation_bucket(self, user: str, client: str, now_ms: int) -> TokenBucket | None:
        """What a client may still create, in partitions; None without a quota."""
        found = self._resolve(user, client, MUTATION_RATE)
        if found is None:
            return None
        bound, owner = found
        bucket = self._buckets.get(owner)
        if bucket is None:
            _make_room(self._buckets)
            bucket = self._buckets[owner] = TokenBucket(bound, self._mutation_windows, now_ms)
        bucket.limit(bound, self._mutation_windows)
        return bucket

    def connection_rate(self, address: str) -> float | None:
        """How many connections of an address are accepted per second; None without a quota."""
        for name in (address, DEFAULT):
            bound = self._quotas.get(QuotaEntity(address=name), {}).get(CONNECTION_RATE)
            if bound is not None:
                return bound
        return None

    def _meter(self, user: str, client: str, key: str) -> Meter | None:
        found = self._resolve(user, client, key)
        if found is None:
            return None
        bound, owner = found
        name = (key, *owner)
        rate = self._rates.get(name)
        if rate is None:
            _make_room(self._rates)
            rate = self._rates[name] = WindowedRate(self._windows)
        return Meter(rate, bound)

    def _resolve(self, user: str, client: str, key: str) -> tuple[float, tuple[str, str]] | None:
        """The quota that counts, and whose meter it is: a user, a client id, or both."""
        both, of_user, of_client = (user, client), (user, ""), ("", client)
        for entity, owner in (
            (QuotaEntity(user, client), both),
            (QuotaEntity(user, DEFAULT), both),
            (QuotaEntity(user), of_user),
            (QuotaEntity(DEFAULT, client), both),
            (QuotaEntity(DEFAULT, DEFAULT), both),
            (QuotaEntity(DEFAULT), of_user),
            (QuotaEntity(client=client), of_client),
            (QuotaEntity(client=DEFAULT), of_client),
        ):
            bound = self._quotas.get(entity, {}).get(key)
            if bound is not None:
                return bound, owner
        return None


def _make_room(table: dict[Any, Any]) -> None:
    if len(table) >= METERS_MAX:
        del table[next(iter(table))]


async def _paths(session: Session) -> list[str]:
    """Every entity that may have quotas."""
    found = []
    for tree in _TREES:
        for name in await _children(session, f"/config/{tree}"):
            found.append(f"{tree}/{name}")
            if tree == "users":
                clients = await _children(session, f"/config/users/{name}/clients")
                found += [f"users/{name}/clients/{client}" for client in clients]
    return found


async def _children(session: Session, path: str) -> list[str]:
    try:
        return list(await session.children(path))
    except NoNode:
        return []
