"""Requests of other brokers to the controller: AlterPartition, ControlledShutdown and AllocateProducerIds.

Served to brokers only: the routes are guarded where they are registered.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.slice_scheduler import SliceScheduler
from sordini.broker.security.rules.simple_rules import BROKERS_ONLY
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlteredTopicData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from sordini.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from sordini.protocol.types import BrokerId, TopicId
from sordini.replication.cluster_model import KnownState
from sordini.replication.controller.machine.events import IsrChange, IsrChangesRequested
from sordini.replication.controller.requests import ControllerRequests

Results = Mapping[IsrChange, KnownState | ErrorCode]

_WITH_EPOCHS = 3
"""The first version with the broker epochs of the ISR (KIP-903)."""
_EPOCH_UNKNOWN = -1


class ControllerRequestsHandler:
    """Hands requests to the controller of this process."""

    def __init__(self, requests: ControllerRequests, later: RespondLater, slices: SliceScheduler) -> None:
        self._slices = slices
        self._requests = requests
        self._later = later

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.ALTER_PARTITION,
                lambda call: self._later(call, self._alter(call)),
                _alter_error_response,
                BROKERS_ONLY,
            ),
            Route(
                ApiKey.CONTROLLED_SHUTDOWN,
                lambda call: self._later(call, self._shut_down(call)),
                _shutdown_error_response,
                BROKERS_ONLY,
            ),
            Route(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                lambda call: self._later(call, self._allocate(call)),
                _ids_error_response,
                BROKERS_ONLY,
            ),
        ]

    async def _alter(self, call: Call) -> AlterPartitionResponse:
        request: AlterPartitionRequest = call.body
        changes = [
            (topic, [_change(topic, row, call.version) async for row in self._slices.paced(topic.partitions)])
            async for topic in self._slices.paced(request.topics)
        ]
        flat = tuple(change for _, some in changes for change in some)
        results = await self._requests.alter_partitions(
            IsrChangesRequested(BrokerId(request.broker_id), request.broker_epoch, flat)
        )
        return AlterPartitionResponse(
            topics=[
                AlteredTopicData(
                    topic_name=topic.topic_name,
                    topic_id=topic.topic_id,
                    partitions=[_altered(change, results) async for change in self._slices.paced(some)],
                )
                async for topic, some in self._slices.paced(changes)
            ]
        )

    async def _shut_down(self, call: Call) -> ControlledShutdownResponse:
        request: ControlledShutdownRequest = call.body
        epoch = None if request.broker_epoch == _EPOCH_UNKNOWN else request.broker_epoch
        remaining = await self._requests.shut_down(BrokerId(request.broker_id), epoch)
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=topic, partition_index=partition) for topic, partition in remaining
            ]
        )

    async def _allocate(self, call: Call) -> AllocateProducerIdsResponse:
        request: AllocateProducerIdsRequest = call.body
        block = await self._requests.allocate_producer_ids(BrokerId(request.broker_id), request.broker_epoch)
        return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=block.end - block.start)


def _change(topic: TopicData, row: PartitionData, version: int) -> IsrChange:
    members, epochs = row.new_isr, tuple[int, ...]()
    if version >= _WITH_EPOCHS:
        members = [member.broker_id for member in row.new_isr_with_epochs]
        epochs = tuple(member.broker_epoch for member in row.new_isr_with_epochs)
    return IsrChange(
        row.partition_index,
        tuple(map(BrokerId, members)),
        row.leader_epoch,
        row.partition_epoch,
        topic=topic.topic_name,
        topic_id=TopicId(topic.topic_id),
        broker_epochs=epochs,
        recovering=row.leader_recovery_state != 0,
    )


def _altered(change: IsrChange, results: Results) -> AlteredPartitionData:
    result = results.get(change, ErrorCode.UNKNOWN_SERVER_ERROR)
    if isinstance(result, ErrorCode):
        return AlteredPartitionData(partition_index=change.partition, error_code=result)
    state = result.state
    return AlteredPartitionData(
        partition_index=change.partition,
        leader_id=-1 if state.leader is None else state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=int(state.recovering),
        partition_epoch=result.version,
    )


def _alter_error_response(_request: AlterPartitionRequest, code: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)


def _shutdown_error_response(_request: ControlledShutdownRequest, code: ErrorCode) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(error_code=code)


def _ids_error_response(_request: AllocateProducerIdsRequest, code: ErrorCode) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)
