"""UpdateMetadata: topic ids from v7 on, broker epochs from v5, names of listeners from v3, offline replicas from v4.

A deleted partition has the leader -2.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.cluster.commands.wire_values import (
    ANY_BROKER_EPOCH,
    brokers,
    by_topic,
    leader_of,
    number_of,
    states_of,
)
from sordini.protocol.errors import WireError
from sordini.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    DeletedPartition,
    PartitionInfo,
    PartitionState,
    UpdateMetadata,
)

LEADER_OF_DELETED: Final = -2
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their number on the wire."""


def request_of(command: UpdateMetadata, version: int) -> UpdateMetadataRequest:
    """The request; addresses of a security protocol without a number are left out."""
    deleted = [_deletion(partition, command.controller_epoch) for partition in command.deleted]
    request = UpdateMetadataRequest(
        controller_id=command.controller_id,
        controller_epoch=command.controller_epoch,
        broker_epoch=command.broker_epoch,
        live_brokers=[_live_broker(broker, version) for broker in command.live_brokers],
    )
    if version < 5:
        request.ungrouped_partition_states = [_encode(info) for info in (*command.partitions, *deleted)]
    else:
        request.topic_states = [
            UpdateMetadataTopicState(topic_name=topic, topic_id=infos[0].topic_id, partition_states=rows)
            # Separately: a topic may be deleted and created again, with another id.
            for topic, infos, rows in (*by_topic(command.partitions, _encode), *by_topic(deleted, _encode))
        ]
    return request


def _deletion(partition: DeletedPartition, controller_epoch: int) -> PartitionInfo:
    state = PartitionState(BrokerId(LEADER_OF_DELETED), LeaderEpoch(0), (), controller_epoch)
    return PartitionInfo(partition.topic_partition, partition.topic_id, (), state, 0)


def _encode(info: PartitionInfo) -> UpdateMetadataPartitionState:
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


def _live_broker(broker: Broker, version: int) -> UpdateMetadataBroker:
    row = UpdateMetadataBroker(id=broker.broker_id, rack=broker.rack)
    known = [endpoint for endpoint in broker.endpoints if endpoint.security_protocol in SECURITY_PROTOCOLS]
    if version == 0:
        plain = [endpoint for endpoint in known if endpoint.security_protocol == "PLAINTEXT"]
        if plain:
            row.v0_host, row.v0_port = plain[0].host, plain[0].port
        return row
    row.endpoints = [
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener,
            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
        )
        for endpoint in known
    ]
    return row


def command_of(request: UpdateMetadataRequest) -> UpdateMetadata:
    """The command; raises WireError for an unknown security protocol."""
    states = states_of(request)
    return UpdateMetadata(
        BrokerId(request.controller_id),
        request.controller_epoch,
        request.broker_epoch,
        tuple(_broker(row) for row in request.live_brokers),
        tuple(_decode(*state) for state in states if state[2].leader != LEADER_OF_DELETED),
        tuple(
            DeletedPartition(TopicPartition(topic, state.partition_index), topic_id)
            for topic, topic_id, state in states
            if state.leader == LEADER_OF_DELETED
        ),
    )


def _decode(topic: str, topic_id: TopicId, state: UpdateMetadataPartitionState) -> PartitionInfo:
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


def _broker(row: UpdateMetadataBroker) -> Broker:
    endpoints = [_endpoint(one) for one in row.endpoints]
    if row.v0_host:
        endpoints.append(BrokerEndpoint("PLAINTEXT", row.v0_host, row.v0_port))
    return Broker(BrokerId(row.id), ANY_BROKER_EPOCH, tuple(endpoints), row.rack or None)


def _endpoint(row: UpdateMetadataEndpoint) -> BrokerEndpoint:
    if not 0 <= row.security_protocol < len(SECURITY_PROTOCOLS):
        raise WireError(f"unknown security protocol {row.security_protocol}")
    protocol = SECURITY_PROTOCOLS[row.security_protocol]
    # Before v3 listeners have no names: a broker has one for each security protocol.
    return BrokerEndpoint(row.listener or protocol, row.host, row.port, protocol)
