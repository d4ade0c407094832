"""The controller's machine alone, in a cluster of the size that is only met on paper: time and memory of each event.

There is neither a store nor a network: every write is granted at once, and commands are counted and dropped. So what
is seen is what deciding costs, all steps that follow from one event included. The machine is pure, so each step is
taken twice from the same cluster: once for its time, once with every allocation traced for the most it holds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.sides import Say
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    ClusterState,
    KnownState,
    PartitionState,
    TopicAssignment,
    frozen,
)
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.replication.controller.machine.events import (
    Action,
    BrokersChanged,
    DeletionsListed,
    Done,
    Elected,
    ElectionsRequested,
    Event,
    IsrChange,
    IsrChangesRequested,
    Outcome,
    ReassignmentsRequested,
    Send,
    ShutdownRequested,
    StoreWrite,
    TopicsListed,
    WriteAll,
    WritesDone,
)
from sordini.replication.controller.machine.machine import step
from sordini.replication.ports import Set
from sordini.replication.replica_placement import place_from, without_racks

PART = "controller"
PARTITIONS_PER_TOPIC = 100
REPLICAS = 3
HEAD = (
    "| event | s | memory at most, MiB | writes | commands | partitions named |\n| --- | --: | --: | --: | --: | --: |"
)


class Size(NamedTuple):
    brokers: int
    partitions: int


PAPER = Size(1_000, 200_000)
QUICK = Size(10, 1_000)


class Cost(NamedTuple):
    """What one event cost, with all that followed; memory_bytes: the most that was held beyond the cluster before."""

    seconds: float
    memory_bytes: int
    writes: int
    commands: int
    partitions_named: int
    """Partitions named by all commands together."""


class Machine:
    """The machine with a store that grants everything."""

    def __init__(self) -> None:
        self.cluster: ClusterState | None = None

    def feed(self, *given: Event) -> Cost:
        """Take events and all that follows from them."""
        events = deque(given)
        seconds, memory, writes, commands, partitions_named = 0.0, 0, 0, 0, 0
        while events:
            next_event = events.popleft()
            memory = max(memory, _traced(self.cluster, next_event))
            gc.collect()
            began = time.perf_counter()
            after, actions = step(self.cluster, next_event)
            seconds += time.perf_counter() - began
            self.cluster = after
            for action in actions:
                if isinstance(action, WriteAll):
                    writes += len(action.writes)
                    events.append(WritesDone(tuple((write, _granted(write)) for write in action.writes)))
                elif isinstance(action, Send):
                    commands += 1
                    partitions_named += len(getattr(action.command, "partitions", ()))
        return Cost(seconds, memory, writes, commands, partitions_named)

    def known(self) -> ClusterState:
        assert self.cluster is not None, "no controller has been elected yet"
        return self.cluster


def rows(size: Size, say: Say) -> list[str]:
    """The table's lines."""
    say(f"{size.brokers} brokers, {size.partitions} partitions")
    found = [HEAD]
    for name, cost in costs(size):
        say(f"{name}: {cost.seconds:.3f} s")
        found.append(row_of(name, cost))
    return found


def row_of(name: str, cost: Cost) -> str:
    memory = cost.memory_bytes / 2**20
    counts = (cost.writes, cost.commands, cost.partitions_named)
    return f"| {name} | {cost.seconds:.4f} | {memory:,.1f} | " + " | ".join(f"{one:,}" for one in counts) + " |"


def note(size: Size) -> str:
    return (
        f"{size.brokers:,} brokers, {size.partitions:,} partitions in topics of {PARTITIONS_PER_TOPIC}, {REPLICAS} "
        f"replicas each. Again: `make bench ARGS='--only {PART} --write'`."
    )


