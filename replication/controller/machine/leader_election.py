"""Leaders and ISRs that follow from which brokers are live, without any request.

The successor of a failed leader is the first eligible in-sync replica of the assignment. A broker that is shutting down
hands over its leaderships where another replica is eligible, and leaves the ISRs. A replica in a failed log directory
counts as a replica on a failed broker. The ISR never becomes empty: while none of its members is eligible, the
partition has no leader and the ISR is kept until a member returns. If the topic allows unclean elections, any live
replica may lead instead. That setting is read only when it matters (see `unclean_elections`).

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import PartitionState, TopicAssignment
from sordini.replication.controller.machine import election_algorithms
from sordini.replication.controller.machine.events import Write
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Create


class Deferred(Enum):
    """A decision that is made in a later step."""

    UNCLEAN_SETTING = "no in-sync replica is eligible; the topic's unclean election setting is being read"


def update_states(
    transition: Transition,
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
        transition.write(Write(Create(paths.partitions(topic.name))))
    for partition, replicas in sorted(topic.replicas.items()):
        if partitions is not None and partition not in partitions:
            continue
        topic_partition, known = TopicPartition(topic.name, partition), states.get(partition)
        if known is None:
            present = tuple(r for r in replicas if r in live and transition.is_eligible(r, topic_partition))
            if not present:
                continue  # No replica is live: decided when one registers.
            transition.write(Write(Create(paths.partition(topic_partition))))
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
    transition: Transition, topic: TopicAssignment, partition: int, *, force_new_epoch: bool = False
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
    transition: Transition,
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
        return _without_in_sync(transition, topic_partition, state, replicas, unclean=unclean)
    isr = tuple(replica for replica in state.isr if replica in eligible or replica == leader)
    return None if keeps_leader and isr == state.isr else transition.next_state(state, leader, isr)


def _without_in_sync(
    transition: Transition,
    topic_partition: TopicPartition,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    *,
    unclean: bool | None,
) -> PartitionState | Deferred | None:
    """The state of a partition without an eligible in-sync replica."""
    lagging = next((replica for replica in replicas if transition.is_eligible(replica, topic_partition)), None)
    if lagging is not None and unclean:
        return transition.unclean_state(state, lagging)
    if lagging is not None and unclean is None:
        transition.read_unclean_setting(topic_partition)
        # A partition without a leader is announced as such now; it gets one only if the setting allows it.
        return None if state.leader is None else Deferred.UNCLEAN_SETTING
    # The ISR is kept: any of its members may lead when it returns, and no other replica.
    return None if state.leader is None else transition.next_state(state, None, state.isr)


def _is_unaffected(
    transition: Transition, state: PartitionState, replicas: tuple[BrokerId, ...], uninterrupted: Collection[BrokerId]
) -> bool:
    """Whether nothing has happened to the leader and the ISR.

    When a broker of a large cluster fails, that is nearly every partition: this check instead of one for each replica
    takes a fifth of the time.
    """
    if transition.offline or state.leader not in state.isr:
        return False
    leaving = transition.shutting_down
    return all(member in uninterrupted and member in replicas and member not in leaving for member in state.isr)
