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

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import Broker, Cluster, KnownState, Topic, TopicAssignment, frozen
from sordini.replication.controller.machine import deletion, isr_changes, leader_election, log_directories, producer_ids, reassignment, requested_elections, restored_epochs, shutdowns, unclean_elections, zk_reassignment
from sordini.replication.controller.machine.events import (
    Action,
    Answered,
    BalanceDue,
    BrokersChanged,
    Conflict,
    DeletionsListed,
    Done,
    Elected,
    ElectionsNoted,
    ElectionsWanted,
    Event,
    IsrChangesWanted,
    LogDirsFailed,
    MarkGone,
    Moved,
    MovesNoted,
    MovesWanted,
    NewBlock,
    NewIsr,
    NewState,
    NotesKept,
    Outcome,
    ProducerIdsWanted,
    Refused,
    Routine,
    ShutdownWanted,
    StatesRead,
    TopicChanged,
    TopicGone,
    TopicsListed,
    UncleanRuled,
    Write,
    Wrote,
)
from sordini.replication.controller.machine.transition import Turn
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set


def step(cluster: Cluster | None, event: Event) -> tuple[Cluster | None, list[Action]]:
    """Take one event. Without a reign (None) only an election matters."""
    if isinstance(event, Elected):
        return _elected(cluster, event)
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
            log_directories.answered(turn, event)
            restored_epochs.answered(turn, event)
        case Wrote():
            _wrote(turn, event)
        case ElectionsWanted():
            requested_elections.elect(turn, event.election, event.partitions)
        case ElectionsNoted():
            requested_elections.noted(turn, event)
        case BalanceDue():
            requested_elections.balance(turn, event)
        case UncleanRuled():
            unclean_elections.rule(turn, event)
        case MovesWanted():
            reassignment.begin(turn, event.targets)
        case MovesNoted():
            zk_reassignment.look(turn, event)
        case IsrChangesWanted():
            isr_changes.grant(turn, event)
        case StatesRead():
            _states_read(turn, event)
        case ShutdownWanted():
            shutdowns.begin(turn, event)
        case ProducerIdsWanted():
            producer_ids.take(turn, event)
        case LogDirsFailed():
            log_directories.look(turn, event)
        case _:
            assert_never(event)
    zk_reassignment.tick_off(turn)
    return turn.finish()


def _elected(former: Cluster | None, event: Elected) -> tuple[Cluster, list[Action]]:
    """A new reign, or one that goes on: tell everybody what is, then mend what must be."""
    topics = {}
    for name, assignment in event.topics.items():
        found = {p: event.states.get(TopicPartition(name, p)) for p in assignment.replicas}
        states = {p: known for p, known in found.items() if known is not None}
        topics[name] = Topic(assignment, frozen(states))
    turn = Turn(Cluster(event.controller_id, event.epoch, event.brokers, frozen(topics), conventions=event.conventions))
    live = turn.brokers.keys()
    steady: Collection[BrokerId] = live
    if former is not None and former.epoch == event.epoch:
        # What is in no node is known from before; a new controller is told again by the brokers concerned.
        turn.shutting_down, turn.offline = former.shutting_down, former.offline
        steady = _steady(former.brokers, event.brokers)
        _forget_lives(turn, steady)
    turn.write(*(Write(operation) for operation in event.housekeeping))
    _give_ids(turn, event.topics, event.fresh_ids or {})
    turn.send_metadata(turn.brokers)
    # A topic about to be deleted must not be led again first; the deletion itself comes last.
    doomed = event.deletions & event.topics.keys() if event.conventions.deletes_topics else frozenset[str]()
    kept = [assignment for assignment in turn.kept() if assignment.name not in doomed]
    doubtful = {tp for assignment in kept for tp in leader_election.decide(turn, assignment, steady, live)}
    infos = [info for info in turn.infos() if info.topic_partition.topic not in doomed]
    # Of what is being rewritten brokers hear when it is: one that is back must not lead as it did in its former life.
    certain = [info for info in infos if info.topic_partition not in doubtful]
    turn.send_states(certain, turn.brokers)
    if infos:
        turn.send_metadata(turn.brokers, infos)
    reassignment.resume(turn, [info.topic_partition for info in certain])
    turn.flush()
    deletion.begin(turn, event.deletions)
    return turn.finish()


def _brokers_changed(turn: Turn, event: BrokersChanged) -> None:
    old, new = turn.brokers, event.brokers
    steady = _steady(old, new)
    gone, came = old.keys() - steady, new.keys() - steady
    moved = any(old[broker] != new[broker] for broker in steady)
    turn.brokers = new
    if not gone and not came and not moved:
        return
    _forget_lives(turn, steady)
    deletion.brokers_left(turn, gone)
    turn.send_metadata(steady)
    doubtful = {tp for topic in turn.kept() for tp in leader_election.decide(turn, topic, steady, new.keys())}
    if came:
        # A broker that comes knows nothing: first of everybody, then of what it holds. Partitions whose state is
        # being rewritten are left out; it hears of those when they are decided.
        infos = turn.infos()
        turn.send_metadata(came, infos)
        turn.send_states([info for info in infos if info.topic_partition not in doubtful], came)
    turn.flush()
    deletion.brokers_came(turn, came)


