"""What the controller decides: who leads every partition, and who is written.

Pure: `step(cluster, event)` returns the cluster as it is known now and a list of actions to be carried out in order.
A decision changes nothing by itself. It is a write, under the condition that its ground has not changed: the
partition's state node still has the version that was read, and no other controller has been elected. Only when the
outcome comes back (`Wrote`) does the cluster change here, and are brokers written. So whatever dies in between, what
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
from sordini.replication.cluster_model import Broker, ClusterState, KnownState, TopicAssignment, TopicState, frozen
from sordini.replication.controller.machine import (
    deletion,
    isr_changes,
    leader_election,
    log_directories,
    producer_ids,
    reassignment,
    requested_elections,
    restored_epochs,
    shutdowns,
    unclean_elections,
    zk_reassignment,
)
from sordini.replication.controller.machine.events import (
    Action,
    BrokersChanged,
    CommandAnswered,
    Conflict,
    DeletionMarkRemoved,
    DeletionsListed,
    Done,
    Elected,
    ElectionsRequested,
    Event,
    IsrChangesRequested,
    LeaderRebalanceDue,
    LogDirsFailed,
    NewAssignment,
    NewIsr,
    NewProducerIdBlock,
    NewState,
    Outcome,
    ProducerIdsRequested,
    ReassignmentsRequested,
    RemainingZkReassignments,
    Routine,
    ShutdownRequested,
    StatesRead,
    TopicChanged,
    TopicRemoved,
    TopicsListed,
    UncleanSettingsRead,
    Write,
    WriteRefused,
    Wrote,
    ZkElectionsRead,
    ZkReassignmentsRead,
)
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set


def step(cluster: ClusterState | None, event: Event) -> tuple[ClusterState | None, list[Action]]:
    """Take one event. Without a reign (None) only an election matters."""
    if isinstance(event, Elected):
        return _elected(cluster, event)
    if cluster is None:
        return None, []
    transition = Transition(cluster)
    match event:
        case BrokersChanged():
            _brokers_changed(transition, event)
        case TopicsListed():
            _topics_listed(transition, event)
        case TopicChanged(assignment):
            _topic_changed(transition, assignment)
        case DeletionsListed(names):
            deletion.begin(transition, names)
        case CommandAnswered():
            deletion.answered(transition, event)
            log_directories.answered(transition, event)
            restored_epochs.answered(transition, event)
        case Wrote():
            _wrote(transition, event)
        case ElectionsRequested():
            requested_elections.elect(transition, event.election, event.partitions)
        case ZkElectionsRead():
            requested_elections.zk_elections_read(transition, event)
        case LeaderRebalanceDue():
            requested_elections.rebalance(transition, event)
        case UncleanSettingsRead():
            unclean_elections.settings_read(transition, event)
        case ReassignmentsRequested():
            reassignment.begin(transition, event.targets)
        case ZkReassignmentsRead():
            zk_reassignment.node_read(transition, event)
        case IsrChangesRequested():
            isr_changes.alter(transition, event)
        case StatesRead():
            _states_read(transition, event)
        case ShutdownRequested():
            shutdowns.begin(transition, event)
        case ProducerIdsRequested():
            producer_ids.allocate(transition, event)
        case LogDirsFailed():
            log_directories.survey(transition, event)
        case _:
            assert_never(event)
    zk_reassignment.remove_completed(transition)
    return transition.finish()


def _elected(former: ClusterState | None, event: Elected) -> tuple[ClusterState, list[Action]]:
    """A new reign, or one that goes on: tell everybody what is, then mend what must be."""
    topics = {}
    for name, assignment in event.topics.items():
        found = {p: event.states.get(TopicPartition(name, p)) for p in assignment.replicas}
        states = {p: known for p, known in found.items() if known is not None}
        topics[name] = TopicState(assignment, frozen(states))
    transition = Transition(
        ClusterState(
            event.controller_id, event.epoch, event.brokers, frozen(topics), cluster_settings=event.cluster_settings
        )
    )
    live = transition.brokers.keys()
    uninterrupted: Collection[BrokerId] = live
    if former is not None and former.epoch == event.epoch:
        # What is in no node is known from before; a new controller is written again by the brokers concerned.
        transition.shutting_down, transition.offline = former.shutting_down, former.offline
        uninterrupted = _uninterrupted(former.brokers, event.brokers)
        _forget_former_incarnations(transition, uninterrupted)
    transition.write(*(Write(operation) for operation in event.housekeeping))
    _assign_topic_ids(transition, event.topics, event.fresh_ids or {})
    transition.send_metadata(transition.brokers)
    # A topic about to be deleted must not be led again first; the deletion itself comes last.
    deleted = event.deletions & event.topics.keys() if event.cluster_settings.deletes_topics else frozenset[str]()
    kept = [assignment for assignment in transition.active_topics() if assignment.name not in deleted]
    undecided = {
        tp for assignment in kept for tp in leader_election.update_states(transition, assignment, uninterrupted, live)
    }
    infos = [info for info in transition.partition_infos() if info.topic_partition.topic not in deleted]
    # Of what is being rewritten brokers hear when it is: one that is back must not lead as it did in its former life.
    certain = [info for info in infos if info.topic_partition not in undecided]
    transition.send_states(certain, transition.brokers)
    if infos:
        transition.send_metadata(transition.brokers, infos)
    reassignment.resume(transition, [info.topic_partition for info in certain])
    transition.flush()
    deletion.begin(transition, event.deletions)
    return transition.finish()


def _brokers_changed(transition: Transition, event: BrokersChanged) -> None:
    old, new = transition.brokers, event.brokers
    uninterrupted = _uninterrupted(old, new)
    gone, registered = old.keys() - uninterrupted, new.keys() - uninterrupted
    moved = any(old[broker] != new[broker] for broker in uninterrupted)
    transition.brokers = new
    if not gone and not registered and not moved:
        return
    _forget_former_incarnations(transition, uninterrupted)
    deletion.brokers_failed(transition, gone)
    transition.send_metadata(uninterrupted)
    undecided = {
        tp
        for topic in transition.active_topics()
        for tp in leader_election.update_states(transition, topic, uninterrupted, new.keys())
    }
    if registered:
        # A broker that comes knows nothing: first of everybody, then of what it holds. Partitions whose state is
        # being rewritten are left out; it hears of those when they are decided.
        infos = transition.partition_infos()
        transition.send_metadata(registered, infos)
        transition.send_states([info for info in infos if info.topic_partition not in undecided], registered)
    transition.flush()
    deletion.brokers_registered(transition, registered)


def _uninterrupted(old: Mapping[BrokerId, Broker], new: Mapping[BrokerId, Broker]) -> set[BrokerId]:
    """Brokers that were alive and are, without a break."""
    return {broker for broker in old.keys() & new.keys() if old[broker].epoch == new[broker].epoch}


def _forget_former_incarnations(transition: Transition, uninterrupted: Collection[BrokerId]) -> None:
    """What was noted of brokers that are gone, or are back, was true of their former lives."""
    transition.shutting_down &= frozenset(uninterrupted)
    transition.offline = frozenset(replica for replica in transition.offline if replica.broker_id in uninterrupted)


def _topics_listed(transition: Transition, event: TopicsListed) -> None:
    for name in list(transition.topic_names()):
        if name not in event.names and name not in transition.deletions:
            transition.drop_topic(name)
    known = set(transition.topic_names())
    fresh = {name: topic for name, topic in event.read.items() if name not in known}
    for topic in fresh.values():
        transition.put_topic(topic)
    _assign_topic_ids(transition, fresh, event.fresh_ids or {})
    for name in fresh:
        assignment = transition.assignment(name)
        assert assignment is not None
        leader_election.update_states(transition, assignment, transition.brokers.keys(), transition.brokers.keys())


def _topic_changed(transition: Transition, read: TopicAssignment) -> None:
    known = transition.assignment(read.name)
    if known is None or read.name in transition.deletions:
        return
    if read.topic_id == NO_TOPIC_ID != known.topic_id:
        # A writer older than topic ids rewrote the node. Replicas have stored the id: it has to come back.
        read = replace(read, topic_id=known.topic_id)
        transition.write(Write(Set(paths.topic(read.name), znodes.encode_topic(read), read.version)))
    if read.topic_id != known.topic_id != NO_TOPIC_ID:
        transition.drop_topic(read.name)  # Another topic under the same name.
    else:
        # Replicas of partitions that exist are moved by reassignment alone, and one under way is not forgotten.
        whole = replace(
            read, replicas={**read.replicas, **known.replicas}, adding=known.adding, removing=known.removing
        )
        if (read.adding, read.removing) != (known.adding, known.removing):
            transition.write(Write(Set(paths.topic(read.name), znodes.encode_topic(whole), read.version)))
        read = whole
    transition.put_topic(read)
    leader_election.update_states(transition, read, transition.brokers.keys(), transition.brokers.keys())
    if read.version != known.version:
        # Whoever wrote may have come before the end of a move, which then was not written.
        reassignment.advance(transition, reassignment.reassigning(transition, read))


def _assign_topic_ids(
    transition: Transition, topics: Mapping[str, TopicAssignment], ids: Mapping[str, TopicId]
) -> None:
    """Write an id into every topic that has none."""
    for name, topic in topics.items():
        if topic.topic_id == NO_TOPIC_ID and name in ids:
            identified = replace(topic, topic_id=ids[name])
            transition.put_topic(identified)
            transition.write(Write(Set(paths.topic(name), znodes.encode_topic(identified), topic.version)))


def _states_read(transition: Transition, event: StatesRead) -> None:
    grown, moved = isr_changes.states_read(transition, event)
    leaders = {one: transition.states(one.topic)[one.partition].state.leader for one in moved}
    _announce(transition, [], leaders, [*grown, *moved])
    reassignment.advance(transition, [*grown, *moved])


def _wrote(transition: Transition, event: Wrote) -> None:
    written: list[NewState] = []
    altered: list[TopicPartition] = []
    former: dict[TopicPartition, BrokerId | None] = {}
    for write, outcome in event.outcomes:
        match write.purpose:
            case NewState() as purpose:
                leader = _leader_of(transition, purpose.topic_partition)
                if _apply_new_state(transition, purpose, outcome):
                    written.append(purpose)
                    former[purpose.topic_partition] = leader
            case NewIsr() as purpose:
                if isr_changes.wrote(transition, purpose, outcome):
                    altered.append(purpose.topic_partition)
            case NewProducerIdBlock() as purpose:
                producer_ids.wrote(transition, purpose, outcome)
            case TopicRemoved(name) if isinstance(outcome, Done):
                deletion.topic_removed(transition, name)
            case DeletionMarkRemoved(name) if isinstance(outcome, Done):
                deletion.mark_removed(transition, name)
            case NewAssignment() as purpose if isinstance(outcome, Done):
                assignment = replace(purpose.assignment, version=outcome.version)
                reassignment.assignment_written(transition, purpose._replace(assignment=assignment))
            case NewAssignment() as purpose:
                reassignment.assignment_not_written(transition, purpose)
            case RemainingZkReassignments() as purpose:
                zk_reassignment.wrote(transition, purpose, outcome)
            case Routine() | TopicRemoved() | DeletionMarkRemoved():
                pass
            case _:
                assert_never(write.purpose)
    reassignment.announce_planned(transition, written)
    _announce(transition, [new.topic_partition for new in written if new.first], former, [*former, *altered])
    reassignment.states_written(transition, written)
    reassignment.advance(transition, altered)


def _announce(
    transition: Transition,
    first: Collection[TopicPartition],
    led: Mapping[TopicPartition, BrokerId | None],
    partitions: Iterable[TopicPartition],
) -> None:
    """Tell brokers of these partitions' states. Those in `led` have a new epoch: it says who led the one before."""
    kept = [one for one in partitions if one.topic not in transition.deletions]
    found = (transition.partition_info(*one, is_new=one in first) for one in kept)
    infos = [info for info in found if info is not None]
    if not infos:
        return
    decided = [info for info in infos if info.topic_partition in led]
    transition.send_states(decided, transition.brokers.keys() - transition.shutting_down)
    for broker in sorted(transition.shutting_down):
        # It was written to stop following: all that it must hear of is leading, and no longer leading.
        concerned = [info for info in decided if broker in (led[info.topic_partition], info.state.leader)]
        transition.send_states(concerned, {broker})
    transition.send_metadata(transition.brokers, infos)


def _leader_of(transition: Transition, topic_partition: TopicPartition) -> BrokerId | None:
    known = transition.states(topic_partition.topic).get(topic_partition.partition)
    return None if known is None else known.state.leader


def _apply_new_state(transition: Transition, purpose: NewState, outcome: Outcome) -> bool:
    """Learn a partition's state from the outcome of a write; whether brokers are to be written of it now."""
    topic = transition.assignment(purpose.topic_partition.topic)
    if topic is None:
        return False
    match outcome:
        case Done(version):
            transition.put_state(purpose.topic_partition, KnownState(purpose.state, version))
            return True
        case Conflict(current) if current is not None:
            # Somebody else wrote: a leader of an old protocol, or an earlier reign of ours. Decide again on that.
            transition.put_state(purpose.topic_partition, current)
            return topic.name in transition.deletions or not leader_election.update_state(
                transition, topic, purpose.topic_partition.partition
            )
        case Conflict() | WriteRefused():
            return False
        case _:
            assert_never(outcome)
