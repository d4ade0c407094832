"""UpdateMetadata: topic ids from v7 on, broker epochs from v5, names of listeners from v3, offline replicas from v4.

A partition that is to be forgotten is one with the leader -2.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.control.wire_values import ANY_BROKER_EPOCH, brokers, by_topic, leader_of, number_of
from sordini.protocol.errors import WireError
from sordini.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    DeletedPartition,
    Endpoint,
    PartitionInfo,
    PartitionState,
    UpdateMetadata,
)

LEADER_OF_DELETED: Final = -2
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their number on the wire."""


def request_of(command: UpdateMetadata, version: int) -> UpdateMetadataRequest:
    """The request; addresses of a security protocol without a number are left out."""
    gone = [_deletion(deleted, command.controller_epoch) for deleted in command.deleted]
    request = UpdateMetadataRequest(
        controller_id=command.controller_id,
        controller_epoch=command.controller_epoch,
        broker_epoch=command.broker_epoch,
        live_brokers=[_living(broker, version) for broker in command.live_brokers],
    )
    if version < 5:
        request.ungrouped_partition_states = [_spelled(info) for info in (*command.partitions, *gone)]
    else:
        request.topic_states = [
            UpdateMetadataTopicState(topic_name=topic, topic_id=infos[0].topic_id, partition_states=rows)
            # One by one: a topic may be gone and there again, with another id.
            for topic, infos, rows in (*by_topic(command.partitions, _spelled), *by_topic(gone, _spelled))
        ]
    return request


def _deletion(gone: DeletedPartition, controller_epoch: int) -> PartitionInfo:
    state = PartitionState(BrokerId(LEADER_OF_DELETED), LeaderEpoch(0), (), controller_epoch)
    return PartitionInfo(gone.topic_partition, gone.topic_id, (), state, 0)


def _spelled(info: PartitionInfo) -> UpdateMetadataPartitionState:
    state = info.state
    return UpdateMetadataPartitionState(
        topic_name=info.topic_partition.topic,
        partition_index=info.topic_partition.partition,
        controller_epoch=state.controller_epoch,
        leader=number_of(state.leader),
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=info.partition_epoch,
        replicas=list(info.replicas),
        offline_replicas=list(info.offline_replicas),
    )


def _living(broker: Broker, version: int) -> UpdateMetadataBroker:
    living = UpdateMetadataBroker(id=broker.broker_id, rack=broker.rack)
    known = [endpoint for endpoint in broker.endpoints if endpoint.security_protocol in SECURITY_PROTOCOLS]
    if version == 0:
        plain = [endpoint for endpoint in known if endpoint.security_protocol == "PLAINTEXT"]
        if plain:
            living.v0_host, living.v0_port = plain[0].host, plain[0].port
        return living
    living.endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener,
            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
        )
        for endpoint in known
    ]
    return living


def command_of(request: UpdateMetadataRequest) -> UpdateMetadata:
    """The command; raises WireError for a security protocol that there is not."""
    states = [(state.topic_name, NO_TOPIC_ID, state) for state in request.ungrouped_partition_states]
    states += [
        (topic.topic_name, TopicId(topic.topic_id), state)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return UpdateMetadata(
        BrokerId(request.controller_id),
        request.controller_epoch,
        request.broker_epoch,
        tuple(_broker(living) for living in request.live_brokers),
        tuple(_read(*state) for state in states if state[2].leader != LEADER_OF_DELETED),
        tuple(
            DeletedPartition(TopicPartition(topic, state.partition_index), topic_id)
            for topic, topic_id, state in states
            if state.leader == LEADER_OF_DELETED
        ),
    )


def _read(topic: str, topic_id: TopicId, state: UpdateMetadataPartitionState) -> PartitionInfo:
    return PartitionInfo(
        TopicPartition(topic, state.partition_index),
        topic_id,
        brokers(state.replicas),
        PartitionState(
            leader_of(state.leader), LeaderEpoch(state.leader_epoch), brokers(state.isr), state.controller_epoch
        ),
        state.zk_version,
        offline_replicas=brokers(state.offline_replicas),
    )


def _broker(living: UpdateMetadataBroker) -> Broker:
    endpoints = [_endpoint(told) for told in living.endpoints]
    if living.v0_host:
        endpoints.append(Endpoint("PLAINTEXT", living.v0_host, living.v0_port))
    return Broker(BrokerId(living.id), ANY_BROKER_EPOCH, tuple(endpoints), living.rack or None)


def _endpoint(told: UpdateMetadataEndpoint) -> Endpoint:
    if not 0 <= told.security_protocol < len(SECURITY_PROTOCOLS):
        raise WireError(f"there is no security protocol {told.security_protocol}")
    protocol = SECURITY_PROTOCOLS[told.security_protocol]
    # Before listeners had names, a broker had one for each security protocol.
    return Endpoint(told.listener or protocol, told.host, told.port, protocol)
