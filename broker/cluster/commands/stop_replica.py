"""StopReplica: leader epochs from v3 on, broker epochs from v1; until v2 one `delete` for all partitions."""

from __future__ import annotations

from typing import Final

from sordini.broker.cluster.commands.wire_values import by_topic, code_of
from sordini.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import CommandAnswer, StoppedReplica, StopReplica

EPOCH_UNKNOWN: Final = LeaderEpoch(-1)


def request_of(command: StopReplica, version: int) -> StopReplicaRequest:
    """The request. Until v2 the command must delete all of its partitions or none."""
    request = StopReplicaRequest(
        controller_id=command.controller_id,
        controller_epoch=command.controller_epoch,
        broker_epoch=command.broker_epoch,
    )
    if version >= 3:
        request.topic_states = [
            StopReplicaTopicState(topic_name=topic, partition_states=rows)
            for topic, _, rows in by_topic(command.partitions, _encode)
        ]
        return request
    deletes = {replica.delete for replica in command.partitions}
    assert len(deletes) < 2, f"StopReplica v{version} cannot delete some and keep others"
    request.delete_partitions = True in deletes
    if version == 0:
        request.ungrouped_partitions = [
            StopReplicaPartitionV0(topic_name=topic, partition_index=index)
            for (topic, index), _, _ in command.partitions
        ]
    else:
        request.topics = [
            StopReplicaTopicV1(name=topic, partition_indexes=indexes)
            for topic, _, indexes in by_topic(command.partitions, lambda replica: replica.topic_partition.partition)
        ]
    return request


def _encode(replica: StoppedReplica) -> StopReplicaPartitionState:
    return StopReplicaPartitionState(
        partition_index=replica.topic_partition.partition,
        leader_epoch=replica.leader_epoch,
        delete_partition=replica.delete,
    )


def command_of(request: StopReplicaRequest) -> StopReplica:
    """The command."""
    names = [TopicPartition(row.topic_name, row.partition_index) for row in request.ungrouped_partitions]
    names += [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    replicas = [StoppedReplica(name, EPOCH_UNKNOWN, request.delete_partitions) for name in names]
    replicas += [
        StoppedReplica(
            TopicPartition(topic.topic_name, state.partition_index),
            LeaderEpoch(state.leader_epoch),
            state.delete_partition,
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return StopReplica(BrokerId(request.controller_id), request.controller_epoch, request.broker_epoch, tuple(replicas))


def response_of(command: StopReplica, answer: CommandAnswer) -> StopReplicaResponse:
    """The response; it names every partition."""
    return StopReplicaResponse(
        error_code=answer.error,
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=name.topic, partition_index=name.partition, error_code=code_of(answer, name)
            )
            for name, _, _ in command.partitions
        ],
    )


def answer_of(response: StopReplicaResponse) -> CommandAnswer:
    """The answer that the response carries."""
    return CommandAnswer(
        response.error_code,
        {
            TopicPartition(row.topic_name, row.partition_index): row.error_code
            for row in response.partition_errors
            if row.error_code
        },
    )
