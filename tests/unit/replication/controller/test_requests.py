"""Requests and notifications of brokers to the active controller, over the embedded store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    ClusterSettings,
    KnownState,
    LeaderAndIsr,
    PartitionState,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.machine.events import IsrChange, IsrChangesRequested
from sordini.replication.controller.policy import Policy
from sordini.replication.controller.requests import ControllerRequests
from sordini.replication.metadata_store import log_dir_notifications, paths, topics, znodes
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import (
    Check,
    ConnectionLoss,
    CoordinationError,
    Create,
    SessionExpired,
    SessionState,
)

TOPIC_ID = TopicId(b"0123456789abcdef")
ORDERS = TopicPartition("orders", 0)
Settled = Callable[[Any], Awaitable[None]]


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def shrink(isr: tuple[BrokerId, ...], *, epoch: int = 0, version: int = 0) -> IsrChange:
    return IsrChange(0, isr, epoch, version, topic="orders")


def by_id(isr: tuple[BrokerId, ...], *, epoch: int = 0, version: int = 0) -> IsrChange:
    """A change as in AlterPartition from version 2 on."""
    return IsrChange(0, isr, epoch, version, topic_id=TOPIC_ID)


class ActiveController:
    """Brokers 1 to 3, the controller of broker 1, and one partition that 1 leads."""

    def __init__(self, store: EmbeddedStore, session: EmbeddedSession, brokers: Any, clock: Any, log: Any) -> None:
        self.store, self.session, self.brokers = store, session, brokers
        self.sessions: dict[int, EmbeddedSession] = {1: session}
        self.epochs: dict[int, int] = {}
        self._clock, self._log = clock, log
        self.controller: Controller | None = None
        self.requests = ControllerRequests(lambda: self.controller)

    async def register(self, broker_id: int) -> None:
        if broker_id not in self.sessions:
            self.sessions[broker_id] = await self.store.open_session()
        broker = Broker(BrokerId(broker_id), 0, (BrokerEndpoint("PLAINTEXT", "h", 9000 + broker_id),))
        registration = Registration(self.sessions[broker_id], broker, self._clock, self._log, session_timeout_ms=1000)
        self.epochs[broker_id] = await registration.register()

    async def start(self, cluster_settings: ClusterSettings = ClusterSettings(), **named: Any) -> Controller:  # noqa: B008 - a value.
        self.controller = Controller(
            self.session,
            BrokerId(1),
            self.brokers,
            self._clock,
            self._log,
            topic_ids=lambda: TOPIC_ID,
            policy=Policy(cluster_settings),
            **named,
        )
        await self.controller.start()
        return self.controller

    def request(self, broker_id: int, *changes: IsrChange) -> IsrChangesRequested:
        return IsrChangesRequested(BrokerId(broker_id), self.epochs[broker_id], changes)

    async def state(self) -> PartitionState:
        data, _ = await self.session.get(paths.state(ORDERS))
        state = znodes.decode_state(ORDERS, data)
        assert isinstance(state, PartitionState)
        return state

    async def write(self, state: PartitionState) -> None:
        """Write a state as another broker."""
        await self.session.set(paths.state(ORDERS), znodes.encode_state(state))


@pytest.fixture
async def active(
    store: EmbeddedStore, session: EmbeddedSession, brokers: Any, clock: Any, log: Any, settled: Settled
) -> AsyncIterator[ActiveController]:
    whole = ActiveController(store, session, brokers, clock, log)
    for broker_id in (1, 2, 3):
        await whole.register(broker_id)
    controller = await whole.start()
    await topics.create_topic(session, "orders", {0: ids(1, 2, 3)}, TOPIC_ID, {})
    await settled(controller)
    brokers.sent.clear()
    yield whole
    assert whole.controller is not None
    await whole.controller.stop()


async def code_of(question: Awaitable[object]) -> ErrorCode:
    with pytest.raises(BrokerError) as refused:
        await question
    return refused.value.code


async def test_an_accepted_isr_is_in_the_store_before_the_response(active: ActiveController) -> None:
    change = shrink(ids(1, 2))
    results = await active.requests.alter_partitions(active.request(1, change))
    state = await active.state()
    assert state == PartitionState(BrokerId(1), LeaderEpoch(0), ids(1, 2), 1)
    assert results == {change: KnownState(state, 1)}
    assert {broker for broker, command in active.brokers.sent if isinstance(command, UpdateMetadata)} == {1, 2, 3}
    assert not active.brokers.commands(LeaderAndIsr)


async def test_a_broker_that_is_not_the_controller_answers_so(active: ActiveController) -> None:
    without_controller = ControllerRequests(lambda: None)
    assert await code_of(without_controller.shut_down(BrokerId(1), None)) == ErrorCode.NOT_CONTROLLER
    assert active.controller is not None
    await active.controller.stop()
    request = active.request(1, shrink(ids(1)))
    assert await code_of(active.requests.alter_partitions(request)) == ErrorCode.NOT_CONTROLLER
    assert await code_of(active.requests.allocate_producer_ids(BrokerId(1), 0)) == ErrorCode.NOT_CONTROLLER


async def test_a_controller_that_was_replaced_unnoticed_accepts_nothing(active: ActiveController) -> None:
    _, stat = await active.session.get(paths.CONTROLLER_EPOCH)
    await active.session.set(paths.CONTROLLER_EPOCH, b"7", stat.version)
    request = active.request(1, shrink(ids(1)))
    assert await code_of(active.requests.alter_partitions(request)) == ErrorCode.NOT_CONTROLLER
    assert (await active.state()).isr == ids(1, 2, 3)


async def test_a_broker_of_another_incarnation_is_refused(active: ActiveController) -> None:
    for off in (-1, 1):
        stale = IsrChangesRequested(BrokerId(1), active.epochs[1] + off, (shrink(ids(1)),))
        assert await code_of(active.requests.alter_partitions(stale)) == ErrorCode.STALE_BROKER_EPOCH
    old = active.epochs[2] - 1
    assert await code_of(active.requests.shut_down(BrokerId(2), old)) == ErrorCode.STALE_BROKER_EPOCH
    assert await code_of(active.requests.allocate_producer_ids(BrokerId(2), old)) == ErrorCode.STALE_BROKER_EPOCH
    assert await code_of(active.requests.shut_down(BrokerId(9), None)) == ErrorCode.BROKER_NOT_AVAILABLE
    assert await code_of(active.requests.allocate_producer_ids(BrokerId(9), 0)) == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_a_state_of_another_writer_is_not_overwritten_by_a_request(
    active: ActiveController, settled: Settled
) -> None:
    await active.write(PartitionState(BrokerId(1), LeaderEpoch(0), ids(1, 3), 1))
    change = by_id(ids(1, 2))
    results = await active.requests.alter_partitions(active.request(1, change))
    assert results == {change: ErrorCode.INVALID_UPDATE_VERSION}
    assert await active.state() == PartitionState(BrokerId(1), LeaderEpoch(1), ids(1, 3), 1)
    assert {info.state.leader_epoch for c in active.brokers.commands(LeaderAndIsr) for info in c.partitions} == {1}


async def test_leaderships_are_transferred_before_a_broker_stops(active: ActiveController) -> None:
    assert await active.requests.shut_down(BrokerId(1), active.epochs[1]) == []
    assert await active.state() == PartitionState(BrokerId(2), LeaderEpoch(1), ids(2, 3), 1)
    change = by_id(ids(2, 3, 1), epoch=1, version=1)
    results = await active.requests.alter_partitions(active.request(2, change))
    assert results == {change: ErrorCode.INELIGIBLE_REPLICA}


async def test_a_leader_that_names_its_topic_and_adds_a_stopping_broker_gets_the_current_state(
    active: ActiveController,
) -> None:
    await active.requests.shut_down(BrokerId(1), active.epochs[1])
    in_force = KnownState(await active.state(), 1)
    active.brokers.sent.clear()
    change = shrink(ids(2, 3, 1), epoch=1, version=1)
    results = await active.requests.alter_partitions(active.request(2, change))
    assert results == {change: in_force}
    assert await active.state() == in_force.state
    assert active.brokers.sent == [], "no new leader epoch, nothing to notify brokers of"


async def test_partitions_that_only_a_stopping_broker_holds_remain_with_it(active: ActiveController) -> None:
    await active.requests.alter_partitions(active.request(1, shrink(ids(1))))
    assert await active.requests.shut_down(BrokerId(1), None) == [ORDERS]
    assert (await active.state()).leader == 1


async def test_no_partitions_remain_where_every_other_broker_is_shutting_down(active: ActiveController) -> None:
    await active.requests.alter_partitions(active.request(1, shrink(ids(1))))
    for other in sorted(active.epochs.keys() - {1}):
        await active.requests.shut_down(BrokerId(other), None)
        known = active.epochs.keys() - {1}
        remaining = await active.requests.shut_down(BrokerId(1), None)
        assert remaining == ([] if other == max(known) else [ORDERS])
    assert (await active.state()).leader == 1


async def test_a_stopping_follower_is_sent_a_stop_replica(active: ActiveController) -> None:
    assert await active.requests.shut_down(BrokerId(3), active.epochs[3]) == []
    ((receiver, stop),) = [(b, c) for b, c in active.brokers.sent if isinstance(c, StopReplica)]
    assert receiver == 3
    assert [(s.topic_partition, s.leader_epoch, s.delete) for s in stop.partitions] == [(ORDERS, 0, False)]
    assert await active.state() == PartitionState(BrokerId(1), LeaderEpoch(1), ids(1, 2), 1)
    assert 3 not in {broker for broker, command in active.brokers.sent if isinstance(command, LeaderAndIsr)}


async def test_a_controller_remembers_stopping_brokers_after_a_reconnect(
    active: ActiveController, log: Any, settled: Settled
) -> None:
    await active.requests.shut_down(BrokerId(3), active.epochs[3])
    save, failures = active.store._database.save, [OSError("the disk is full")]

    def fail_once(*args: Any) -> None:
        if failures and any(path.endswith("/state") for path, _ in args[0]):
            raise failures.pop()
        save(*args)

    active.store._database.save = fail_once  # type: ignore[method-assign]
    lost = active.request(1, shrink(ids(1), epoch=1, version=1))
    assert await code_of(active.requests.alter_partitions(lost)) == ErrorCode.NOT_CONTROLLER
    await log.line("still controller")
    assert active.controller is not None
    await settled(active.controller)
    change = by_id(ids(1, 2, 3), epoch=1, version=1)
    results = await active.requests.alter_partitions(active.request(1, change))
    assert results == {change: ErrorCode.INELIGIBLE_REPLICA}


async def test_no_two_brokers_get_the_same_producer_ids(active: ActiveController) -> None:
    first = await active.requests.allocate_producer_ids(BrokerId(2), active.epochs[2])
    taken = znodes.encode_producer_id_block(ProducerIdBlock(BrokerId(3), 1000, 2000))
    multi, between = active.session.multi, [taken]

    async def multi_late(operations: Any) -> Any:
        # A broker of an old protocol takes a block itself, between the controller's reading and its writing.
        if between and isinstance(operations[0], Check):
            await active.session.set(paths.PRODUCER_ID_BLOCK, between.pop())
        return await multi(operations)

    active.session.multi = multi_late  # type: ignore[method-assign]
    second = await active.requests.allocate_producer_ids(BrokerId(2), active.epochs[2])
    assert (first, second) == (ProducerIdBlock(BrokerId(2), 0, 1000), ProducerIdBlock(BrokerId(2), 2000, 3000))


@pytest.mark.parametrize("block", [b"{", znodes.encode_producer_id_block(ProducerIdBlock(BrokerId(1), 0, 2**63 - 1))])
async def test_no_producer_ids_are_allocated_without_a_readable_block_or_ids_left(
    active: ActiveController, block: bytes
) -> None:
    await active.session.set(paths.PRODUCER_ID_BLOCK, block)
    requested = active.requests.allocate_producer_ids(BrokerId(2), active.epochs[2])
    assert await code_of(requested) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await active.session.get(paths.PRODUCER_ID_BLOCK))[0] == block


async def test_a_state_written_by_its_leader_is_read_by_its_notification(
    active: ActiveController, settled: Settled
) -> None:
    await active.write(PartitionState(BrokerId(1), LeaderEpoch(0), ids(1, 3), 1))
    for data in (b"{not json", znodes.encode_isr_change([ORDERS])):
        await active.session.create(paths.ISR_CHANGE_PREFIX, data, sequential=True)
    assert active.controller is not None
    await settled(active.controller)
    assert [info.state.isr for c in active.brokers.commands(UpdateMetadata) for info in c.partitions] == [ids(1, 3)] * 3
    assert not active.brokers.commands(LeaderAndIsr)
    assert await active.session.children(paths.ISR_CHANGES) == []


async def test_a_broker_whose_log_directory_failed_is_surveyed(active: ActiveController, settled: Settled) -> None:
    await active.session.create(paths.LOG_DIR_EVENT_PREFIX, b"{}", sequential=True)
    await log_dir_notifications.notify_log_dir_failure(active.session, BrokerId(2))
    assert active.controller is not None
    await settled(active.controller)
    assert [b for b, command in active.brokers.sent if isinstance(command, LeaderAndIsr)] == [2]
    assert await active.session.children(paths.LOG_DIR_EVENTS) == []


class Flaky:
    """A session that fails twice, as a store does that is away for a while."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session
        self._failures: list[CoordinationError] = [ConnectionLoss("lost"), SessionExpired("over")]
        self.state = session.state

    async def create(self, path: str, data: bytes = b"", **named: bool) -> str:
        if self._failures:
            raise self._failures.pop()
        return await self._session.create(path, data, **named)