def costs(size: Size) -> Iterator[tuple[str, Cost]]:
    """One event after the other, each on the cluster that the one before has left."""
    machine = Machine()
    brokers = {BrokerId(number): _broker(number, number) for number in range(size.brokers)}
    elected = _elected(brokers, size.partitions // PARTITIONS_PER_TOPIC)
    gc.collect()
    gc.freeze()  # Each step has two collections, which need not go through what the process held before.
    yield "elected: everything is sent to all brokers", machine.feed(elected)
    for name, make in _happenings(brokers):
        yield name, machine.feed(*make(machine.known()))


def _happenings(brokers: dict[BrokerId, Broker]) -> list[tuple[str, Callable[[ClusterState], list[Event]]]]:
    lost = BrokerId(len(brokers) // 2)
    others = {broker_id: broker for broker_id, broker in brokers.items() if broker_id != lost}
    again = {**others, lost: _broker(lost, 10 * len(brokers))}
    leaving = BrokerId(lost + 1)
    fresh = _topic("fresh", len(brokers), 7)
    return [
        ("AlterPartition of one partition", lambda cluster: [_shrink(cluster, 1)]),
        (f"AlterPartition of {PARTITIONS_PER_TOPIC} partitions", lambda cluster: [_shrink(cluster, 100)]),
        (
            f"a topic of {PARTITIONS_PER_TOPIC} partitions is created",
            lambda cluster: [TopicsListed(frozenset({*cluster.topics, "fresh"}), {"fresh": fresh})],
        ),
        ("a broker is lost", lambda _: [BrokersChanged(frozen(others))]),
        ("it registers again", lambda _: [BrokersChanged(frozen(again))]),
        ("it is in sync again: AlterPartition of its leaders", lambda cluster: _rejoin(cluster, lost)),
        ("the preferred elections that it can win", lambda cluster: [_preferred(cluster, lost)]),
        ("a controlled shutdown", lambda _: [ShutdownRequested(leaving, None)]),
        (f"{PARTITIONS_PER_TOPIC} partitions are given other replicas", lambda _: [_moves(fresh, len(brokers))]),
        (
            f"a topic of {PARTITIONS_PER_TOPIC} partitions is deleted",
            lambda _: [DeletionsListed(frozenset({"topic-1"}))],
        ),
    ]


def _broker(number: int, epoch: int) -> Broker:
    return Broker(BrokerId(number), epoch, (BrokerEndpoint("PLAINTEXT", f"broker-{number}.example", 9092),))


def _topic(name: str, brokers: int, number: int) -> TopicAssignment:
    ids = [BrokerId(broker) for broker in range(brokers)]
    replicas = place_from(number * PARTITIONS_PER_TOPIC, without_racks(ids), range(PARTITIONS_PER_TOPIC), REPLICAS)
    return TopicAssignment(name, frozen(replicas), TopicId((number + 1).to_bytes(16, "big")))


def _elected(brokers: dict[BrokerId, Broker], topics: int) -> Elected:
    assignments = {f"topic-{number}": _topic(f"topic-{number}", len(brokers), number) for number in range(topics)}
    states = {
        TopicPartition(name, partition): KnownState(PartitionState(replicas[0], LeaderEpoch(3), replicas, 1), 5)
        for name, assignment in assignments.items()
        for partition, replicas in assignment.replicas.items()
    }
    return Elected(BrokerId(0), 2, frozen(brokers), frozen(assignments), frozen(states))


def _shrink(cluster: ClusterState, count: int) -> IsrChangesRequested:
    """The leader of the first partitions of one topic removes its last follower from the in-sync sets."""
    topic = next(iter(cluster.topics.values()))
    changes: list[IsrChange] = []
    leader = topic.states[0].state.leader
    assert leader is not None
    for name, found in cluster.topics.items():
        for partition, known in found.states.items():
            if known.state.leader == leader and len(changes) < count:
                isr = known.state.isr[:-1] if len(known.state.isr) == REPLICAS else found.assignment.replicas[partition]
                changes.append(IsrChange(partition, isr, known.state.leader_epoch, known.version, topic=name))
    return IsrChangesRequested(leader, cluster.brokers[leader].epoch, tuple(changes))


def _rejoin(cluster: ClusterState, broker: BrokerId) -> list[Event]:
    """AlterPartition of every leader whose partition the broker is out of sync in."""
    changes: dict[BrokerId, list[IsrChange]] = {}
    for name, topic in cluster.topics.items():
        for partition, (state, version) in topic.states.items():
            if broker in topic.assignment.replicas[partition] and broker not in state.isr and state.leader is not None:
                change = IsrChange(partition, (*state.isr, broker), state.leader_epoch, version, topic=name)
                changes.setdefault(state.leader, []).append(change)
    return [
        IsrChangesRequested(leader, cluster.brokers[leader].epoch, tuple(wanted))
        for leader, wanted in sorted(changes.items())
    ]


def _preferred(cluster: ClusterState, broker: BrokerId) -> ElectionsRequested:
    """Of partitions that prefer this broker and are led by another."""
    found = (
        TopicPartition(name, partition)
        for name, topic in cluster.topics.items()
        for partition, replicas in topic.assignment.replicas.items()
        if replicas[0] == broker
    )
    return ElectionsRequested(ElectionType.PREFERRED, tuple(found))


def _moves(topic: TopicAssignment, brokers: int) -> ReassignmentsRequested:
    targets = {
        TopicPartition(topic.name, partition): tuple(BrokerId((one + 1) % brokers) for one in replicas)
        for partition, replicas in topic.replicas.items()
    }
    return ReassignmentsRequested(frozen(targets))


def _traced(cluster: ClusterState | None, event: Event) -> int:
    """The most that a step holds at once beyond what is there before it."""
    gc.collect()
    tracemalloc.start()
    try:
        after: tuple[ClusterState | None, list[Action]] = step(cluster, event)
        del after
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _granted(write: StoreWrite) -> Outcome:
    return Done(write.operation.version + 1 if isinstance(write.operation, Set) else 0)
