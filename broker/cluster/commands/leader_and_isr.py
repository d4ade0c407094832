"""LeaderAndIsr: topic ids from v5 on, broker epochs from v2, which leaders are recovering from v6.

A live leader has one address in every version: that on the inter-broker listener.
"""

from __future__ import annotations

from sordini.broker.cluster.commands.wire_values import (
    ANY_BROKER_EPOCH,
    brokers,
    by_topic,
    code_of,
    leader_of,
    number_of,
    states_of,
)
from sordini.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    CommandAnswer,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
)


def request_of(command: LeaderAndIsr, version: int, listener: str) -> LeaderAndIsrRequest:
    """The request; leaders without an address on `listener` are left out of its addresses."""
    found = [(leader, endpoint) for leader in command.live_leaders for endpoint in leader.endpoints]
    request = LeaderAndIsrRequest(
        controller_id=command.controller_id,
        controller_epoch=command.controller_epoch,
        broker_epoch=command.broker_epoch,
        live_leaders=[
            LeaderAndIsrLiveLeader(broker_id=leader.broker_id, host_name=endpoint.host, port=endpoint.port)
            for leader, endpoint in found
            if endpoint.listener == listener
        ],
    )
    if version < 2:
        request.ungrouped_partition_states = [_encode(info) for info in command.partitions]
    else:
        request.topic_states = [
            LeaderAndIsrTopicState(topic_name=topic, topic_id=infos[0].topic_id, partition_states=rows)
            for topic, infos, rows in by_topic(command.partitions, _encode)
        ]
    return request


def _encode(info: PartitionInfo) -> LeaderAndIsrPartitionState:
    state = info.state
    return LeaderAndIsrPartitionState(
        topic_name=info.topic_partition.topic,
        partition_index=info.topic_partition.partition,
        controller_epoch=state.controller_epoch,
        leader=number_of(state.leader),
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=info.partition_epoch,
        replicas=list(info.replicas),
        adding_replicas=list(info.adding),
        removing_replicas=list(info.removing),
        is_new=info.is_new,
        leader_recovery_state=int(state.recovering),
    )


def command_of(request: LeaderAndIsrRequest, listener: str) -> LeaderAndIsr:
    """The command."""
    return LeaderAndIsr(
        BrokerId(request.controller_id),
        request.controller_epoch,
        request.broker_epoch,
        tuple(_decode(*state) for state in states_of(request)),
        tuple(
            Broker(
                BrokerId(leader.broker_id), ANY_BROKER_EPOCH, (BrokerEndpoint(listener, leader.host_name, leader.port),)
            )
            for leader in request.live_leaders
        ),
    )


def _decode(topic: str, topic_id: TopicId, state: LeaderAndIsrPartitionState) -> PartitionInfo:
    return PartitionInfo(
        TopicPartition(topic, state.partition_index),
        topic_id,
        brokers(state.replicas),
        PartitionState(
            leader_of(state.leader),
            LeaderEpoch(state.leader_epoch),
            brokers(state.isr),
            state.controller_epoch,
            recovering=state.leader_recovery_state == 1,
        ),
        state.partition_epoch,
        adding=brokers(state.adding_replicas),
        removing=brokers(state.removing_replicas),
        is_new=state.is_new,
    )


def response_of(command: LeaderAndIsr, answer: CommandAnswer) -> LeaderAndIsrResponse:
    """The response; it names every partition: all in one list until v4, by topic id from v5 on."""
    response = LeaderAndIsrResponse(error_code=answer.error)
    topics: dict[TopicId, LeaderAndIsrTopicError] = {}
    for info in command.partitions:
        name = info.topic_partition
        row = LeaderAndIsrPartitionError(
            topic_name=name.topic, partition_index=name.partition, error_code=code_of(answer, name)
        )
        response.partition_errors.append(row)
        topic = topics.setdefault(info.topic_id, LeaderAndIsrTopicError(topic_id=info.topic_id))
        topic.partition_errors.append(row)
    response.topics = list(topics.values())
    return response


def answer_of(command: LeaderAndIsr, response: LeaderAndIsrResponse) -> CommandAnswer:
    """The answer that the response carries."""
    by_name = {(row.topic_name, row.partition_index): row.error_code for row in response.partition_errors}
    by_id = {
        (topic.topic_id, row.partition_index): row.error_code
        for topic in response.topics
        for row in topic.partition_errors
    }
    codes = {}
    for info in command.partitions:
        name = info.topic_partition
        code = by_name.get(name) or by_id.get((info.topic_id, name.partition))
        if code:
            codes[name] = code
    return CommandAnswer(response.error_code, codes)