def _steady(old: Mapping[BrokerId, Broker], new: Mapping[BrokerId, Broker]) -> set[BrokerId]:
    """Brokers that were alive and are, without a break."""
    return {broker for broker in old.keys() & new.keys() if old[broker].epoch == new[broker].epoch}


def _forget_lives(turn: Turn, steady: Collection[BrokerId]) -> None:
    """What was noted of brokers that are gone, or are back, was true of their former lives."""
    turn.shutting_down &= frozenset(steady)
    turn.offline = frozenset(replica for replica in turn.offline if replica.broker_id in steady)


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
        leader_election.decide(turn, assignment, turn.brokers.keys(), turn.brokers.keys())


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
        # Replicas of partitions that exist are moved by reassignment alone, and one under way is not forgotten.
        whole = replace(
            read, replicas={**read.replicas, **known.replicas}, adding=known.adding, removing=known.removing
        )
        if (read.adding, read.removing) != (known.adding, known.removing):
            turn.write(Write(Set(paths.topic(read.name), znodes.encode_topic(whole), read.version)))
        read = whole
    turn.put_topic(read)
    leader_election.decide(turn, read, turn.brokers.keys(), turn.brokers.keys())
    if read.version != known.version:
        # Whoever wrote may have come before the end of a move, which then was not written.
        reassignment.go_on(turn, reassignment.moving(turn, read))


def _give_ids(turn: Turn, topics: Mapping[str, TopicAssignment], ids: Mapping[str, TopicId]) -> None:
    """Write an id into every topic that has none."""
    for name, topic in topics.items():
        if topic.topic_id == NO_TOPIC_ID and name in ids:
            identified = replace(topic, topic_id=ids[name])
            turn.put_topic(identified)
            turn.write(Write(Set(paths.topic(name), znodes.encode_topic(identified), topic.version)))


def _states_read(turn: Turn, event: StatesRead) -> None:
    grown, moved = isr_changes.read_again(turn, event)
    leaders = {one: turn.states(one.topic)[one.partition].state.leader for one in moved}
    _tell(turn, [], leaders, [*grown, *moved])
    reassignment.go_on(turn, [*grown, *moved])


def _wrote(turn: Turn, event: Wrote) -> None:
    told: list[NewState] = []
    granted: list[TopicPartition] = []
    former: dict[TopicPartition, BrokerId | None] = {}
    for write, outcome in event.outcomes:
        match write.purpose:
            case NewState() as purpose:
                leader = _leader_of(turn, purpose.topic_partition)
                if _took_effect(turn, purpose, outcome):
                    told.append(purpose)
                    former[purpose.topic_partition] = leader
            case NewIsr() as purpose:
                if isr_changes.wrote(turn, purpose, outcome):
                    granted.append(purpose.topic_partition)
            case NewBlock() as purpose:
                producer_ids.wrote(turn, purpose, outcome)
            case TopicGone(name) if isinstance(outcome, Done):
                deletion.topic_gone(turn, name)
            case MarkGone(name) if isinstance(outcome, Done):
                deletion.mark_gone(turn, name)
            case Moved() as purpose if isinstance(outcome, Done):
                assignment = replace(purpose.assignment, version=outcome.version)
                reassignment.assigned(turn, purpose._replace(assignment=assignment))
            case Moved() as purpose:
                reassignment.not_assigned(turn, purpose)
            case NotesKept() as purpose:
                zk_reassignment.wrote(turn, purpose, outcome)
            case Routine() | TopicGone() | MarkGone():
                pass
            case _:
                assert_never(write.purpose)
    reassignment.tell_planned(turn, told)
    _tell(turn, [new.topic_partition for new in told if new.first], former, [*former, *granted])
    reassignment.stepped(turn, told)
    reassignment.go_on(turn, granted)


def _tell(
    turn: Turn,
    first: Collection[TopicPartition],
    led: Mapping[TopicPartition, BrokerId | None],
    partitions: Iterable[TopicPartition],
) -> None:
    """Tell brokers of these partitions' states. Those in `led` have a new epoch: it says who led the one before."""
    kept = [one for one in partitions if one.topic not in turn.deletions]
    found = (turn.info(*one, is_new=one in first) for one in kept)
    infos = [info for info in found if info is not None]
    if not infos:
        return
    decided = [info for info in infos if info.topic_partition in led]
    turn.send_states(decided, turn.brokers.keys() - turn.shutting_down)
    for broker in sorted(turn.shutting_down):
        # It was told to stop following: all that it must hear of is leading, and no longer leading.
        concerned = [info for info in decided if broker in (led[info.topic_partition], info.state.leader)]
        turn.send_states(concerned, {broker})
    turn.send_metadata(turn.brokers, infos)


def _leader_of(turn: Turn, topic_partition: TopicPartition) -> BrokerId | None:
    known = turn.states(topic_partition.topic).get(topic_partition.partition)
    return None if known is None else known.state.leader


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
            return topic.name in turn.deletions or not leader_election.decide_again(
                turn, topic, purpose.topic_partition.partition
            )
        case Conflict() | Refused():
            return False
        case _:
            assert_never(outcome)
