"""A tree that is not the cluster's is left as it is, on every store: at a start, by a candidate, by a registration."""

from __future__ import annotations

import asyncio

import pytest

from sordini.broker.cluster.identity import Owner
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.cluster.tree_guard import TreeGuard
from sordini.broker.configuration.config import build_config
from sordini.broker.wiring.startup import StartRefused, refuse_other_tree
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.policy import Policy
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import Registration, ensure_base_paths
from sordini.replication.ports import Check, NoNode, Session
from sordini.system.clock import SystemClock
from tests.contract.conftest import Store
from tests.contract.test_controller_on_stores import Obedient, Silent, begin

OURS, THEIRS = "0123456789abcdefghijkl", "lkjihgfedcba9876543210"
ME = BrokerId(1)


async def names(session: Session, path: str = "") -> set[str]:
    """All nodes of a tree."""
    found = set[str]()
    for name in await session.children(path or "/"):
        found |= {f"{path}/{name}"} | await names(session, f"{path}/{name}")
    return found


@pytest.mark.parametrize("there", [None, THEIRS])
async def test_nothing_is_written_into_another_tree(session: Session, there: str | None) -> None:
    if there is not None:
        await ensure_base_paths(session)
        await session.create(paths.CLUSTER_ID, znodes.encode_cluster_id(there))
    before = await names(session)
    config, _ = build_config({"zookeeper.connect": "h:2181/kafka"})
    said = "it holds no cluster" if there is None else f"it holds cluster {there}"
    with pytest.raises(StartRefused, match=rf"a/meta.properties belongs to cluster {OURS}, .*: {said}.* Wrong chroot"):
        await refuse_other_tree(config, Owner(OURS, "a"), session)
    controller = Controller(
        session,
        ME,
        Obedient(),
        SystemClock(),
        Silent(),
        topic_ids=lambda: TopicId(bytes(16)),
        policy=Policy(cluster_id=OURS),
    )
    await controller.start()
    assert not controller.is_active
    await controller.stop()
    if there is None:
        broker = Broker(ME, 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
        tree = (Check(paths.CLUSTER_ID),)
        with pytest.raises(NoNode):
            await Registration(
                session, broker, SystemClock(), Silent(), session_timeout_ms=6_000, conditions=tree
            ).register()
    assert await names(session) == before


async def test_a_registration_that_is_removed_by_another_is_noticed(store: Store, session: Session) -> None:
    await ensure_base_paths(session)
    await (await begin(session, ME, Obedient())).stop()
    contact = StoreContact(SystemClock(), asyncio.get_running_loop().call_later, Silent())
    guard = TreeGuard(OURS, ME, lambda: False, contact, SystemClock(), Silent(), session_timeout_ms=6_000)
    waiting = asyncio.ensure_future(guard.registration_lost(session, store))  # type: ignore[arg-type]
    await session.exists(paths.BROKER_IDS)
    assert not waiting.done()
    await (await store.open_session()).delete(paths.broker(ME))
    assert await asyncio.wait_for(waiting, 20) is None
