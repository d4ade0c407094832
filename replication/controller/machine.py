"""What the controller decides: who leads every partition, and who is told.

Pure: `step(cluster, event)` returns the cluster as it is known now and a list of actions to be carried out in order.
A decision changes nothing by itself. It is a write, under the condition that its ground has not changed: the
partition's state node still has the version that was read, and no other controller has been elected. Only when the
outcome comes back (`Wrote`) does the cluster change here, and are brokers told. So whatever dies in between, what
brokers obey is what the store says.

Invariants, held after every step:
  - a partition's leader is in its in-sync set, and the in-sync set is never empty;
  - every decision about a partition begins a new leader epoch: no epoch has two leaders;
  - nothing is sent about a partition before its state is in the store;
  - a topic that is being deleted gets no leader, and its id goes with it through every rewrite.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.controller import deletion, elections, moves, paths, znodes
from sordini.replication.controller.cluster import (
    Cluster,
    KnownState,
    PartitionState,
    Topic,
    TopicAssignment,
    frozen,
)
from sordini.replication.controller.events import (
    Action,
    Answered,
    BrokersChanged,
    Conflict,
    DeletionsListed,
    Done,
    Elected,
    ElectionsWanted,
    Event,
    MarkGone,
    Moved,
    MovesWanted,
    NewState,
    Outcome,
    Refused,
    Routine,
    TopicChanged,
    TopicGone,
    TopicsListed,
    Write,
    Wrote,
)
from sordini.replication.controller.turn import Turn
from sordini.replication.ports import Create, Set


def step(cluster: Cluster | None, event: Event) -> tuple[Cluster | None, list[Action]]:
    """Take one event. Without a reign (None) only an election matters."""
    if isinstance(event, Elected):
        return _elected(event)
    if cluster is None:
        return None, []
    turn = Turn(cluster)
    match event:
        case BrokersChanged():
            _brokers_changed(turn, event)
        case TopicsListed():
            _topics_listed(turn, event)
        case TopicChanged(assignment):
            _topic_changed(turn, assignment)
        case DeletionsListed(names):
            deletion.begin(turn, names)
        case Answered():
            deletion.answered(turn, event)
        case Wrote():
            _wrote(turn, event)
        case ElectionsWanted():
            moves.elect(turn, event)
        case MovesWanted():
            moves.begin(turn, event)
        case _:
            assert_never(event)
    return turn.finish()


def _elected(event: Elected) -> tuple[Cluster, list[Action]]:
    """A new reign: tell everybody what is, then mend what must be."""
    topics = {}
    for name, assignment in event.topics.items():
        found = {p: event.states.get(TopicPartition(name, p)) for p in assignment.replicas}
        states = {p: known for p, known in found.items() if known is not None}
        topics[name] = Topic(assignment, frozen(states))
    turn = Turn(Cluster(event.controller_id, event.epoch, event.brokers, frozen(topics)))
    turn.write(*(Write(operation) for operation in event.housekeeping))
    _give_ids(turn, event.topics, event.fresh_ids or {})
    turn.send_metadata(turn.brokers)
    # A topic about to be deleted must not be led again first; the deletion itself comes last.
    doomed = event.deletions & event.topics.keys()
    infos = [info for info in turn.infos() if info.topic_partition.topic not in doomed]
    turn.send_states(infos, turn.brokers)
    if infos:
        turn.send_metadata(turn.brokers, infos)
    live = turn.brokers.keys()
    for assignment in list(turn.kept()):
        if assignment.name not in doomed:
            _decide(turn, assignment, live, live)
    turn.flush()
    deletion.begin(turn, event.deletions)
    return turn.finish()


def _brokers_changed(turn: Turn, event: BrokersChanged) -> None:
    old, new = turn.brokers, event.brokers
    steady = {broker for broker in old.keys() & new.keys() if old[broker].epoch == new[broker].epoch}
    gone, came = old.keys() - steady, new.keys() - steady
    moved = any(old[broker] != new[broker] for broker in steady)
    turn.brokers = new
    if not gone and not came and not moved:
        return
    deletion.brokers_left(turn, gone)
    turn.send_metadata(steady)
    doubtful = {tp for topic in turn.kept() for tp in _decide(turn, topic, steady, new.keys())}
    if came:
        # A broker that comes knows nothing: first of everybody, then of what it holds. Partitions whose state is
        # being rewritten are left out; it hears of those when they are decided.
        infos = turn.infos()
        turn.send_metadata(came, infos)
        turn.send_states([info for info in infos if info.topic_partition not in doubtful], came)
    turn.flush()
    deletion.brokers_came(turn, came)


def _topics_listed(turn: Turn, event: TopicsListed) -> None:
    for name in list(turn.names()):
        if name not in event.names and name not in turn.deletions:
            turn.drop_topic(name)
    known = set(turn.names())
    fresh = {name: topic for name, topic in event.read.items() if name not in known}
    for topic in fresh.values():
        turn.put_topic(topic)
    _give_ids(turn, fresh, event.fresh_ids or {})
    for name in fresh:
        assignment = turn.assignment(name)
        assert assignment is not None
        _decide(turn, assignment, turn.brokers.keys(), turn.brokers.keys())


def _topic_changed(turn: Turn, read: TopicAssignment) -> None:
    known = turn.assignment(read.name)
    if known is None or read.name in turn.deletions:
        return
    if read.topic_id == NO_TOPIC_ID != known.topic_id:
        # A writer older than topic ids rewrote the node. Replicas have stored the id: it has to come back.
        read = replace(read, topic_id=known.topic_id)
        turn.write(Write(Set(paths.topic(read.name), znodes.encode_topic(read), read.version)))
    if read.topic_id != known.topic_id != NO_TOPIC_ID:
        turn.drop_topic(read.name)  # Another topic under the same name.
    else:
        # Replicas of partitions that exist are moved by reassignment alone.
        read = replace(read, replicas={**read.replicas, **known.replicas})
    turn.put_topic(read)
    _decide(turn, read, turn.brokers.keys(), turn.brokers.keys())


def _give_ids(turn: Turn, topics: Mapping[str, TopicAssignment], ids: Mapping[str, TopicId]) -> None:
    """Write an id into every topic that has none."""
    for name, topic in topics.items():
        if topic.topic_id == NO_TOPIC_ID and name in ids:
            identified = replace(topic, topic_id=ids[name])
            turn.put_topic(identified)
            turn.write(Write(Set(paths.topic(name), znodes.encode_topic(identified), topic.version)))


def _decide(
    turn: Turn, topic: TopicAssignment, steady: Collection[BrokerId], live: Collection[BrokerId]
) -> list[TopicPartition]:
    """Write the states that must change now that these brokers are alive; the partitions concerned.

    `steady` are those that have been alive without a break. One that broke off and came back lost its leadership
    and its place in the in-sync sets with its former life, but may lead again if there is nobody better.
    """
    decided = []
    states = turn.states(topic.name)
    if not states and any(replica in live for held in topic.replicas.values() for replica in held):
        turn.write(Write(Create(paths.partitions(topic.name))))
    for partition, replicas in sorted(topic.replicas.items()):
        topic_partition, known = TopicPartition(topic.name, partition), states.get(partition)
        if known is None:
            present = tuple(replica for replica in replicas if replica in live)
            if not present:
                continue  # Nobody can hold it; decided when somebody comes.
            turn.write(Write(Create(paths.partition(topic_partition))))
            turn.write_state(topic_partition, turn.first_state(present[0], present))
        else:
            state = _state_among(turn, known.state, replicas, steady, live)
            if state is None:
                continue
            turn.write_state(topic_partition, state)
        decided.append(topic_partition)
    return decided


def _state_among(
    turn: Turn,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    steady: Collection[BrokerId],
    live: Collection[BrokerId],
) -> PartitionState | None:
    """The state a partition must go to, or None if it may stay as it is."""
    leader = state.leader
    keeps_leader = leader is not None and leader in steady and leader in replicas
    if not keeps_leader:
        leader = elections.offline(replicas, state.isr, steady)
        if leader is None:
            leader = elections.offline(replicas, state.isr, live)
    if leader is None:
        # The in-sync set is kept whole: any of it may lead when it comes back, and nobody else.
        return None if state.leader is None else turn.next_state(state, None, state.isr)
    kept = [replica for replica in replicas if replica in steady or replica == leader]
    isr = tuple(replica for replica in state.isr if replica in kept)
    return None if keeps_leader and isr == state.isr else turn.next_state(state, leader, isr)


def _wrote(turn: Turn, event: Wrote) -> None:
    told = []
    for write, outcome in event.outcomes:
        match write.purpose:
            case NewState() as purpose:
                if _took_effect(turn, purpose, outcome):
                    told.append(purpose)
            case TopicGone(name) if isinstance(outcome, Done):
                deletion.topic_gone(turn, name)
            case MarkGone(name) if isinstance(outcome, Done):
                deletion.mark_gone(turn, name)
            case Moved(assignment, partitions) if isinstance(outcome, Done):
                moves.assigned(turn, replace(assignment, version=outcome.version), partitions)
            case Routine() | TopicGone() | MarkGone() | Moved():
                pass
            case _:
                assert_never(write.purpose)
    moves.narrowed(turn, told)
    kept = [new for new in told if new.topic_partition.topic not in turn.deletions]
    found = (turn.info(*new.topic_partition, is_new=new.first) for new in kept)
    infos = [info for info in found if info is not None]
    if infos:
        turn.send_states(infos, turn.brokers)
        turn.send_metadata(turn.brokers, infos)


def _took_effect(turn: Turn, purpose: NewState, outcome: Outcome) -> bool:
    """Learn a partition's state from the outcome of a write; whether brokers are to be told of it now."""
    topic = turn.assignment(purpose.topic_partition.topic)
    if topic is None:
        return False
    match outcome:
        case Done(version):
            turn.put_state(purpose.topic_partition, KnownState(purpose.state, version))
            return True
        case Conflict(current) if current is not None:
            # Somebody else wrote: a leader of an old protocol, or an earlier reign of ours. Decide again on that.
            turn.put_state(purpose.topic_partition, current)
            return topic.name in turn.deletions or not _decide_again(turn, topic, purpose.topic_partition)
        case Conflict() | Refused():
            return False
        case _:
            assert_never(outcome)


def _decide_again(turn: Turn, topic: TopicAssignment, topic_partition: TopicPartition) -> bool:
    """Write what follows from a state that was found; false when it may stay as it is."""
    known = turn.states(topic.name)[topic_partition.partition]
    replicas, live = topic.replicas[topic_partition.partition], turn.brokers.keys()
    state = _state_among(turn, known.state, replicas, live, live)
    if state is not None:
        turn.write_state(topic_partition, state)
    return state is not None
