"""Laws of reassignments: whoever dies when, a move ends as it was wanted, and no copy is deleted that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import Command, LeaderAndIsr, PartitionState, StopReplica, UpdateMetadata
from sordini.replication.controller.machine.events import IsrChange, IsrChangesWanted, MovesWanted, Write
from sordini.replication.metadata_store import paths
from tests.support.controller_machine_harness import World

ORDERS = TopicPartition("orders", 0)
BROKERS = (1, 2, 3, 4)
TARGETS = ((3, 1), (3, 4), (2, 1), (1,), (1, 2, 3), (4,))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


class Guarded(list[tuple[BrokerId, Command]]):
    """What was sent. Each copy that is to be deleted is looked for in the store at that very moment."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.deleted: set[int] = set()

    def append(self, sent: tuple[BrokerId, Command]) -> None:
        broker, command = sent
        for stopped in command.partitions if isinstance(command, StopReplica) else ():
            known = self.world.state(stopped.topic_partition)
            assert known is not None
            if stopped.delete and stopped.leader_epoch >= 0:
                assert broker not in known.state.isr, "a copy that counts as in sync is not deleted"
                assert known.state.isr, "somebody else has it all"
                self.deleted.add(broker)
        super().append(sent)


def a_world(replicas: Sequence[int] = (1, 2)) -> World:
    world = World()
    world.sent = Guarded(world)
    for broker in BROKERS:
        world.broker_comes(broker)
    world.topic_made("orders", {0: ids(*replicas)})
    world.elect()
    return world


def catch_up(world: World) -> None:
    """The leader finds all replicas that are alive in sync, and asks for that."""
    known, assignment = world.state(ORDERS), world.topics()["orders"]
    assert known is not None
    if world.cluster is None or known.state.leader is None:
        return
    alive = [replica for replica in assignment.replicas[0] if world.epoch_of(replica) >= 0]
    isr = tuple(dict.fromkeys((*known.state.isr, *alive)))
    change = IsrChange(0, isr, known.state.leader_epoch, known.version, topic="orders")
    world.feed(IsrChangesWanted(known.state.leader, world.epoch_of(known.state.leader), (change,)))


def die_at_write(world: World, which: int) -> None:
    """Another controller is elected just before this write, and none of the rest comes about."""
    left = iter(range(which))

    def usurp_once(_: Write) -> None:
        if next(left, None) is None:
            world.before_write = lambda _: None
            world.usurped()

    world.before_write = usurp_once


def assert_moved(world: World, target: Sequence[int]) -> None:
    assignment, known = world.topics()["orders"], world.state(ORDERS)
    assert known is not None
    assert (assignment.replicas, assignment.adding, assignment.removing) == ({0: tuple(target)}, {}, {})
    assert set(known.state.isr) == set(target)
    assert known.state.leader in target
    for broker in target:
        told = [
            info
            for receiver, command in world.sent
            if receiver == broker and isinstance(command, LeaderAndIsr)
            for info in command.partitions
        ]
        # An epoch that a broker knows is obeyed once, and as it was told first.
        last = next(info for info in told if info.state.leader_epoch == known.state.leader_epoch)
        assert (set(last.replicas), last.adding, last.removing) == (set(target), (), ())
        assert last.state.leader == known.state.leader


def writes_of(target: Sequence[int]) -> int:
    """How many writes a move is."""
    world = a_world()
    count = 0

    def counted(_: Write) -> None:
        nonlocal count
        count += 1

    world.before_write = counted
    world.feed(MovesWanted({ORDERS: ids(*target)}))
    catch_up(world)
    assert_moved(world, target)
    return count


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_move_ends_whatever_write_its_controller_dies_at(target: tuple[int, ...]) -> None:
    for which in range(1, writes_of(target)):  # At the first nothing is begun: nobody goes on with that.
        world = a_world()
        die_at_write(world, which)
        world.feed(MovesWanted({ORDERS: ids(*target)}))
        catch_up(world)
        assert world.cluster is None, "it was overtaken"
        world.elect(2)
        catch_up(world)
        assert_moved(world, target)
        assert world.sent.deleted >= {1, 2} - set(target)  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_reign_that_goes_on_after_a_broken_connection_ends_its_moves(target: tuple[int, ...]) -> None:
    world = a_world()
    world.feed(MovesWanted({ORDERS: ids(*target)}))
    world.reconnect()
    catch_up(world)
    assert_moved(world, target)


