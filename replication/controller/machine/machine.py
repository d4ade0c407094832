"""The controller's state machine: it elects leaders, reassigns and deletes partitions, and commands brokers.

    event (events.py) -> step(cluster state) -> new cluster state + actions
      events:  elected, brokers or topics changed, a broker answered, an administrator requests, writes completed
      actions: write to the store, send a command, read more, reply

Pure: `step` returns the cluster state and a list of actions, which the shell (`controller.py`) carries out in order.
A decision by itself changes nothing. It is a conditional write: the partition's state node must still have the version
that was read, and no other controller may have been elected. Only the outcome of the write (`WritesDone`) changes the
cluster state here and leads to commands. So after a crash at any point, brokers follow what the store contains.

Invariants, held after every step:
  - a partition's leader is in its ISR, and the ISR is never empty;
  - every decision about a partition begins a new leader epoch: no epoch has two leaders;
  - nothing is sent about a partition before its state is in the store;
  - a topic that is being deleted gets no leader; every rewrite of a topic keeps its id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import assert_never

from sordini.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import Broker, ClusterState, KnownState, TopicAssignment, TopicState, frozen
from sordini.replication.controller.machine import (
    controlled_shutdown,
    isr_changes,
    leader_election,
    leader_rebalance,
    log_directories,
    producer_ids,
    reassignment,
    requested_elections,
    restored_epochs,
    topic_deletion,
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
    NoFollowUp,
    Outcome,
    ProducerIdsRequested,
    ReassignmentsRequested,
    RemainingZkReassignments,
    ShutdownRequested,
    StatesRead,
    StoreWrite,
    StoreWriteRefused,
    TopicChanged,
    TopicRemoved,
    TopicsListed,
    UncleanSettingsRead,
    WritesDone,
    ZkElectionsRead,
    ZkReassignmentsRead,
)
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set


def step(cluster: ClusterState | None, event: Event) -> tuple[ClusterState | None, list[Action]]:
    """Process one event. While this broker is not the controller (None), every event but `Elected` is ignored."""
    if isinstance(event, Elected):
        return _elected(cluster, event)
    if cluster is None:
        return None, []
    transition = ControllerTransition(cluster)
    match event:
        case BrokersChanged():
            _brokers_changed(transition, event)
        case TopicsListed():
            _topics_listed(transition, event)
        case TopicChanged(assignment):
            _topic_changed(transition, assignment)
        case DeletionsListed(names):
            topic_deletion.begin(transition, names)
        case CommandAnswered():
            topic_deletion.answered(transition, event)
            log_directories.answered(transition, event)
            restored_epochs.answered(transition, event)
        case WritesDone():
            _wrote(transition, event)
        case ElectionsRequested():
            requested_elections.elect(transition, event.election, event.partitions)
        case ZkElectionsRead():
            requested_elections.zk_elections_read(transition, event)
        case LeaderRebalanceDue():
            leader_rebalance.rebalance(transition, event)
        case UncleanSettingsRead():
            leader_election.unclean_settings_read(transition, event)
        case ReassignmentsRequested():
            reassignment.begin(transition, event.targets)
        case ZkReassignmentsRead():
            zk_reassignment.node_read(transition, event)
        case IsrChangesRequested():
            isr_changes.alter(transition, event)
        case StatesRead():
            _states_read(transition, event)
        case ShutdownRequested():
            controlled_shutdown.begin(transition, event)
        case ProducerIdsRequested():
            producer_ids.allocate(transition, event)
        case LogDirsFailed():
            log_directories.survey(transition, event)
        case _:
            assert_never(event)
    zk_reassignment.remove_completed(transition)
    return transition.finish()


def _elected(former: ClusterState | None, event: Elected) -> tuple[ClusterState, list[Action]]:
    """A new controller term, or the same one after a reconnect: send the full state, then repair what is needed."""
    topics = {}
    for name, assignment in event.topics.items():
        found = {number: event.states.get(TopicPartition(name, number)) for number in assignment.replicas}
        states = {number: known for number, known in found.items() if known is not None}
        topics[name] = TopicState(assignment, frozen(states))
    transition = ControllerTransition(
        ClusterState(
            event.controller_id, event.epoch, event.brokers, frozen(topics), cluster_settings=event.cluster_settings
        )
    )
    live = transition.brokers.keys()
    uninterrupted: Collection[BrokerId] = live
    if former is not None and former.epoch == event.epoch:
        # This is in no node and is kept from before; brokers report it again to a new controller.
        transition.shutting_down, transition.offline = former.shutting_down, former.offline
        uninterrupted = _uninterrupted(former.brokers, event.brokers)
        _forget_former_incarnations(transition, uninterrupted)
    transition.write(*(StoreWrite(operation) for operation in event.housekeeping))
    _assign_topic_ids(transition, event.topics, event.fresh_ids or {})
    transition.send_metadata(transition.brokers)
    # A topic about to be deleted gets no leader first; the deletion itself comes last.
    deleted = event.deletions & event.topics.keys() if event.cluster_settings.deletes_topics else frozenset[str]()
    kept = [assignment for assignment in transition.active_topics() if assignment.name not in deleted]
    undecided = {
        tp for assignment in kept for tp in leader_election.update_states(transition, assignment, uninterrupted, live)
    }
    infos = [info for info in transition.partition_infos() if info.topic_partition.topic not in deleted]
    # States that are being rewritten are sent once written: a restarted broker must not lead as before its restart.
    certain = [info for info in infos if info.topic_partition not in undecided]
    transition.send_states(certain, transition.brokers)
    if infos:
        transition.send_metadata(transition.brokers, infos)
    reassignment.resume(transition, [info.topic_partition for info in certain])
    transition.flush()
    topic_deletion.begin(transition, event.deletions)
    return transition.finish()


def _brokers_changed(transition: ControllerTransition, event: BrokersChanged) -> None:
    old, new = transition.brokers, event.brokers
    uninterrupted = _uninterrupted(old, new)
    failed, registered = old.keys() - uninterrupted, new.keys() - uninterrupted
    has_new_endpoints = any(old[broker] != new[broker] for broker in uninterrupted)
    transition.brokers = new
    if not failed and not registered and not has_new_endpoints:
        return
    _forget_former_incarnations(transition, uninterrupted)
    topic_deletion.brokers_failed(transition, failed)
    transition.send_metadata(uninterrupted)
    undecided = {
        tp
        for topic in transition.active_topics()
        for tp in leader_election.update_states(transition, topic, uninterrupted, new.keys())
    }
    if registered:
        # A newly registered broker gets the whole metadata, then the partitions that it holds. Partitions whose state
        # is being rewritten are left out; they are sent once decided.
        infos = transition.partition_infos()
        transition.send_metadata(registered, infos)
        transition.send_states([info for info in infos if info.topic_partition not in undecided], registered)
    transition.flush()
    topic_deletion.brokers_registered(transition, registered)


def _uninterrupted(old: Mapping[BrokerId, Broker], new: Mapping[BrokerId, Broker]) -> set[BrokerId]:
    """Brokers that have been live in one incarnation: their broker epoch is the same."""
    return {broker for broker in old.keys() & new.keys() if old[broker].epoch == new[broker].epoch}


def _forget_former_incarnations(transition: ControllerTransition, uninterrupted: Collection[BrokerId]) -> None:
    """Drop what is known of former incarnations of brokers: shutting down, offline replicas."""
    transition.shutting_down &= frozenset(uninterrupted)
    transition.offline = frozenset(replica for replica in transition.offline if replica.broker_id in uninterrupted)


def _topics_listed(transition: ControllerTransition, event: TopicsListed) -> None:
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


def _topic_changed(transition: ControllerTransition, read: TopicAssignment) -> None:
    known = transition.assignment(read.name)
    if known is None or read.name in transition.deletions:
        return
    if read.topic_id == NO_TOPIC_ID != known.topic_id:
        # A writer older than topic ids rewrote the node. Replicas have stored the id, so it is written back.
        read = read._replace(topic_id=known.topic_id)
        transition.write(StoreWrite(Set(paths.topic(read.name), znodes.encode_topic(read), read.version)))
    if read.topic_id != known.topic_id != NO_TOPIC_ID:
        transition.drop_topic(read.name)  # Another topic under the same name.
    else:
        # Only a reassignment changes the replicas of an existing partition, and an ongoing one is kept.
        whole = read._replace(
            replicas={**read.replicas, **known.replicas}, adding=known.adding, removing=known.removing
        )
        if (read.adding, read.removing) != (known.adding, known.removing):
            transition.write(StoreWrite(Set(paths.topic(read.name), znodes.encode_topic(whole), read.version)))
        read = whole
    transition.put_topic(read)
    leader_election.update_states(transition, read, transition.brokers.keys(), transition.brokers.keys())
    if read.version != known.version:
        # This write may have preceded the end of a reassignment, whose write then was refused.
        reassignment.advance(transition, reassignment.reassigning(transition, read))


def _assign_topic_ids(
    transition: ControllerTransition, topics: Mapping[str, TopicAssignment], ids: Mapping[str, TopicId]
) -> None:
    """Write an id into every topic without one."""
    for name, topic in topics.items():
        if topic.topic_id == NO_TOPIC_ID and name in ids:
            identified = topic._replace(topic_id=ids[name])
            transition.put_topic(identified)
            transition.write(StoreWrite(Set(paths.topic(name), znodes.encode_topic(identified), topic.version)))


def _states_read(transition: ControllerTransition, event: StatesRead) -> None:
    isr_changed, epoch_changed = isr_changes.states_read(transition, event)
    leaders = {name: transition.states(name.topic)[name.partition].state.leader for name in epoch_changed}
    _announce(transition, [], leaders, [*isr_changed, *epoch_changed])
    reassignment.advance(transition, [*isr_changed, *epoch_changed])


def _wrote(transition: ControllerTransition, event: WritesDone) -> None:
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
                topic_deletion.topic_removed(transition, name)
            case DeletionMarkRemoved(name) if isinstance(outcome, Done):
                topic_deletion.mark_removed(transition, name)
            case NewAssignment() as purpose if isinstance(outcome, Done):
                assignment = purpose.assignment._replace(version=outcome.version)
                reassignment.assignment_written(transition, purpose._replace(assignment=assignment))
            case NewAssignment() as purpose:
                reassignment.assignment_not_written(transition, purpose)
            case RemainingZkReassignments() as purpose:
                zk_reassignment.wrote(transition, purpose, outcome)
            case NoFollowUp() | TopicRemoved() | DeletionMarkRemoved():
                pass
            case _:
                assert_never(write.purpose)
    reassignment.announce_planned(transition, written)
    _announce(transition, [new.topic_partition for new in written if new.first], former, [*former, *altered])
    reassignment.states_written(transition, written)
    reassignment.advance(transition, altered)


def _announce(
    transition: ControllerTransition,
    first: Collection[TopicPartition],
    led: Mapping[TopicPartition, BrokerId | None],
    partitions: Iterable[TopicPartition],
) -> None:
    """Send these partitions' states to brokers. Those in `led` have a new epoch: the value is the former leader."""
    kept = [name for name in partitions if name.topic not in transition.deletions]
    found = (transition.partition_info(*name, is_new=name in first) for name in kept)
    infos = [info for info in found if info is not None]
    if not infos:
        return
    decided = [info for info in infos if info.topic_partition in led]
    transition.send_states(decided, transition.brokers.keys() - transition.shutting_down)
    for broker in sorted(transition.shutting_down):
        # It was sent a StopReplica for what it follows: it needs only to begin leading, or to stop leading.
        concerned = [info for info in decided if broker in (led[info.topic_partition], info.state.leader)]
        transition.send_states(concerned, {broker})
    transition.send_metadata(transition.brokers, infos)


def _leader_of(transition: ControllerTransition, topic_partition: TopicPartition) -> BrokerId | None:
    known = transition.states(topic_partition.topic).get(topic_partition.partition)
    return None if known is None else known.state.leader


def _apply_new_state(transition: ControllerTransition, purpose: NewState, outcome: Outcome) -> bool:
    """Apply the outcome of a write of a partition's state; whether it is to be sent to brokers now."""
    topic = transition.assignment(purpose.topic_partition.topic)
    if topic is None:
        return False
    match outcome:
        case Done(version):
            transition.put_state(purpose.topic_partition, KnownState(purpose.state, version))
            return True
        case Conflict(current) if current is not None:
            # Another writer was first: a leader of an old protocol, or an earlier term of ours. Decide on that state.
            transition.put_state(purpose.topic_partition, current)
            return topic.name in transition.deletions or not leader_election.update_state(
                transition, topic, purpose.topic_partition.partition
            )
        case Conflict() | StoreWriteRefused():
            return False
        case _:
            assert_never(outcome)
