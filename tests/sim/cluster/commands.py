"""The controller's commands as bytes: encoded here from the documents, without the product's code.

So a mistake in the product's encoding is not made on both ends of the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sordini.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from sordini.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from sordini.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import PartitionState
from sordini.testing.simulation.simulated_network import Address

LISTENER = "PLAINTEXT"
SECURITY_PROTOCOLS = {LISTENER: 0, "SASL_SSL": 3}
"""By the names of listeners, which are those of the protocols."""


class Sender(NamedTuple):
    """The controller that sends a command."""

    controller_id: int
    controller_epoch: int


class ReportedState(NamedTuple):
    """One partition's state, its node's version, and its replicas."""

    partition: TopicPartition
    state: PartitionState
    version: int
    replicas: tuple[BrokerId, ...]


def leader_and_isr(
    sender: Sender,
    broker_epoch: int,
    reported: Sequence[ReportedState],
    ids: Mapping[str, TopicId],
    addresses: Mapping[int, Address],
    *,
    is_new: bool,
) -> LeaderAndIsrRequest:
    leaders = sorted({each.state.leader for each in reported if each.state.leader in addresses})
    return LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=ids[topic],
                partition_states=[
                    LeaderAndIsrPartitionState(
                        partition_index=each.partition.partition,
                        controller_epoch=each.state.controller_epoch,
                        leader=-1 if each.state.leader is None else each.state.leader,
                        leader_epoch=each.state.leader_epoch,
                        isr=list(each.state.isr),
                        partition_epoch=each.version,
                        replicas=list(each.replicas),
                        is_new=is_new,
                    )
                    for each in of_topic
                ],
            )
            for topic, of_topic in _by_topic(reported)
        ],
        live_leaders=[
            LeaderAndIsrLiveLeader(broker_id=leader, host_name=addresses[leader][0], port=addresses[leader][1])
            for leader in leaders
        ],
    )


def update_metadata(
    sender: Sender,
    broker_epoch: int,
    reported: Sequence[ReportedState],
    ids: Mapping[str, TopicId],
    addresses: Mapping[int, Address],
    listener: str,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=ids[topic],
                partition_states=[
                    UpdateMetadataPartitionState(
                        partition_index=each.partition.partition,
                        controller_epoch=each.state.controller_epoch,
                        leader=-1 if each.state.leader is None else each.state.leader,
                        leader_epoch=each.state.leader_epoch,
                        isr=list(each.state.isr),
                        zk_version=each.version,
                        replicas=list(each.replicas),
                        offline_replicas=[replica for replica in each.replicas if replica not in addresses],
                    )
                    for each in of_topic
                ],
            )
            for topic, of_topic in _by_topic(reported)
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=port, host=host, listener=listener, security_protocol=SECURITY_PROTOCOLS[listener]
                    )
                ],
                rack=None,
            )
            for broker_id, (host, port) in sorted(addresses.items())
        ],
    )


def stop_replica(sender: Sender, broker_epoch: int, reported: Sequence[ReportedState]) -> StopReplicaRequest:
    """Stop following these and keep their logs."""
    return StopReplicaRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            StopReplicaTopicState(
                topic_name=topic,
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=each.partition.partition,
                        leader_epoch=each.state.leader_epoch,
                        delete_partition=False,
                    )
                    for each in of_topic
                ],
            )
            for topic, of_topic in _by_topic(reported)
        ],
    )


def _by_topic(reported: Iterable[ReportedState]) -> list[tuple[str, list[Any]]]:
    topics: dict[str, list[ReportedState]] = {}
    for each in reported:
        topics.setdefault(each.partition.topic, []).append(each)
    return sorted(topics.items())