@pytest.mark.parametrize("wish", [(4, 1), (1, 4), (2,), None], ids=str)
def test_a_change_of_plans_comes_about_or_does_not_whatever_write_its_controller_dies_at(
    wish: tuple[int, ...] | None,
) -> None:
    outcomes = []
    for which in range(10):
        world = a_world()
        world.feed(MovesWanted({ORDERS: ids(3, 1)}))
        known = world.state(ORDERS)
        assert known is not None
        die_at_write(world, which)
        world.feed(MovesWanted({ORDERS: None if wish is None else ids(*wish)}))
        catch_up(world)
        world.elect(2)
        catch_up(world)
        reached = world.topics()["orders"].replicas[0]
        assert reached in ((3, 1), wish or (1, 2))
        assert_moved(world, reached)
        assert world.sent.deleted >= {1, 2, 3} - set(reached)  # type: ignore[attr-defined]
        outcomes.append(reached == (3, 1))
    assert outcomes == sorted(outcomes, reverse=True), "from the write that counts on it has come about"
    assert outcomes[0]
    assert not outcomes[-1]


def test_a_move_that_nobody_has_begun_is_not_gone_on_with() -> None:
    world = a_world()
    die_at_write(world, 0)
    world.feed(MovesWanted({ORDERS: ids(3)}))
    world.elect(2)
    catch_up(world)
    assert_moved(world, (1, 2))


def test_who_was_added_hears_of_it_even_if_another_wrote_the_state_meanwhile() -> None:
    world = a_world()
    shrunk = PartitionState(BrokerId(1), LeaderEpoch(0), ids(1), 1)

    def shrink(write: Write) -> None:
        if write.operation.path == paths.state(ORDERS):
            world.before_write = lambda _: None
            world.state_written(ORDERS, shrunk)

    world.before_write = shrink
    world.feed(MovesWanted({ORDERS: ids(3, 1)}))
    known = world.state(ORDERS)
    assert known is not None
    assert (known.state.leader_epoch, known.state.isr) == (1, (1,)), "an epoch of its own: equal ones are not obeyed"
    catch_up(world)
    assert_moved(world, (3, 1))


def test_a_topic_that_somebody_writes_at_the_end_of_a_move_is_written_again() -> None:
    world = a_world()
    world.feed(MovesWanted({ORDERS: ids(3, 1)}))
    moving = world.topics()["orders"]
    world.topic_set("orders", {**moving.replicas, 1: ids(1)}, moving.topic_id, adding={0: ids(3)}, removing={0: ids(2)})
    catch_up(world)
    assert world.topics()["orders"].removing == {0: (2,)}, "the end met what they wrote"
    world.look_at_topic("orders")
    ended = world.topics()["orders"]
    assert (ended.replicas, ended.adding, ended.removing) == ({0: (3, 1), 1: (1,)}, {}, {})


def test_who_made_room_for_another_target_is_back_when_that_could_not_be_written() -> None:
    world = a_world()
    world.feed(MovesWanted({ORDERS: ids(3, 1)}))
    moving = world.topics()["orders"]
    world.topic_set("orders", {**moving.replicas, 1: ids(1)}, moving.topic_id, adding={0: ids(3)}, removing={0: ids(2)})
    world.feed(MovesWanted({ORDERS: None}))
    assert world.topics()["orders"].adding == {0: (3,)}, "going back met what they wrote"
    receiver, command = next((b, c) for b, c in reversed(world.sent) if b == 3 and not isinstance(c, UpdateMetadata))
    assert isinstance(command, LeaderAndIsr), (receiver, command)
    catch_up(world)
    world.look_at_topic("orders")
    ended = world.topics()["orders"]
    assert (ended.replicas[0], ended.adding, ended.removing) == ((3, 1), {}, {})


def test_a_partition_that_never_had_a_state_goes_at_once_to_those_who_are_alive() -> None:
    world = a_world()
    world.topic_made("bills", {0: ids(8, 9)})
    world.look_at_topics()
    bills = TopicPartition("bills", 0)
    assert world.state(bills) is None
    world.feed(MovesWanted({bills: ids(3, 4)}))
    known = world.state(bills)
    assert known is not None
    assert (known.state.leader, known.state.isr) == (3, (3, 4))
    moved = world.topics()["bills"]
    assert (moved.replicas, moved.adding, moved.removing) == ({0: (3, 4)}, {}, {})


