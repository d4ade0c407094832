"""Partitions whose leader epoch in the store is older than one that a replica has: the store was set back.

A coordination store that is restored from an older backup has older leader epochs, leaders and in-sync sets. A broker
answers FENCED_LEADER_EPOCH to a command whose leader epoch is older than the term in which it leads, or, where it has
no term yet, than the last epoch in its log. In the old epoch a leader would write records that followers cannot tell
from those of the former leader of that epoch (KIP-101, KIP-320).

So that replica is elected, alone in sync, in a leader epoch far above the old one: of the replicas that answer, it has
records of a later epoch than the store knows of. The others fetch from it and come back into the in-sync set.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import LeaderEpoch
from sordini.replication.cluster_model import LeaderAndIsr
from sordini.replication.controller.machine.events import CommandAnswered
from sordini.replication.controller.machine.transition import Transition

EPOCHS_AHEAD: Final = 1_000
"""How far a new leader epoch is above one that was set back: above all that were begun since the backup. Where it is
not, it is raised again.
"""
EPOCH_MAX: Final = 2**31 - 1


def answered(transition: Transition, event: CommandAnswered) -> None:
    """A broker refuses partitions whose leader epoch is older than its own."""
    broker, command = transition.brokers.get(event.broker_id), event.command
    if not isinstance(command, LeaderAndIsr) or broker is None or broker.epoch != command.broker_epoch:
        return  # Another command's answer, or one of a former life.
    if event.answer.error:
        return
    for info in command.partitions:
        name, one = info.topic_partition
        topic, known = transition.assignment(name), transition.states(name).get(one)
        if (
            event.answer.partitions.get(info.topic_partition) != ErrorCode.FENCED_LEADER_EPOCH
            or topic is None
            or known is None
            or name in transition.deletions
            or known.state.leader_epoch != info.state.leader_epoch  # Decided anew since it was sent.
            or event.broker_id not in topic.replicas.get(one, ())
            or not transition.is_eligible(event.broker_id, info.topic_partition)
        ):
            continue
        state = transition.next_state(known.state, event.broker_id, (event.broker_id,))
        epoch = LeaderEpoch(min(known.state.leader_epoch + EPOCHS_AHEAD, EPOCH_MAX))
        transition.write_state(info.topic_partition, replace(state, leader_epoch=epoch))
