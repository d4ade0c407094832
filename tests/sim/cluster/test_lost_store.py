"""One production broker, alone on the simulated ensemble, that loses its connection or its session at each call in turn.

A run has every third call, and `make parts` all (`tests/support/parts.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from sordini.broker.administration.client_quotas_handler import ANY
from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.resources import ResourceKind
from sordini.broker.network.tls_handshakes import LoopWorker
from sordini.broker.security.sasl.first_user import FirstUser
from sordini.broker.wiring.server import Server
from sordini.broker.wiring.startup import ServerPorts, StartRefused
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, FilterComponent
from sordini.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest
from sordini.protocol.types import BrokerId
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.acl_model import (
    AclEntry,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from sordini.replication.metadata_store.acls import encode_entries, path_of
from sordini.replication.ports import Create, Delete
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.simulated_disk import SimDisk, SimPageCache
from sordini.testing.simulation.trace import Trace, TraceLog
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop, run
from tests.sim.client import Connection
from tests.sim.cluster import secured
from tests.sim.cluster.node import ENTRIES, PORT, SESSION_TIMEOUT_MS
from tests.support.fake_zookeeper import SimZk
from tests.support.fake_zookeeper_session import SimZkStore
from tests.support.inline_cleaner import CleaningHere
from tests.support.inline_record_jobs import RecordsHere
from tests.support.parts import PART, every

HOST = "node1"
LISTENER = f"PLAINTEXT://{HOST}:{PORT}"
SETTINGS = {
    "broker.id": "1",
    "listeners": LISTENER,
    "advertised.listeners": LISTENER,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUOTA = znodes.encode_config({"producer_byte_rate": "1000"})
ENTRY = AclEntry("User:alice", "*", AclOperation.READ, Permission.ALLOW)
TREE = {
    "/config/users/alice": QUOTA,
    "/config/users/alice/clients/app": QUOTA,
    "/config/clients/app": QUOTA,
    "/config/ips/10.0.0.1": znodes.encode_config({"connection_creation_rate": "10"}),
    "/config/groups/billing": znodes.encode_config({"consumer.session.timeout.ms": "50000"}),
    path_of(ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)): encode_entries([ENTRY]),
}
"""What is read at a start, entity by entity."""
REGISTRATION = paths.broker(BrokerId(1))
PATIENCE_S = 60.0
STEP = 3


class LosingZk(SimZk):
    """Calls `lose` once, as the call of that number arrives; `is_late`: after it has taken effect."""

    calls = 0
    losing_call = 0
    is_late = False

    def serve(self, session_id: int, connection: int, work: Any, answer: Callable[[Any], None]) -> None:
        self.calls += work is not None
        is_lost = work is not None and self.calls == self.losing_call
        if is_lost and not self.is_late:
            self.lose(session_id)
        super().serve(session_id, connection, work, answer)
        if is_lost and self.is_late:
            self.lose(session_id)

    def lose(self, session_id: int) -> None:
        """Lose nothing; subclasses lose the connection or the session."""


class DroppingZk(LosingZk):
    """Loses the connection."""

    def lose(self, session_id: int) -> None:
        self.drop(HOST)


class ExpiringZk(LosingZk):
    """Loses the session."""

    def lose(self, session_id: int) -> None:
        self.expire(session_id)


class Life:
    """A broker with an empty disk: `start` and `stop` it, or let it register again."""

    def __init__(self, losing: type[LosingZk] = LosingZk, *, is_late: bool = False) -> None:
        self.loop = SimLoop(1)
        clock, trace = SimClock(self.loop), Trace(self.loop)
        self.zk = losing(self.loop, clock, trace, 1)
        self.zk.is_late = is_late
        for path, data in TREE.items():
            above = [Create(each) for each in paths.parents(path) if self.zk.tree.stat(each) is None]
            self.zk.write([*above, Create(path, data)])
        process = self.loop.process(f"{HOST}.1")
        disk = SimDisk(self.loop, trace, 1, process)
        self.network = ClusterNetwork(self.loop, trace)
        ports = ServerPorts(
            clock=clock,
            randomness=random.Random(1),
            disk=disk,
            network=self.network,
            page_cache=SimPageCache(disk, 1),
            open_store=self._open_store,
            worker=CleaningHere(disk),
            record_worker=RecordsHere(),
            handshake_worker=lambda _: LoopWorker(),
        )
        first_user = FirstUser("admin", "secret", "", lambda _: None)
        entries = ENTRIES | SETTINGS
        self._server = Server(build_config(entries)[0], frozenset(entries), ports, TraceLog(trace), first_user)
        self._process = process
        self._stop = asyncio.Event()

    async def _open_store(self) -> SimZkStore:
        return SimZkStore(self.zk, HOST, SESSION_TIMEOUT_MS / 1000)

    async def start(self) -> asyncio.Task[None]:
        """Returns once the broker is ready or has ended."""
        ready = asyncio.Event()
        life = self._process.spawn(self._server.run(self._stop, ready.set))
        serving = asyncio.ensure_future(ready.wait())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([life, serving], return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        return life

    async def stop(self, life: asyncio.Task[None]) -> None:
        """Returns once the broker has ended. Raises what it ended with."""
        self._stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await life

    async def users(self) -> list[str]:
        """Those that have credentials."""
        found = await self._ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest())
        return [row.user for row in found.results]

    async def quotas(self) -> list[tuple[str | None, str | None]]:
        """The users and client ids that have quotas."""
        user, client = (FilterComponent(entity_type=kind, match_type=ANY) for kind in ("user", "client-id"))
        found = []
        for components in ([user], [user, client], [client]):
            request = DescribeClientQuotasRequest(components=components, strict=True)
            answer = await self._ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
            for entry in answer.entries:
                parts = {part.entity_type: part.entity_name for part in entry.entity}
                found.append((parts.get("user"), parts.get("client-id")))
        return found

    async def groups(self) -> list[str]:
        """Those that have settings."""
        request = ListConfigResourcesRequest(resource_types=[ResourceKind.GROUP])
        answer = await self._ask(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
        return [row.resource_name for row in answer.config_resources]

    async def _ask(self, api_key: ApiKey, version: int, request: object) -> Any:
        connection = await Connection.open(self.network, (HOST, PORT), "admin")
        try:
            return await connection.request(api_key, version, request)
        finally:
            connection.close()

    def owner(self) -> int:
        """The session of the broker's registration; 0 without one."""
        stat = self.zk.tree.stat(REGISTRATION)
        return 0 if stat is None else stat.ephemeral_owner

    async def registered_again(self, life: asyncio.Task[None], former: int) -> None:
        """Returns once the broker is registered in another session than the former one, or has ended."""
        written = asyncio.Event()
        self.zk.on_write = written.set
        life.add_done_callback(lambda _: written.set())
        async with asyncio.timeout(PATIENCE_S):
            while not life.done() and self.owner() in (0, former):
                written.clear()
                await written.wait()


