"""Partitions whose leader epoch in the store is older than the one of a replica: the store was restored.

A coordination store restored from an older backup has older leader epochs, leaders and ISRs. A broker answers
FENCED_LEADER_EPOCH to a command whose leader epoch is older than its own, or, before it has one, than the last epoch in
its log. In the old epoch a leader would append records that followers cannot distinguish from those of the epoch's
former leader (KIP-101, KIP-320).

So that replica is elected, alone in the ISR, in a leader epoch far above the old one: it has records of a later epoch
than the store knows. The others fetch from it and rejoin the ISR.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import LeaderEpoch
from sordini.replication.cluster_model import LeaderAndIsr
from sordini.replication.controller.machine.events import CommandAnswered
from sordini.replication.controller.machine.transition import ControllerTransition

LEADER_EPOCH_RAISE: Final = 1_000
"""Added to a restored leader epoch to exceed all epochs since the backup. If it does not, it is added again."""
EPOCH_MAX: Final = 2**31 - 1


def answered(transition: ControllerTransition, event: CommandAnswered) -> None:
    """A broker rejected partitions whose leader epoch is older than its own."""
    broker, command = transition.brokers.get(event.broker_id), event.command
    if not isinstance(command, LeaderAndIsr) or broker is None or broker.epoch != command.broker_epoch:
        return  # Another command, or an answer of a former incarnation.
    if event.answer.error:
        return
    for info in command.partitions:
        name, number = info.topic_partition
        topic, known = transition.assignment(name), transition.states(name).get(number)
        if (
            event.answer.partitions.get(info.topic_partition) != ErrorCode.FENCED_LEADER_EPOCH
            or topic is None
            or known is None
            or name in transition.deletions
            or known.state.leader_epoch != info.state.leader_epoch  # A newer state has been decided.
            or event.broker_id not in topic.replicas.get(number, ())
            or not transition.is_eligible(event.broker_id, info.topic_partition)
        ):
            continue
        state = transition.next_state(known.state, event.broker_id, (event.broker_id,))
        epoch = LeaderEpoch(min(known.state.leader_epoch + LEADER_EPOCH_RAISE, EPOCH_MAX))
        transition.write_state(info.topic_partition, state._replace(leader_epoch=epoch))