async def test_the_notification_of_a_failed_directory_waits_for_the_store(
    active: ActiveController, settled: Settled
) -> None:
    flaky: Any = Flaky(active.session)
    await log_dir_notifications.notify_log_dir_failure(flaky, BrokerId(2), retry_delay_s=0)
    assert active.controller is not None
    await settled(active.controller)
    assert [b for b, command in active.brokers.sent if isinstance(command, LeaderAndIsr)] == [2]
    closed = await active.store.open_session()
    await closed.close()
    await log_dir_notifications.notify_log_dir_failure(closed, BrokerId(2), retry_delay_s=0)


async def test_all_notifications_due_while_the_store_is_unavailable_share_one_task(
    active: ActiveController, settled: Settled
) -> None:
    flaky: Any = Flaky(active.session)
    spawned: list[Any] = []
    notifier = log_dir_notifications.LogDirFailureNotifier(flaky, BrokerId(2), spawned.append, retry_delay_s=0)
    for _ in range(10):
        notifier.notify()
    (task,) = spawned
    await task
    assert active.controller is not None
    await settled(active.controller)
    assert [b for b, command in active.brokers.sent if isinstance(command, LeaderAndIsr)] == [2]
    notifier.notify()
    assert len(spawned) == 2, "and another when one is due again"
    await spawned[1]