TARGET = st.permutations(BROKERS).flatmap(lambda order: st.integers(1, 3).map(lambda count: ids(*order[:count])))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("move"), TARGET),
        st.tuples(st.just("move"), st.none()),
        st.tuples(st.just("catch up"), st.none()),
        st.tuples(st.just("catch up"), st.none()),
        st.tuples(st.just("flip"), st.sampled_from(BROKERS)),
        st.tuples(st.just("shrink"), st.sampled_from(BROKERS)),
        st.tuples(st.just("die"), st.integers(0, 4)),
        st.tuples(st.just("elect"), st.sampled_from(BROKERS)),
        st.tuples(st.just("reconnect"), st.none()),
        st.tuples(st.just("refuse"), st.integers(0, 2)),
        st.tuples(st.just("hear"), st.none()),
        st.tuples(st.just("foreign write"), st.none()),
        st.tuples(st.just("note"), TARGET),
    ),
    max_size=25,
)


def carry_out(world: World, step: tuple[str, object]) -> None:
    match step:
        case "move", target if target is None or isinstance(target, tuple):
            world.feed(MovesWanted({ORDERS: target}))
        case "catch up", _:
            catch_up(world)
        case "flip", int(broker):
            is_there = world.epoch_of(broker) >= 0
            (world.broker_goes if is_there else world.broker_comes)(broker)
            world.look_at_brokers()
        case "shrink", int(broker):
            shrink_to_others(world, broker)
        case "die", int(which):
            die_at_write(world, which)
        case "elect", int(broker):
            world.elect(broker)
            world.look_at_noted_moves()
        case "reconnect", _ if world.cluster is not None:
            world.reconnect()
        case "refuse", int(count):
            left = iter(range(count))
            world.is_refused = lambda _: next(left, None) is not None
        case "hear", _:
            world.look_at_topic("orders")
        case "foreign write", _ if world.cluster is not None:
            # By somebody who knows nothing of moves. Only who reigns can tell what was lost by that, and lives on.
            world.before_write, world.is_refused = (lambda _: None), (lambda _: False)
            found = world.topics()["orders"]
            world.topic_set("orders", dict(found.replicas), found.topic_id)
            world.look_at_topic("orders")
        case "note", tuple(target):
            world.moves_noted({ORDERS: target})
            world.look_at_noted_moves()


def shrink_to_others(world: World, broker: int) -> None:
    """The leader finds that a follower has fallen behind."""
    known = world.state(ORDERS)
    if known is None or known.state.leader in (None, broker) or broker not in known.state.isr:
        return
    isr = tuple(replica for replica in known.state.isr if replica != broker)
    change = IsrChange(0, isr, known.state.leader_epoch, known.version, topic="orders")
    assert known.state.leader is not None
    world.feed(IsrChangesWanted(known.state.leader, world.epoch_of(known.state.leader), (change,)))


def assert_sound(world: World) -> None:
    known, assignment = world.state(ORDERS), world.topics()["orders"]
    assert known is not None
    assert known.state.isr
    assert known.state.leader is None or known.state.leader in known.state.isr
    if world.cluster is not None:
        held = world.cluster.topics["orders"].assignment
        assert set(known.state.isr) <= set(held.replicas[0])
        assert set(held.adding.get(0, ())) | set(held.removing.get(0, ())) <= set(held.replicas[0])
        assert held.end(0), "something stays"
    assert assignment.replicas[0]


@settings(max_examples=80, deadline=None)
@given(STEPS, TARGET)
def test_through_all_trouble_no_needed_copy_is_deleted_and_the_last_wish_is_fulfilled(
    steps: list[tuple[str, object]], last: tuple[BrokerId, ...]
) -> None:
    world = a_world()
    for step in steps:
        carry_out(world, step)
        assert_sound(world)
    # Peace: all brokers are there, a controller reigns, and hears of everything.
    world.before_write, world.is_refused = (lambda _: None), (lambda _: False)
    for broker in BROKERS:
        if world.epoch_of(broker) < 0:
            world.broker_comes(broker)
    world.elect(1)
    world.look_at_noted_moves()
    catch_up(world)
    world.look_at_topic("orders")
    world.feed(MovesWanted({ORDERS: last}))
    for _ in range(2):
        catch_up(world)
    assert_moved(world, last)
    assert world.tree.stat(paths.REASSIGN_PARTITIONS) is None, "the tool's node is done with"
    before = world.cluster
    world.said.clear()
    world.elect(2)
    assert before is not None
    assert world.cluster is not None
    assert replace(world.cluster, epoch=before.epoch, controller_id=before.controller_id) == before
    assert not any(line.startswith(("set", "create", "delete")) for line in world.said), world.said
