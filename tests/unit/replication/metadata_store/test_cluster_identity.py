"""Which trees are the cluster's; no broker is elected in another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import Broker, BrokerEndpoint, CommandAnswer, Malformed
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.controller_election import CONTROLLER_EPOCH_RAISE
from sordini.replication.controller.policy import Policy
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.cluster_identity import mismatch, mismatch_reason, unknown_topics
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.ports import Check, NoNode
from tests.unit.replication.conftest import Brokers, Lines, StoppedClock

OURS, THEIRS = "0123456789abcdefghijkl", "lkjihgfedcba9876543210"
Settled = Callable[[Any], Awaitable[None]]


@pytest.mark.parametrize(
    ("found", "lacks_topics", "reason"),
    [
        (OURS, False, ""),
        (None, False, "it holds no cluster, /cluster/id is not there"),
        (None, True, "it holds no cluster, /cluster/id is not there"),
        (THEIRS, False, f"it holds cluster {THEIRS}"),
        (THEIRS, True, f"it holds cluster {THEIRS}"),
        (Malformed("/cluster/id", "not JSON"), False, "/cluster/id cannot be read: not JSON"),
        (OURS, True, "it holds the cluster's id and none of its topics"),
    ],
)
def test_a_tree_is_identified_by_its_id_and_its_topics(
    found: str | Malformed | None, lacks_topics: bool, reason: str
) -> None:
    assert mismatch_reason(OURS, found, lacks_topics=lacks_topics) == reason


async def set_id(session: EmbeddedSession, cluster_id: str = OURS) -> None:
    data = znodes.encode_cluster_id(cluster_id)
    if await session.exists(paths.CLUSTER_ID) is None:
        await session.create(paths.CLUSTER_ID, data)
    else:
        await session.set(paths.CLUSTER_ID, data)


async def test_a_tree_without_topics_is_another_one_for_a_broker_with_replicas(session: EmbeddedSession) -> None:
    await set_id(session)
    assert await mismatch(session, OURS) == ""
    assert "none of its topics" in await mismatch(session, OURS, holds_replicas=True)
    await session.create(paths.topic("orders"), b"")
    assert await mismatch(session, OURS, holds_replicas=True) == ""
    assert await unknown_topics(session, ["orders", "new", "new", "bills"]) == ["bills", "new"]


async def test_in_an_empty_store_all_topics_are_unknown(store: Any) -> None:
    assert await unknown_topics(await store.open_session(), ["orders"]) == ["orders"]


class Candidate:
    """Broker 1 in a store, with a controller that belongs to the cluster OURS."""

    def __init__(self, session: EmbeddedSession, settled: Settled) -> None:
        self.session, self.log, self.brokers, self._settled = session, Lines(), Brokers(), settled

    async def stand(self, epoch_min: int = 0) -> Controller:
        self.controller = Controller(
            self.session,
            BrokerId(1),
            self.brokers,
            StoppedClock(),
            self.log,
            topic_ids=lambda: TopicId(bytes(16)),
            policy=Policy(cluster_id=OURS, epoch_min=epoch_min),
        )
        await self.controller.start()
        await self.settled()
        return self.controller

    async def settled(self) -> None:
        await self._settled(self.controller)


@pytest.fixture
async def candidate(session: EmbeddedSession, settled: Settled) -> Any:
    candidate = Candidate(session, settled)
    yield candidate
    await candidate.controller.stop()


@pytest.mark.parametrize("other", [None, THEIRS])
async def test_no_broker_is_elected_in_another_tree_until_it_is_restored(
    candidate: Candidate, other: str | None
) -> None:
    session = candidate.session
    if other is not None:
        await set_id(session, other)
    controller = await candidate.stand()
    assert not controller.is_active
    assert candidate.log.events == ["no controller can be elected until this is repaired"]
    for path in (paths.CONTROLLER, paths.CONTROLLER_EPOCH, paths.FEATURE):
        assert await session.exists(path) is None
    await set_id(session)
    await candidate.settled()
    assert controller.is_active


async def test_a_controller_whose_tree_disappears_resigns_and_is_not_elected_in_the_rest(
    candidate: Candidate,
) -> None:
    session = candidate.session
    await set_id(session)
    assert (await candidate.stand()).is_active
    for path in (paths.CLUSTER_ID, paths.CONTROLLER_EPOCH, paths.CONTROLLER):
        await session.delete(path)
    await candidate.settled()
    assert not candidate.controller.is_active
    assert await session.exists(paths.CONTROLLER_EPOCH) is None
    await set_id(session)
    await candidate.settled()
    assert candidate.controller.is_active
    assert await session.get(paths.CONTROLLER_EPOCH) != b"1", "commands of the first epoch were obeyed"


async def test_a_tree_that_disappears_during_an_election_gets_no_controller(candidate: Candidate) -> None:
    session, multi = candidate.session, candidate.session.multi

    async def lose_first(operations: Any) -> Any:
        if await session.exists(paths.CLUSTER_ID) is not None:
            await session.delete(paths.CLUSTER_ID)
        return await multi(operations)

    await set_id(session)
    session.multi = lose_first  # type: ignore[method-assign]
    assert not (await candidate.stand()).is_active
    assert await session.exists(paths.CONTROLLER) is None


async def test_a_registration_is_created_only_while_its_conditions_hold(session: EmbeddedSession) -> None:
    broker = Broker(BrokerId(1), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
    registration = Registration(
        session, broker, StoppedClock(), Lines(), session_timeout_ms=1000, conditions=(Check(paths.CLUSTER_ID),)
    )
    with pytest.raises(NoNode):
        await registration.register()
    assert await session.children(paths.BROKER_IDS) == []
    await set_id(session)
    assert await registration.register() > 0


async def test_an_elected_controller_has_an_epoch_above_all_that_this_broker_has_obeyed(candidate: Candidate) -> None:
    await set_id(candidate.session)
    await candidate.session.create(paths.CONTROLLER_EPOCH, b"3")
    await candidate.stand(epoch_min=7)
    assert (await candidate.session.get(paths.CONTROLLER_EPOCH))[0] == b"8"


async def test_a_controller_epoch_that_a_broker_refuses_is_raised_above_it(candidate: Candidate) -> None:
    session, obeyed = candidate.session, 1_500

    def send(broker_id: BrokerId, command: Any, answered: Callable[[CommandAnswer], None]) -> None:
        stale = command.controller_epoch < obeyed
        answered(CommandAnswer(error=ErrorCode.STALE_CONTROLLER_EPOCH) if stale else CommandAnswer())

    candidate.brokers.send = send  # type: ignore[method-assign]
    await set_id(session)
    broker = Broker(BrokerId(1), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
    await session.create(paths.broker(broker.broker_id), znodes.encode_broker(broker, 0), ephemeral=True)
    controller = await candidate.stand()
    assert controller.is_active
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"%d" % (1 + 2 * (CONTROLLER_EPOCH_RAISE + 1))


async def test_a_broker_that_refuses_every_epoch_does_not_keep_elections_going(candidate: Candidate) -> None:
    session, refused = candidate.session, list[int]()

    def send(broker_id: BrokerId, command: Any, answered: Callable[[CommandAnswer], None]) -> None:
        refused.append(command.controller_epoch)
        answered(CommandAnswer(error=ErrorCode.STALE_CONTROLLER_EPOCH))

    candidate.brokers.send = send  # type: ignore[method-assign]
    await set_id(session)
    broker = Broker(BrokerId(1), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
    await session.create(paths.broker(broker.broker_id), znodes.encode_broker(broker, 0), ephemeral=True)
    assert (await candidate.stand()).is_active
    for _ in range(10):
        await candidate.settled()
    assert len(set(refused)) == 9