def refusal_of(losing: type[LosingZk], call: int, *, is_late: bool) -> tuple[str | None, int]:
    """Why a start is refused that loses the store at that call, or None; and how many calls the start makes."""
    life = Life(losing, is_late=is_late)
    life.zk.losing_call = call

    async def story() -> tuple[str | None, int]:
        running = await life.start()
        calls = life.zk.calls
        try:
            await life.stop(running)
        except StartRefused as refusal:
            return str(refusal), calls
        return None, calls

    return run(life.loop, story())


LOSSES = pytest.mark.parametrize("losing", [DroppingZk, ExpiringZk])
TIMES = pytest.mark.parametrize("is_late", [False, True], ids=["before it takes effect", "after"])


@LOSSES
@TIMES
def test_a_start_that_loses_the_store_at_any_call_is_refused_with_that_reason_or_waits(
    losing: type[LosingZk], *, is_late: bool
):
    refusal, calls = refusal_of(losing, 0, is_late=is_late)
    assert refusal is None
    struck = every(STEP, range(1, calls + 1))
    outcomes = {call: refusal_of(losing, call, is_late=is_late)[0] for call in struck}
    refused = {call: outcome for call, outcome in outcomes.items() if outcome is not None}
    assert all("the connection to the coordination store was lost" in reason for reason in refused.values()), refused
    assert 10 < len(refused) * (1 if PART == "all" else STEP) < calls - 5, refused.keys()


@LOSSES
@TIMES
def test_a_broker_whose_session_ended_registers_again_at_whatever_call_it_loses_the_store_once_more(
    losing: type[LosingZk], *, is_late: bool
):
    def calls_of_renewal(losing_call: int) -> int:
        life = Life(losing, is_late=is_late)

        async def story() -> int:
            running = await life.start()
            before, former = life.zk.calls, life.owner()
            life.zk.losing_call = before + losing_call if losing_call else 0
            life.zk.expire(former)
            await life.registered_again(running, former)
            await asyncio.sleep(2 * SESSION_TIMEOUT_MS / 1000)
            assert not running.done()
            assert life.owner() not in (0, former)
            calls = life.zk.calls - before
            await life.stop(running)
            return calls

        calls = run(life.loop, story())
        assert not life.loop.stray
        return calls

    for call in every(STEP, range(1, calls_of_renewal(0) + 1)):
        calls_of_renewal(call)


def test_settings_that_changed_between_two_sessions_are_in_force_after_the_next_registration():
    """Their notifications may have been deleted."""
    life = Life()
    credential = znodes.encode_config({secured.MECHANISM: secured.credential("bob").text})
    life.zk.write([Create("/config/users/bob", credential)])

    async def story() -> None:
        running = await life.start()
        former = life.owner()
        assert await life.users() == ["admin", "bob"]
        assert await life.quotas() == [("alice", None), ("alice", "app"), (None, "app")]
        assert await life.groups() == ["billing"]
        life.zk.expire(former)
        gone = (
            "/config/users/bob",
            "/config/users/alice/clients/app",
            "/config/clients/app",
            "/config/groups/billing",
        )
        new = {"clients/other": QUOTA, "users/carol": credential, "groups/shipping": TREE["/config/groups/billing"]}
        life.zk.write([*map(Delete, gone), *(Create(paths.config(path), data) for path, data in new.items())])
        await life.registered_again(running, former)
        await asyncio.sleep(SESSION_TIMEOUT_MS / 1000)
        assert await life.users() == ["admin", "carol"]
        assert await life.quotas() == [("alice", None), (None, "other")]
        assert await life.groups() == ["shipping"]
        await life.stop(running)

    run(life.loop, story())
