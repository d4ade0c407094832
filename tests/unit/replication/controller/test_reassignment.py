"""Reassignments under crashes at every write: they complete as requested, and no needed replica is deleted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import Command, LeaderAndIsr, PartitionState, StopReplica, UpdateMetadata
from sordini.replication.controller.machine.events import (
    IsrChange,
    IsrChangesRequested,
    ReassignmentsRequested,
    StoreWrite,
)
from sordini.replication.metadata_store import paths
from tests.support.controller_machine_harness import MachineHarness
from tests.support.parts import examples

ORDERS = TopicPartition("orders", 0)
BROKERS = (1, 2, 3, 4)
TARGETS = ((3, 1), (3, 4), (2, 1), (1,), (1, 2, 3), (4,))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


class Guarded(list[tuple[BrokerId, Command]]):
    """The commands sent. Every replica to be deleted is checked against the store at that moment."""

    def __init__(self, harness: MachineHarness) -> None:
        super().__init__()
        self.harness = harness
        self.deleted: set[int] = set()

    def append(self, sent: tuple[BrokerId, Command]) -> None:
        broker, command = sent
        for stopped in command.partitions if isinstance(command, StopReplica) else ():
            known = self.harness.state(stopped.topic_partition)
            assert known is not None
            if stopped.delete and stopped.leader_epoch >= 0:
                assert broker not in known.state.isr, "an in-sync replica is not deleted"
                assert known.state.isr, "another replica is in sync"
                self.deleted.add(broker)
        super().append(sent)


def a_world(replicas: Sequence[int] = (1, 2)) -> MachineHarness:
    harness = MachineHarness()
    harness.sent = Guarded(harness)
    for broker in BROKERS:
        harness.register_broker(broker)
    harness.create_topic("orders", {0: ids(*replicas)})
    harness.elect()
    return harness


def catch_up(harness: MachineHarness) -> None:
    """The leader requests an ISR of all live replicas."""
    known, assignment = harness.state(ORDERS), harness.topics()["orders"]
    assert known is not None
    if harness.cluster is None or known.state.leader is None:
        return
    live = [replica for replica in assignment.replicas[0] if harness.epoch_of(replica) >= 0]
    isr = tuple(dict.fromkeys((*known.state.isr, *live)))
    change = IsrChange(0, isr, known.state.leader_epoch, known.version, topic="orders")
    harness.feed(IsrChangesRequested(known.state.leader, harness.epoch_of(known.state.leader), (change,)))


def die_at_write(harness: MachineHarness, which: int) -> None:
    """Another controller is elected just before this write, and all following writes fail."""
    left = iter(range(which))

    def usurp_once(_: StoreWrite) -> None:
        if next(left, None) is None:
            harness.before_write = lambda _: None
            harness.elect_other_controller()

    harness.before_write = usurp_once


def assert_moved(harness: MachineHarness, target: Sequence[int]) -> None:
    assignment, known = harness.topics()["orders"], harness.state(ORDERS)
    assert known is not None
    assert (assignment.replicas, assignment.adding, assignment.removing) == ({0: tuple(target)}, {}, {})
    assert set(known.state.isr) == set(target)
    assert known.state.leader in target
    for broker in target:
        announced = [
            info
            for receiver, command in harness.sent
            if receiver == broker and isinstance(command, LeaderAndIsr)
            for info in command.partitions
        ]
        # A broker obeys the first command of an epoch only.
        last = next(info for info in announced if info.state.leader_epoch == known.state.leader_epoch)
        assert (set(last.replicas), last.adding, last.removing) == (set(target), (), ())
        assert last.state.leader == known.state.leader


def writes_of(target: Sequence[int]) -> int:
    """The number of writes of a reassignment."""
    harness = a_world()
    count = 0

    def counted(_: StoreWrite) -> None:
        nonlocal count
        count += 1

    harness.before_write = counted
    harness.feed(ReassignmentsRequested({ORDERS: ids(*target)}))
    catch_up(harness)
    assert_moved(harness, target)
    return count


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_reassignment_completes_whatever_write_its_controller_crashes_at(target: tuple[int, ...]) -> None:
    for which in range(1, writes_of(target)):  # A crash at the first write leaves nothing to continue.
        harness = a_world()
        die_at_write(harness, which)
        harness.feed(ReassignmentsRequested({ORDERS: ids(*target)}))
        catch_up(harness)
        assert harness.cluster is None, "it was overtaken"
        harness.elect(2)
        catch_up(harness)
        assert_moved(harness, target)
        assert harness.sent.deleted >= {1, 2} - set(target)  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_controller_completes_its_reassignments_after_a_reconnect(target: tuple[int, ...]) -> None:
    harness = a_world()
    harness.feed(ReassignmentsRequested({ORDERS: ids(*target)}))
    harness.reconnect()
    catch_up(harness)
    assert_moved(harness, target)


@pytest.mark.parametrize("new_target", [(4, 1), (1, 4), (2,), None], ids=str)
def test_a_new_target_is_reached_or_not_begun_whatever_write_its_controller_crashes_at(
    new_target: tuple[int, ...] | None,
) -> None:
    outcomes = []
    for which in range(10):
        harness = a_world()
        harness.feed(ReassignmentsRequested({ORDERS: ids(3, 1)}))
        known = harness.state(ORDERS)
        assert known is not None
        die_at_write(harness, which)
        harness.feed(ReassignmentsRequested({ORDERS: None if new_target is None else ids(*new_target)}))
        catch_up(harness)
        harness.elect(2)
        catch_up(harness)
        reached = harness.topics()["orders"].replicas[0]
        assert reached in ((3, 1), new_target or (1, 2))
        assert_moved(harness, reached)
        assert harness.sent.deleted >= {1, 2, 3} - set(reached)  # type: ignore[attr-defined]
        outcomes.append(reached == (3, 1))
    assert outcomes == sorted(outcomes, reverse=True), "from the write that counts on it has come about"
    assert outcomes[0]
    assert not outcomes[-1]


def test_a_reassignment_that_was_not_begun_is_not_continued() -> None:
    harness = a_world()
    die_at_write(harness, 0)
    harness.feed(ReassignmentsRequested({ORDERS: ids(3)}))
    harness.elect(2)
    catch_up(harness)
    assert_moved(harness, (1, 2))


def test_an_added_replica_is_commanded_even_if_another_writer_changed_the_state_meanwhile() -> None:
    harness = a_world()
    shrunk = PartitionState(BrokerId(1), LeaderEpoch(0), ids(1), 1)

    def shrink(write: StoreWrite) -> None:
        if write.operation.path == paths.state(ORDERS):
            harness.before_write = lambda _: None
            harness.write_state(ORDERS, shrunk)

    harness.before_write = shrink
    harness.feed(ReassignmentsRequested({ORDERS: ids(3, 1)}))
    known = harness.state(ORDERS)
    assert known is not None
    assert (known.state.leader_epoch, known.state.isr) == (1, (1,)), "an epoch of its own: equal ones are not obeyed"
    catch_up(harness)
    assert_moved(harness, (3, 1))


def test_a_topic_changed_at_the_end_of_a_reassignment_is_written_again() -> None:
    harness = a_world()
    harness.feed(ReassignmentsRequested({ORDERS: ids(3, 1)}))
    moving = harness.topics()["orders"]
    harness.write_topic(
        "orders", {**moving.replicas, 1: ids(1)}, moving.topic_id, adding={0: ids(3)}, removing={0: ids(2)}
    )
    catch_up(harness)
    assert harness.topics()["orders"].removing == {0: (2,)}, "the end met what they wrote"
    harness.read_topic("orders")
    ended = harness.topics()["orders"]
    assert (ended.replicas, ended.adding, ended.removing) == ({0: (3, 1), 1: (1,)}, {}, {})


def test_a_replica_dropped_for_a_new_target_returns_when_the_target_could_not_be_written() -> None:
    harness = a_world()
    harness.feed(ReassignmentsRequested({ORDERS: ids(3, 1)}))
    moving = harness.topics()["orders"]
    harness.write_topic(
        "orders", {**moving.replicas, 1: ids(1)}, moving.topic_id, adding={0: ids(3)}, removing={0: ids(2)}
    )
    harness.feed(ReassignmentsRequested({ORDERS: None}))
    assert harness.topics()["orders"].adding == {0: (3,)}, "going back met what they wrote"
    receiver, command = next((b, c) for b, c in reversed(harness.sent) if b == 3 and not isinstance(c, UpdateMetadata))
    assert isinstance(command, LeaderAndIsr), (receiver, command)
    catch_up(harness)
    harness.read_topic("orders")
    ended = harness.topics()["orders"]
    assert (ended.replicas[0], ended.adding, ended.removing) == ((3, 1), {}, {})


def test_a_partition_that_never_had_a_state_is_reassigned_at_once_to_live_brokers() -> None:
    harness = a_world()
    harness.create_topic("bills", {0: ids(8, 9)})
    harness.read_topics()
    bills = TopicPartition("bills", 0)
    assert harness.state(bills) is None
    harness.feed(ReassignmentsRequested({bills: ids(3, 4)}))
    known = harness.state(bills)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (3, (3, 4))
    moved = harness.topics()["bills"]
    assert (moved.replicas, moved.adding, moved.removing) == ({0: (3, 4)}, {}, {})


TARGET = st.permutations(BROKERS).flatmap(lambda order: st.integers(1, 3).map(lambda count: ids(*order[:count])))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reassign"), TARGET),
        st.tuples(st.just("reassign"), st.none()),
        st.tuples(st.just("catch up"), st.none()),
        st.tuples(st.just("catch up"), st.none()),
        st.tuples(st.just("flip"), st.sampled_from(BROKERS)),
        st.tuples(st.just("shrink"), st.sampled_from(BROKERS)),
        st.tuples(st.just("die"), st.integers(0, 4)),
        st.tuples(st.just("elect"), st.sampled_from(BROKERS)),
        st.tuples(st.just("reconnect"), st.none()),
        st.tuples(st.just("refuse"), st.integers(0, 2)),
        st.tuples(st.just("read"), st.none()),
        st.tuples(st.just("foreign write"), st.none()),
        st.tuples(st.just("zk node"), TARGET),
    ),
    max_size=25,
)


def carry_out(harness: MachineHarness, step: tuple[str, object]) -> None:
    match step:
        case "reassign", target if target is None or isinstance(target, tuple):
            harness.feed(ReassignmentsRequested({ORDERS: target}))
        case "catch up", _:
            catch_up(harness)
        case "flip", int(broker):
            is_there = harness.epoch_of(broker) >= 0
            (harness.fail_broker if is_there else harness.register_broker)(broker)
            harness.read_brokers()
        case "shrink", int(broker):
            shrink_to_others(harness, broker)
        case "die", int(which):
            die_at_write(harness, which)
        case "elect", int(broker):
            harness.elect(broker)
            harness.read_zk_reassignments()
        case "reconnect", _ if harness.cluster is not None:
            harness.reconnect()
        case "refuse", int(count):
            left = iter(range(count))
            harness.is_refused = lambda _: next(left, None) is not None
        case "read", _:
            harness.read_topic("orders")
        case "foreign write", _ if harness.cluster is not None:
            # By a tool that does not know reassignments. Only the active controller can restore what was overwritten.
            harness.before_write, harness.is_refused = (lambda _: None), (lambda _: False)
            found = harness.topics()["orders"]
            harness.write_topic("orders", dict(found.replicas), found.topic_id)
            harness.read_topic("orders")
        case "zk node", tuple(target):
            harness.write_zk_reassignments({ORDERS: target})
            harness.read_zk_reassignments()


def shrink_to_others(harness: MachineHarness, broker: int) -> None:
    """The leader finds that a follower has fallen behind."""
    known = harness.state(ORDERS)
    if known is None or known.state.leader in (None, broker) or broker not in known.state.isr:
        return
    isr = tuple(replica for replica in known.state.isr if replica != broker)
    change = IsrChange(0, isr, known.state.leader_epoch, known.version, topic="orders")
    assert known.state.leader is not None
    harness.feed(IsrChangesRequested(known.state.leader, harness.epoch_of(known.state.leader), (change,)))


def assert_sound(harness: MachineHarness) -> None:
    known, assignment = harness.state(ORDERS), harness.topics()["orders"]
    assert known is not None
    assert known.state.isr
    assert known.state.leader is None or known.state.leader in known.state.isr
    if harness.cluster is not None:
        held = harness.cluster.topics["orders"].assignment
        assert set(known.state.isr) <= set(held.replicas[0])
        assert set(held.adding.get(0, ())) | set(held.removing.get(0, ())) <= set(held.replicas[0])
        assert held.target_replicas(0), "something stays"
    assert assignment.replicas[0]


@settings(max_examples=examples(80), deadline=None)
@given(STEPS, TARGET)
def test_under_all_faults_no_needed_replica_is_deleted_and_the_last_target_is_reached(
    steps: list[tuple[str, object]], last: tuple[BrokerId, ...]
) -> None:
    harness = a_world()
    for step in steps:
        carry_out(harness, step)
        assert_sound(harness)
    # Quiescence: all brokers are registered, and an active controller processes all changes.
    harness.before_write, harness.is_refused = (lambda _: None), (lambda _: False)
    for broker in BROKERS:
        if harness.epoch_of(broker) < 0:
            harness.register_broker(broker)
    harness.elect(1)
    harness.read_zk_reassignments()
    catch_up(harness)
    harness.read_topic("orders")
    harness.feed(ReassignmentsRequested({ORDERS: last}))
    for _ in range(2):
        catch_up(harness)
    assert_moved(harness, last)
    assert harness.tree.stat(paths.REASSIGN_PARTITIONS) is None, "the tool's node is done with"
    before = harness.cluster
    harness.lines.clear()
    harness.elect(2)
    assert before is not None
    assert harness.cluster is not None
    assert harness.cluster._replace(epoch=before.epoch, controller_id=before.controller_id) == before
    assert not any(line.startswith(("set", "create", "delete")) for line in harness.lines), harness.lines