UNFIT = {
    "empty": b"",
    "truncated": b"{",
    "another listener": b'{"endpoints":["OTHER://h:1"],"listener_security_protocol_map":{"OTHER":"PLAINTEXT"}}',
    "a number for a protocol": b'{"endpoints":["PLAINTEXT://h:1"],"listener_security_protocol_map":{"PLAINTEXT":7}}',
    "no port": b'{"endpoints":["PLAINTEXT://h:99999"]}',
    "half a letter": b'{"endpoints":["PLAINTEXT://\\ud800:1"]}',
    "a long name": b'{"endpoints":["PLAINTEXT://' + b"h" * 40_000 + b':1"]}',
    "half a letter in the rack": b'{"endpoints":["PLAINTEXT://h:1"],"rack":"\\ud800"}',
    "no endpoints": b'{"endpoints":[]}',
}


@pytest.mark.parametrize("registration", UNFIT.values(), ids=UNFIT)
async def test_a_broker_without_the_inter_broker_listener_is_left_out_and_elections_continue(
    active: ActiveController, registration: bytes, log: Any, settled: Settled
) -> None:
    assert active.controller is not None
    await active.controller.stop()
    for name in ("9", "09", "4294967296", "99999999999999999999"):
        await active.session.create(f"{paths.BROKER_IDS}/{name}", registration, ephemeral=True)
    controller = await active.start(ClusterSettings(inter_broker_listener="PLAINTEXT"))
    assert controller.is_active
    await active.sessions[3].close()
    await settled(controller)
    assert sorted(active.brokers.alive) == [1, 2]
    assert (await active.state()).isr == ids(1, 2)
    assert {"unreadable node ignored", "broker ignored, it has no inter-broker listener"} & set(log.events)
    assert (await active.session.get(paths.CONTROLLER_EPOCH))[0] == b"2"


