"""The kinds of store under contract, each test with an empty tree of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from sordini.client.tls.contexts import TlsMaterial, client_context
from sordini.client.tls.stores import pem_trust_store
from sordini.coordination_store.embedded import EmbeddedStore, StoreThread
from sordini.coordination_store.zookeeper_access import OPEN, DigestLogin, ZooKeeperAccess
from sordini.replication.ports import Session, SessionState
from sordini.system.clock import SystemClock
from tests.outside.java import SecureZooKeeperProcess
from tests.support.certificates import PASSWORD, Authority
from tests.support.fake_zookeeper import SimZk
from tests.support.fake_zookeeper_session import SimZkStore

_chroots = itertools.count()


class Store:
    """One kind of store under test."""

    def __init__(
        self, open_session: Callable[[], Awaitable[Session]], expire: Callable[[Any], Awaitable[None]]
    ) -> None:
        self.open_session = open_session
        self.expire = expire


class Unwritten:
    """Notes that no test reads."""

    def note(self, *fields: object) -> None:
        del fields


@pytest.fixture(scope="session")
def secure_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeperProcess]:
    """A ZooKeeper with TLS, its authority's certificate beside it as `ca.pem`."""
    directory = tmp_path_factory.mktemp("secure-zookeeper")
    authority = Authority()
    authority.pem_file(directory / "ca.pem")
    stores = (
        authority.issue("zookeeper").pkcs12_file(directory / "zookeeper.p12"),
        authority.pkcs12_file(directory / "ca.p12"),
    )
    with SecureZooKeeperProcess(directory, *stores, PASSWORD) as process:
        yield process


def secured(process: SecureZooKeeperProcess) -> ZooKeeperAccess:
    """TLS, a login, and access control lists."""
    trust = pem_trust_store((process.directory / "ca.pem").read_text())
    context = client_context(TlsMaterial(("TLSv1.2", "TLSv1.3"), (), None, trust), checks_host=True)
    return ZooKeeperAccess(context, DigestLogin("broker", "secret"), sets_acl=True)


@pytest.fixture(params=["embedded", "simulated", "zookeeper", "zookeeper-tls"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Store]:
    if request.param == "embedded":
        worker = StoreThread("test")
        embedded = await EmbeddedStore.open(str(tmp_path / "store.db"), worker.offload, SystemClock())
        yield Store(embedded.open_session, lambda session: session.expire())
        await embedded.close()
        worker.close()
        return
    if request.param == "simulated":
        simulated = SimZk(asyncio.get_running_loop(), SystemClock(), Unwritten())
        opened = SimZkStore(simulated, "host", timeout_s=60)
        yield Store(opened.open_session, lambda session: _expire_in_simulation(simulated, session))
        await opened.close()
        return
    from sordini.coordination_store.zookeeper import ZooKeeperStore

    chroot, access = f"/contract/{next(_chroots)}", OPEN
    if request.param == "zookeeper":
        connect = address = request.getfixturevalue("zookeeper")
    else:
        process: SecureZooKeeperProcess = request.getfixturevalue("secure_zookeeper")
        connect, address, access = process.secure_connect, process.connect, secured(process)
    ensemble = ZooKeeperStore(f"{connect}{chroot}", access, session_timeout_ms=6_000, connection_timeout_ms=20_000)
    making = await ensemble.open_session()
    await making.create("/made", make_parents=True)  # And with it the chroot.
    await making.delete("/made")
    await making.close()
    yield Store(ensemble.open_session, lambda session: expire_in_zookeeper(address, session))
    await ensemble.close()


async def _expire_in_simulation(ensemble: SimZk, session: Any) -> None:
    expired = asyncio.Event()
    session.on_state(lambda state: expired.set() if state is SessionState.EXPIRED else None)
    ensemble.expire(session.session_id)
    await expired.wait()


async def expire_in_zookeeper(address: str, session: Any) -> None:
    """Take the session over from another connection and close it there: its first owner finds it expired."""
    from kazoo.client import KazooClient

    expired = asyncio.Event()
    session.on_state(lambda state: expired.set() if state is SessionState.EXPIRED else None)
    double = KazooClient(address, client_id=session._client.client_id)
    await asyncio.to_thread(double.start)
    await asyncio.to_thread(double.stop)
    double.close()
    await asyncio.wait_for(expired.wait(), 20)


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.open_session()
