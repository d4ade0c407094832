"""Leaders and ISRs that follow from which brokers are live, without any request.

Live are those whose session with the coordination store has not ended (`broker/cluster/membership.py` registers them);
a broker that asks to be shut down is in `controlled_shutdown.py`.

The successor of a failed leader is the first eligible in-sync replica of the assignment. A broker that is shutting down
hands over its leaderships where another replica is eligible, and leaves the ISRs. A replica in a failed log directory
counts as a replica on a failed broker. The ISR never becomes empty: while none of its members is eligible, the
partition has no leader and the ISR is kept until a member returns. If the topic allows unclean elections, any live
replica may lead instead. That setting is read only when it matters (see `unclean_elections`).

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import PartitionState, TopicAssignment
from sordini.replication.controller.machine import election_algorithms
from sordini.replication.controller.machine.events import StoreWrite, UncleanSettingsRead
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.controller.machine.unclean_elections import Deferred, elect_without_in_sync
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Create


def update_states(
    transition: ControllerTransition,
    topic: TopicAssignment,
    uninterrupted: Collection[BrokerId],
    live: Collection[BrokerId],
    partitions: Collection[int] | None = None,
) -> list[TopicPartition]:
    """Write the states that must change with these live brokers; the partitions concerned.

    Partitions whose unclean election setting is being read are included: their states change in a later step.
    `uninterrupted` are the live brokers of an unchanged incarnation. A broker that restarted lost its leaderships and
    left the ISRs, but may be elected if no other replica is eligible. `partitions` limits it to some of the topic.
    """
    decided = []
    states = transition.states(topic.name)
    if not states and any(replica in live for held in topic.replicas.values() for replica in held):
        transition.write(StoreWrite(Create(paths.partitions(topic.name))))
    for partition, replicas in sorted(topic.replicas.items()):
        if partitions is not None and partition not in partitions:
            continue
        topic_partition, known = TopicPartition(topic.name, partition), states.get(partition)
        if known is None:
            present = tuple(r for r in replicas if r in live and transition.is_eligible(r, topic_partition))
            if not present:
                continue  # No replica is live: decided when one registers.
            transition.write(StoreWrite(Create(paths.partition(topic_partition))))
            transition.write_state(topic_partition, transition.first_state(present[0], present))
        else:
            state = next_state_of(transition, topic_partition, known.state, replicas, uninterrupted, live)
            if state is None:
                continue
            if isinstance(state, PartitionState):
                transition.write_state(topic_partition, state)
        decided.append(topic_partition)
    return decided


def update_state(
    transition: ControllerTransition, topic: TopicAssignment, partition: int, *, force_new_epoch: bool = False
) -> bool:
    """Write what follows from a state that another writer left; false when it may stay as it is.

    `force_new_epoch` begins a new leader epoch in any case: the state must reach brokers, which accept only newer ones.
    """
    known = transition.states(topic.name)[partition].state
    replicas, live, topic_partition = (
        topic.replicas[partition],
        transition.brokers.keys(),
        TopicPartition(topic.name, partition),
    )
    state = next_state_of(transition, topic_partition, known, replicas, live, live)
    if state is None and force_new_epoch:
        state = transition.next_state(known, known.leader, known.isr)
    if isinstance(state, PartitionState):
        transition.write_state(topic_partition, state)
    return state is not None


def next_state_of(
    transition: ControllerTransition,
    topic_partition: TopicPartition,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    uninterrupted: Collection[BrokerId],
    live: Collection[BrokerId],
    *,
    unclean: bool | None = None,
) -> PartitionState | Deferred | None:
    """The state that follows, or None if the present one may stay.

    `unclean`: whether a replica out of sync may lead; None is unknown, and is read if it matters.
    """
    if _is_unaffected(transition, state, replicas, uninterrupted):
        return None
    eligible = [
        replica for replica in replicas if replica in uninterrupted and transition.is_eligible(replica, topic_partition)
    ]
    leader = state.leader
    keeps_leader = (
        leader is not None
        and leader in uninterrupted
        and leader in replicas
        and leader in state.isr
        and transition.is_online(leader, topic_partition)
    )
    if leader not in eligible or not keeps_leader:
        winner = election_algorithms.elect_offline(replicas, state.isr, eligible)
        if winner is None and not keeps_leader:
            live_replicas = [replica for replica in live if transition.is_eligible(replica, topic_partition)]
            winner = election_algorithms.elect_offline(replicas, state.isr, live_replicas)
        if winner is not None or not keeps_leader:
            leader, keeps_leader = winner, False
        # Otherwise it is shutting down and no other replica is eligible: it leads until it is gone.
    if leader is None:
        return elect_without_in_sync(transition, topic_partition, state, replicas, unclean=unclean)
    isr = tuple(replica for replica in state.isr if replica in eligible or replica == leader)
    return None if keeps_leader and isr == state.isr else transition.next_state(state, leader, isr)


def unclean_settings_read(transition: ControllerTransition, event: UncleanSettingsRead) -> None:
    """Decide the elections that were deferred until the settings were read."""
    live = transition.brokers.keys()
    for topic_partition in event.partitions:
        name, partition = topic_partition
        topic, known = transition.assignment(name), transition.states(name).get(partition)
        if topic is None or known is None or name in transition.deletions or partition not in topic.replicas:
            continue
        state = next_state_of(
            transition,
            topic_partition,
            known.state,
            topic.replicas[partition],
            live,
            live,
            unclean=name in event.allowed,
        )
        if isinstance(state, PartitionState):
            transition.write_state(topic_partition, state)


def _is_unaffected(
    transition: ControllerTransition,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    uninterrupted: Collection[BrokerId],
) -> bool:
    """Whether nothing has happened to the leader and the ISR.

    When a broker of a large cluster fails, that is nearly every partition: this check instead of one for each replica
    takes a fifth of the time.
    """
    if transition.offline or state.leader not in state.isr:
        return False
    leaving = transition.shutting_down
    return all(member in uninterrupted and member in replicas and member not in leaving for member in state.isr)
