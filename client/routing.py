"""Metadata and FindCoordinator, by which a request finds its broker: messages to send and answers to read. Pure.

    request = metadata_request(["orders"])            # sent to any broker
    brokers = broker_addresses(response)              # where the brokers are
    leaders = partition_leaders(response.topics[0])   # which of them leads which partition

Which broker a request goes to is decided by `ClusterMap` (cluster_core.py) and `Cluster` (cluster.py); when to send it
again, by `retries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sordini.client.addresses import Address
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from sordini.protocol.types import NO_TOPIC_ID
from sordini.system.named_tuple import NamedTuple

TRANSACTION_KEY: Final = 1
"""The kind of key in FindCoordinator that is a transactional id."""


class PartitionLeader(NamedTuple):
    """Which broker leads a partition."""

    broker_id: int
    """Negative while there is none."""
    epoch: int
    """The leader epoch; -1 from a broker that does not report it (Metadata below version 7)."""


class GroupCoordinator(NamedTuple):
    """The answer to FindCoordinator for one group."""

    error_code: int
    error_message: str | None
    address: Address


def metadata_request(topics: Iterable[str] | None, *, creates: bool = False) -> MetadataRequest:
    """For some topics, for the brokers alone (no topic), or for all topics (None).

    With `creates`, a broker with auto.create.topics.enable creates those that do not exist.
    """
    named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=creates)


def broker_addresses(response: MetadataResponse) -> dict[int, Address]:
    """Where each live broker listens, by its id."""
    return {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}


def partition_leaders(topic: MetadataResponseTopic) -> dict[int, PartitionLeader]:
    """The leaders of a topic's partitions, by the partition's number."""
    return {row.partition_index: PartitionLeader(row.leader_id, row.leader_epoch) for row in topic.partitions}


def is_recreated(known_id: bytes, topic_id: bytes) -> bool:
    """Whether a topic of the same name is another one (KIP-516). Unknown below Metadata version 10: then it is not."""
    return NO_TOPIC_ID not in (known_id, topic_id) and known_id != topic_id


def newer_leaders(
    known: Mapping[int, PartitionLeader], found: Mapping[int, PartitionLeader]
) -> dict[int, PartitionLeader]:
    """The leaders of a response, but for those with a lower leader epoch than is known of the same topic (KIP-320).

    Brokers do not receive metadata at the same time: a response may be older than an earlier one of another broker.
    """
    return {
        number: known[number] if number in known and 0 <= leader.epoch < known[number].epoch else leader
        for number, leader in found.items()
    }


def coordinator_request(group: str) -> FindCoordinatorRequest:
    """For the coordinator of a consumer group, in any version."""
    return FindCoordinatorRequest(key=group, coordinator_keys=[group])


def transaction_coordinator_request(transactional_id: str) -> FindCoordinatorRequest:
    """For the coordinator of a transactional id; from version 1 on."""
    return FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])


def coordinator_in(response: FindCoordinatorResponse) -> GroupCoordinator:
    """The coordinator that a response names."""
    # Up to version 3 the response is about the one key, from 4 on it is a list.
    found: Any = response.coordinators[0] if response.coordinators else response
    return GroupCoordinator(found.error_code, found.error_message, Address(found.host, found.port))