async def test_a_broker_whose_id_does_not_fit_the_wire_format_is_left_out(
    active: ActiveController, settled: Settled
) -> None:
    sound = znodes.encode_broker(Broker(BrokerId(9), 0, (BrokerEndpoint("PLAINTEXT", "h", 1),)), 0)
    for name in ("2147483648", "9" * 5_000, "nine", "-9", "٩"):
        await active.session.create(f"{paths.BROKER_IDS}/{name}", sound, ephemeral=True)
    assert active.controller is not None
    await settled(active.controller)
    assert sorted(active.brokers.alive) == [1, 2, 3]


async def test_in_a_pure_cluster_the_transaction_version_is_finalized_and_a_broker_without_it_left_out(
    active: ActiveController, settled: Settled, log: Any
) -> None:
    assert active.controller is not None
    await active.controller.stop()
    pure = Broker(BrokerId(9), 0, (BrokerEndpoint("PLAINTEXT", "h", 1),), is_exclusive=True)
    await active.session.create(f"{paths.BROKER_IDS}/9", znodes.encode_broker(pure, 0), ephemeral=True)
    controller = await active.start(ClusterSettings(is_exclusive=True))
    await settled(controller)
    assert sorted(active.brokers.alive) == [9]
    assert (await active.session.get(paths.FEATURE))[0] == znodes.encode_features(2, is_exclusive=True)
    assert "broker ignored, it differs in sordini.cluster.exclusive" in log.events
    await controller.stop()
    await settled(await active.start(ClusterSettings()))
    assert sorted(active.brokers.alive) == [1, 2, 3]
    assert (await active.session.get(paths.FEATURE))[0] == znodes.FEATURES


