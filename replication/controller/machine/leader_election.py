"""What state a partition must go to, given who is alive: the rules by which leaders and in-sync sets change by
themselves, without anybody's wish.

A leader that is lost is followed by the first in-sync replica of the assignment that may lead. A broker that is
shutting down gives up its leaderships where somebody else may take them, and its places in in-sync sets; one whose log
directory failed has lost that replica as if it were dead. The in-sync set never becomes empty: where none of it may
lead, nobody leads, and it is kept whole until one of it is back. Unless the topic allows unclean elections: then any
replica may lead that is there. Whether it does is asked only when it matters (see `unclean`).

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
    """A decision that is not made in this step."""

    UNCLEAN_SETTING = "nobody who is in sync is there; whether anybody else may lead is being asked"


def decide(
    transition: Transition,
    topic: TopicAssignment,
    uninterrupted: Collection[BrokerId],
    live: Collection[BrokerId],
    partitions: Collection[int] | None = None,
) -> list[TopicPartition]:
    """Write the states that must change now that these brokers are alive; the partitions concerned.

    Those that wait for a ruling are among them: their states change in the step after that. `uninterrupted` are the brokers
    that have been alive without a break. One that broke off and came back lost its leadership and its place in the
    in-sync sets with its former life, but may lead again if there is nobody better. Without `partitions` all of the
    topic are looked at.
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
                continue  # Nobody can hold it; decided when somebody comes.
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


def update_state(transition: Transition, topic: TopicAssignment, partition: int, *, anew: bool = False) -> bool:
    """Write what follows from a state that was found; false when it may stay as it is.

    With `anew` a new leader epoch begins in any case: brokers must hear of what was found, and obey only those.
    """
    known = transition.states(topic.name)[partition].state
    replicas, live, topic_partition = (
        topic.replicas[partition],
        transition.brokers.keys(),
        TopicPartition(topic.name, partition),
    )
    state = next_state_of(transition, topic_partition, known, replicas, live, live)
    if state is None and anew:
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
    """The state a partition must go to, or None if it may stay as it is.

    `unclean` says whether a replica may lead that is not in sync; None is not known, and asked if it matters.
    """
    if _is_whole(transition, state, replicas, uninterrupted):
        return None
    fit = [
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
    if leader not in fit or not keeps_leader:
        winner = election_algorithms.elect_offline(replicas, state.isr, fit)
        if winner is None and not keeps_leader:
            returned = [replica for replica in live if transition.is_eligible(replica, topic_partition)]
            winner = election_algorithms.elect_offline(replicas, state.isr, returned)
        if winner is not None or not keeps_leader:
            leader, keeps_leader = winner, False
        # Else it is shutting down and there is nobody to take over: it leads for as long as it is there.
    if leader is None:
        return _without_in_sync(transition, topic_partition, state, replicas, unclean=unclean)
    isr = tuple(replica for replica in state.isr if replica in fit or replica == leader)
    return None if keeps_leader and isr == state.isr else transition.next_state(state, leader, isr)


def _without_in_sync(
    transition: Transition,
    topic_partition: TopicPartition,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
    *,
    unclean: bool | None,
) -> PartitionState | Deferred | None:
    """The state of a partition of which nobody who is in sync is there."""
    lagging = next((replica for replica in replicas if transition.is_eligible(replica, topic_partition)), None)
    if lagging is not None and unclean:
        return transition.unclean_state(state, lagging)
    if lagging is not None and unclean is None:
        transition.read_unclean_setting(topic_partition)
        # Where nobody leads already brokers are told of that; it stays so unless the ruling is that it need not.
        return None if state.leader is None else Deferred.UNCLEAN_SETTING
    # The in-sync set is kept whole: any of it may lead when it comes back, and nobody else.
    return None if state.leader is None else transition.next_state(state, None, state.isr)


def _is_whole(
    transition: Transition, state: PartitionState, replicas: tuple[BrokerId, ...], uninterrupted: Collection[BrokerId]
) -> bool:
    """Whether nothing has happened to the leader and whoever is in sync.

    Of a large cluster that is nearly every partition whenever a broker comes or goes: to see it without the look at
    each replica that follows took a fifth of the time.
    """
    if transition.offline or state.leader not in state.isr:
        return False
    leaving = transition.shutting_down
    return all(member in uninterrupted and member in replicas and member not in leaving for member in state.isr)
