"""Requests of brokers to the scripted controller: AlterPartition, AllocateProducerIds, ControlledShutdown.

The rules are a controller's: the sender's broker epoch and leader epoch are checked, the set is changed only on the state that
it was decided on, and members that may not join are refused. Answers come late, or not at all, by the seed.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlteredTopicData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
)
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from sordini.protocol.types import BrokerId, TopicPartition
from tests.sim.cluster.controller import ScriptedController
from tests.sim.cluster.service import Reply

PRODUCER_IDS = 1_000

_AS_STATE = frozenset({ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Refusals that a controller of ours words as the state in force, below version 2."""


@dataclasses.dataclass(slots=True)
class Manners:
    """How requests are treated: chances for each, times in seconds."""

    late_chance: float = 0.15
    late_max: float = 1.0
    lost_chance: float = 0.08
    """Carried out, and the connection breaks before the answer."""
    unheard_chance: float = 0.05
    """The connection breaks before it is carried out."""
    silent_chance: float = 0.03
    """Carried out and never answered."""
    refusal_chance: float = 0.05
    """An expansion is refused for its members."""

    def improve(self) -> None:
        self.late_chance = self.lost_chance = self.unheard_chance = self.silent_chance = self.refusal_chance = 0.0


class Grants:
    """Answers requests in the controller's name."""

    def __init__(self, controller: ScriptedController, alter_partition_max: int, seed: int) -> None:
        self.manners = Manners()
        self.granted = 0
        self.refused = 0
        self._controller = controller
        self._versions_max = {
            ApiKey.API_VERSIONS: 4,
            ApiKey.ALTER_PARTITION: alter_partition_max,
            ApiKey.ALLOCATE_PRODUCER_IDS: 0,
            ApiKey.CONTROLLED_SHUTDOWN: 3,
        }
        self._random = random.Random(f"grants {seed}")
        self._next_producer_id = 0

    def answer(self, api_key: ApiKey, version: int, request: Any) -> Reply:
        if api_key == ApiKey.API_VERSIONS:
            keys = [ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in self._versions_max.items()]
            return Reply(ApiVersionsResponse(api_keys=keys))
        manners, draw = self.manners, self._random.random
        delay = draw() * manners.late_max if draw() < manners.late_chance else 0.0
        if draw() < manners.unheard_chance:
            return Reply(None, delay, hangs_up=True)
        message = self._carry_out(api_key, version, request)
        if draw() < manners.silent_chance:
            return Reply(None)
        return Reply(message, delay, hangs_up=draw() < manners.lost_chance)

    def _carry_out(self, api_key: ApiKey, version: int, request: Any) -> Any:
        if api_key == ApiKey.ALTER_PARTITION:
            return self._alter(request, version)
        if api_key == ApiKey.ALLOCATE_PRODUCER_IDS:
            return self._allocate()
        assert api_key == ApiKey.CONTROLLED_SHUTDOWN, api_key
        remaining = self._controller.shut_down(request.broker_id)
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in remaining
            ]
        )

    def _allocate(self) -> AllocateProducerIdsResponse:
        start = self._next_producer_id
        self._next_producer_id += PRODUCER_IDS
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=PRODUCER_IDS)

    def _alter(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        broker = self._controller.states.live().get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        names = {topic_id: name for name, topic_id in self._controller.states.ids.items()}
        topics = []
        for topic in request.topics:
            name = names.get(topic.topic_id, "") if version >= 2 else topic.topic_name
            answers = [self._alter_one(request.broker_id, name, wanted, version) for wanted in topic.partitions]
            topics.append(AlteredTopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=answers))
        return AlterPartitionResponse(topics=topics)

    def _alter_one(self, broker_id: int, topic: str, wanted: PartitionData, version: int) -> AlteredPartitionData:
        controller = self._controller
        partition = TopicPartition(topic, wanted.partition_index)
        reported = controller.states.reported(partition) if partition in controller.states.replicas else None
        members = {BrokerId(number): -1 for number in wanted.new_isr}
        members |= {BrokerId(each.broker_id): each.broker_epoch for each in wanted.new_isr_with_epochs}
        isr = tuple(members)
        if reported is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if version >= 2 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif wanted.leader_epoch < reported.state.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.leader_epoch > reported.state.leader_epoch or wanted.partition_epoch > reported.version:
            code = ErrorCode.NOT_CONTROLLER
        elif reported.state.leader != broker_id:
            code = ErrorCode.INVALID_REQUEST
        elif set(isr) == set(reported.state.isr):
            return _altered(
                wanted, reported.state.leader, reported.state.leader_epoch, reported.state.isr, reported.version
            )
        elif wanted.partition_epoch != reported.version:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif not self._may_join(members, reported.state.isr):
            code = ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
        else:
            self.granted += 1
            reported = controller.altered(reported, isr)
            return _altered(wanted, broker_id, reported.state.leader_epoch, isr, reported.version)
        self.refused += 1
        if version < 2 and reported is not None and self.refused % 2 and code in _AS_STATE:
            # So a controller of ours refuses, and one of Apache Kafka by a code.
            return _altered(
                wanted, reported.state.leader, reported.state.leader_epoch, reported.state.isr, reported.version
            )
        return AlteredPartitionData(partition_index=wanted.partition_index, error_code=code)

    def _may_join(self, members: dict[BrokerId, int], isr: tuple[BrokerId, ...]) -> bool:
        live = self._controller.states.live()
        for member, epoch in members.items():
            if member in isr:
                continue
            broker = live.get(member)
            if broker is None or member in self._controller.shutting_down or epoch not in (-1, broker.epoch):
                return False
            if self._random.random() < self.manners.refusal_chance:
                return False
        return True


def _altered(
    wanted: PartitionData, leader: int, leader_epoch: int, isr: tuple[BrokerId, ...], version: int
) -> AlteredPartitionData:
    return AlteredPartitionData(
        partition_index=wanted.partition_index,
        leader_id=leader,
        leader_epoch=leader_epoch,
        isr=list(isr),
        partition_epoch=version,
    )