async def test_below_two_eight_topics_get_no_id_but_keep_one_that_they_have(
    active: ActiveController, settled: Settled
) -> None:
    assert active.controller is not None
    await active.controller.stop()
    await active.session.create(paths.topic("old"), b'{"version":2,"partitions":{"0":[2,1]}}')
    await active.start(ClusterSettings("PLAINTEXT", uses_topic_ids=False, feature_version=1))
    await topics.create_topic(active.session, "new", {0: ids(1)}, znodes.NO_TOPIC_ID, {})
    await settled(active.controller)
    assert (await active.session.get(paths.FEATURE))[0] == b'{"features":{},"version":1,"status":1}'
    for name, has_id in (("old", False), ("new", False), ("orders", True)):
        data, _ = await active.session.get(paths.topic(name))
        assert (b"topic_id" in data, b'"version":2' in data) == (has_id, not has_id)


async def test_a_feature_node_with_the_same_content_is_not_written(active: ActiveController) -> None:
    assert active.controller is not None
    await active.controller.stop()
    theirs = b'{"version": 2, "features": {}, "status": 1}'
    await active.session.set(paths.FEATURE, theirs)
    await active.start()
    assert (await active.session.get(paths.FEATURE))[0] == theirs


async def test_notifications_left_without_a_controller_are_deleted_and_later_ones_are_processed(
    active: ActiveController, settled: Settled
) -> None:
    assert active.controller is not None
    await active.controller.stop()
    await active.session.multi([Create(paths.ISR_CHANGE_PREFIX, b"{}", sequential=True)])
    await log_dir_notifications.notify_log_dir_failure(active.session, BrokerId(2))
    controller = await active.start()
    assert await active.session.children(paths.ISR_CHANGES) == await active.session.children(paths.LOG_DIR_EVENTS) == []
    await settled(controller)
    active.brokers.sent.clear()
    await active.write(PartitionState(BrokerId(1), LeaderEpoch(0), ids(1), 1))
    await active.session.create(paths.ISR_CHANGE_PREFIX, znodes.encode_isr_change([ORDERS]), sequential=True)
    await settled(controller)
    assert [info.state.isr for c in active.brokers.commands(UpdateMetadata) for info in c.partitions] == [ids(1)] * 3


class LosingSession:
    """A session whose connection can be lost: a call may have taken effect, and its response is lost."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session
        self.listeners: list[Callable[[SessionState], None]] = []
        self.loses_answers = False
        self.state = SessionState.CONNECTED
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def on_state(self, listener: Callable[[SessionState], None]) -> None:
        self.listeners.append(listener)

    async def multi(self, operations: Any) -> Any:
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLoss("no connection")
        self.calls.append("check" if all(isinstance(one, Check) for one in operations) else "write")
        done = await self._session.multi(operations)
        if self.loses_answers:
            self.change(SessionState.SUSPENDED)
            raise ConnectionLoss("the answer was lost")
        return done

    async def get(self, path: str, **named: Any) -> Any:
        if self.state is SessionState.SUSPENDED:
            raise ConnectionLoss("no connection")
        self.calls.append(f"get {path}")
        return await self._session.get(path, **named)

    def change(self, state: SessionState) -> None:
        self.state, self.loses_answers = state, False
        self.calls.clear()
        for listener in self.listeners:
            listener(state)


async def test_a_controller_that_lost_a_response_rejects_nothing_before_it_knows_what_was_written(
    active: ActiveController, settled: Settled
) -> None:
    """A leader that is refused believes its former in-sync set to be in force; the new one was written."""
    assert active.controller is not None
    await active.requests.alter_partitions(active.request(1, shrink(ids(1, 2))))
    await active.controller.stop()
    losing: Any = LosingSession(active.session)
    active.session = losing
    await active.start()
    grow = IsrChange(0, ids(1, 2, 3), 0, 1, topic="orders")
    losing.loses_answers = True
    assert await code_of(active.requests.alter_partitions(active.request(1, grow))) == ErrorCode.NOT_CONTROLLER
    # The leader repeats the request. Broker 3 may not join any more: on the former state it would be rejected.
    await active.sessions[3].close()
    again = asyncio.ensure_future(active.requests.alter_partitions(active.request(1, grow)))
    await asyncio.sleep(0)
    losing.change(SessionState.CONNECTED)
    ((_, result),) = (await again).items()
    assert result is ErrorCode.FENCED_LEADER_EPOCH
    await settled(active.controller)
    state = await active.state()
    assert (set(state.isr), state.leader_epoch) == (set(ids(1, 2)), 1), "an epoch of the controller's own began"
    read = [f"get {paths.state(ORDERS)}", "check"]
    assert [call for call in losing.calls if call in read][:2] == read[::-1], "a server that is behind catches up first"
