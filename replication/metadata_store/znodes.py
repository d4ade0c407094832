"""Content of the store's nodes: JSON to values and back, as Apache Kafka 2.7 to 3.9 write and read it.

Decoding is tolerant: unknown keys and any order are accepted, and what cannot be decoded becomes a `Malformed` value
that names the node. Decoders do not raise: one bad node, a tool's or a newer broker's, must not stop a controller from
serving all others. Encoding is exact, down to the order of the keys.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from sordini.protocol.topic_names import partition_error
from sordini.protocol.types import (
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
    topic_id_from_text,
    topic_id_text,
)
from sordini.replication.cluster_model import Broker, BrokerEndpoint, PartitionState, TopicAssignment
from sordini.replication.metadata_store import paths
from sordini.replication.metadata_store.znode_values import (
    broker_ids,
    decode_object,
    encode_object,
    tolerant,
    whole_number,
    wire_text,
)
from sordini.system.named_tuple import NamedTuple

PRODUCER_ID_MAX = 2**63 - 1
PRODUCER_IDS_PER_BLOCK = 1000
SECURITY_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})


# /brokers/ids/N

TRANSACTION_VERSION = "transaction.version"
"""A feature of brokers and clusters: with 2 the end of each transaction raises its producer's epoch (KIP-890)."""


RULE_ENDPOINTS = "sordini_rule_endpoints"


def encode_broker(broker: Broker, timestamp_ms: int, *, jmx_port: int = -1) -> bytes:
    """Version 5. `host` and `port` name the first plaintext endpoint for readers that know no others.

    Features are registered in an exclusive cluster only (KIP-584). Addresses by rule have a key of their own: among the
    endpoints, Apache Kafka's brokers would report at each change that listeners are not identical across brokers.
    """
    plain = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: dict[str, Any] = {
        "features": {TRANSACTION_VERSION: {"min_version": 1, "max_version": 2}} if broker.is_exclusive else {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "endpoints": [_endpoint_text(e) for e in broker.endpoints],
        "jmx_port": jmx_port,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    if broker.rule_endpoints:
        value[RULE_ENDPOINTS] = [_endpoint_text(e) for e in broker.rule_endpoints]
    return encode_object(value if broker.rack is None else value | {"rack": broker.rack})


@tolerant(lambda broker_id, _data, _epoch: paths.broker(broker_id))
def decode_broker(broker_id: BrokerId, data: bytes, epoch: int) -> Broker:
    """Versions 2 to 5 and what may follow; before 4 a listener's name is its protocol."""
    value = decode_object(data)
    protocols = value.get("listener_security_protocol_map") or {}
    endpoints = tuple(_endpoint(text, protocols) for text in value["endpoints"])
    rules = _rule_endpoints(value.get(RULE_ENDPOINTS))
    rack = value.get("rack")
    feature = (value.get("features") or {}).get(TRANSACTION_VERSION)
    is_exclusive = isinstance(feature, dict) and feature.get("max_version") == 2
    return Broker(broker_id, epoch, endpoints, None if rack is None else wire_text(str(rack)), is_exclusive, rules)


@tolerant(lambda broker_id, _data: paths.broker(broker_id))
def decode_registration_time(_broker_id: BrokerId, data: bytes) -> int:
    """The time of a registration in milliseconds, by its broker's clock."""
    written_ms = int(str(decode_object(data)["timestamp"]))
    if not 0 <= written_ms < 2**63:
        raise ValueError(f"{written_ms} is not a time")
    return written_ms


def _endpoint_text(endpoint: BrokerEndpoint) -> str:
    return f"{endpoint.listener}://{_host_text(endpoint.host)}:{endpoint.port}"


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    listener, separator, address = wire_text(text).partition("://")
    host, colon, port = address.rpartition(":")
    protocol = protocols.get(listener, listener)
    if not separator or not colon or not 0 <= int(port) < 2**16 or protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r} is not an endpoint")
    return BrokerEndpoint(listener, host.strip("[]"), int(port), protocol)


def _rule_endpoints(texts: Any) -> tuple[BrokerEndpoint, ...]:
    """Without those that cannot be decoded: a controller does not lose a broker for them."""
    found = []
    for text in texts if isinstance(texts, list) else ():
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            name, separator, address = wire_text(text).partition("://")
            found.append(_endpoint(f"PLAINTEXT{separator}{address}", {})._replace(listener=name))
    return tuple(found)


# /brokers/topics/T and its partitions' states


def encode_topic(assignment: TopicAssignment) -> bytes:
    """Version 3, with the topic id: after a rewrite without it, replicas would refuse the topic.

    A topic without an id is one of inter.broker.protocol.version below 2.8, and is written in version 2.
    """
    value: dict[str, Any] = {
        "removing_replicas": _replica_map(assignment.removing),
        "partitions": _replica_map(assignment.replicas),
    }
    if assignment.topic_id != NO_TOPIC_ID:
        value["topic_id"] = topic_id_text(assignment.topic_id)
    version = 2 if assignment.topic_id == NO_TOPIC_ID else 3
    return encode_object(value | {"adding_replicas": _replica_map(assignment.adding), "version": version})


@tolerant(lambda name, _data, _version: paths.topic(name))
def decode_topic(name: str, data: bytes, version: int) -> TopicAssignment:
    """Versions 1 to 3; `version` is the node's own."""
    value = decode_object(data)
    replicas = _read_replica_map(value["partitions"])
    if not replicas or not all(replicas.values()):
        raise ValueError("a partition without replicas, or a topic without partitions")
    text = value.get("topic_id")
    return TopicAssignment(
        name,
        replicas,
        NO_TOPIC_ID if text is None else topic_id_from_text(text),
        _read_replica_map(value.get("adding_replicas") or {}),
        _read_replica_map(value.get("removing_replicas") or {}),
        version,
    )


def _replica_map(replicas: Mapping[int, tuple[BrokerId, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in sorted(replicas.items())}


def _read_replica_map(value: Mapping[str, Any]) -> dict[int, tuple[BrokerId, ...]]:
    return {_number(partition): broker_ids(brokers) for partition, brokers in value.items()}


def _number(text: str) -> int:
    number = whole_number(int(text))
    if number < 0:
        raise ValueError(f"{number} is not a partition number")
    return number


def encode_state(state: PartitionState) -> bytes:
    value = {
        "controller_epoch": state.controller_epoch,
        "leader": -1 if state.leader is None else state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    return encode_object(value | {"leader_recovery_state": 1} if state.recovering else value)


@tolerant(lambda topic_partition, _data: paths.state(topic_partition))
def decode_state(topic_partition: TopicPartition, data: bytes) -> PartitionState:  # noqa: ARG001 - for the path.
    value = decode_object(data)
    leader = whole_number(value["leader"])
    return PartitionState(
        None if leader < 0 else BrokerId(leader),
        LeaderEpoch(whole_number(value["leader_epoch"])),
        broker_ids(value["isr"]),
        whole_number(value["controller_epoch"]),
        value.get("leader_recovery_state") == 1,
    )


# /controller, /controller_epoch, /feature, /cluster/id


def encode_controller(broker_id: BrokerId, timestamp_ms: int) -> bytes:
    return encode_object(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    )


@tolerant(lambda _data: paths.CONTROLLER)
def decode_controller(data: bytes) -> BrokerId:
    return BrokerId(whole_number(decode_object(data)["brokerid"]))


@tolerant(lambda _data: paths.CONTROLLER_EPOCH)
def decode_controller_epoch(data: bytes) -> int:
    return int(data)


class Features(NamedTuple):
    """/feature as a controller writes it (`ClusterSettings`)."""

    version: int | None
    """Of the node's format; None when feature versioning is disabled."""
    is_exclusive: bool = False
    """transaction.version 2 is finalized: brokers that do not support it stop."""


def encode_features(version: int, *, is_exclusive: bool = False) -> bytes:
    """Feature versioning enabled; no finalized features but in an exclusive cluster."""
    lowest = {"min_version_level": 1} if version == 1 else {}
    features = {TRANSACTION_VERSION: {**lowest, "max_version_level": 2}} if is_exclusive else {}
    return encode_object({"features": features, "version": version, "status": 1})


FEATURES = encode_features(2)


@tolerant(lambda _data: paths.FEATURE)
def decode_features(data: bytes) -> Features:
    value = decode_object(data)
    version = whole_number(value["version"]) if whole_number(value["status"]) == 1 else None
    level = (value.get("features") or {}).get(TRANSACTION_VERSION)
    return Features(version, level is not None)


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_object({"version": "1", "id": cluster_id})


@tolerant(lambda _data: paths.CLUSTER_ID)
def decode_cluster_id(data: bytes) -> str:
    text = decode_object(data)["id"]
    if not isinstance(text, str) or len(base64.urlsafe_b64decode(text + "==")) != 16:
        raise ValueError(f"{text!r} is not a cluster id")
    return text


# /config/... and its change notifications


def encode_config(config: Mapping[str, str]) -> bytes:
    return encode_object({"version": 1, "config": dict(config)})


@tolerant(lambda entity_path, _data: paths.config(entity_path))
def decode_config(entity_path: str, data: bytes) -> dict[str, str]:  # noqa: ARG001 - for the path.
    """An empty node is an entity without settings, as Apache Kafka reads it."""
    config = decode_object(data).get("config", {}) if data else {}
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    return encode_object({"version": 2, "entity_path": entity_path})


@tolerant(lambda _data: paths.CONFIG_CHANGES)
def decode_config_change(data: bytes) -> str:
    """The entity's path under /config, in version 2; in version 1 from its type and name."""
    value = decode_object(data)
    if value.get("version") == 1:
        return f"{value['entity_type']}/{value['entity_name']}"
    entity_path = value["entity_path"]
    if not isinstance(entity_path, str) or not entity_path:
        raise ValueError(f"{entity_path!r} names no entity")
    return entity_path


# /admin/preferred_replica_election


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """As tools write it."""
    return encode_object({"version": 1, "partitions": [{"topic": topic, "partition": p} for topic, p in partitions]})


@tolerant(lambda _data: paths.PREFERRED_ELECTION)
def decode_preferred_election(data: bytes) -> list[TopicPartition]:
    return [
        TopicPartition(wire_text(one["topic"]), whole_number(one["partition"]))
        for one in decode_object(data)["partitions"]
    ]


# /admin/reassign_partitions


def encode_reassignment(targets: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """The partitions to be reassigned, with their targets."""
    rows = [{"topic": name, "partition": p, "replicas": list(held)} for (name, p), held in targets.items()]
    return encode_object({"version": 1, "partitions": rows})


@tolerant(lambda _data: paths.REASSIGN_PARTITIONS)
def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Where a partition is named more than once, the last entry counts."""
    return {
        TopicPartition(wire_text(one["topic"]), whole_number(one["partition"])): broker_ids(one["replicas"])
        for one in decode_object(data)["partitions"]
    }


# /isr_change_notification, /log_dir_event_notification


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """IsrChangeNotification: a leader has written ISRs itself (inter.broker.protocol.version below 2.7-IV2)."""
    return encode_object({"version": 1, "partitions": [{"topic": topic, "partition": p} for topic, p in partitions]})


@tolerant(lambda _data: paths.ISR_CHANGES)
def decode_isr_change(data: bytes) -> list[TopicPartition]:
    """Names that no partition may have are left out: each becomes a path."""
    named = [
        TopicPartition(wire_text(one["topic"]), whole_number(one["partition"]))
        for one in decode_object(data)["partitions"]
    ]
    return [one for one in named if partition_error(*one) is None]


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """LogDirEventNotification: a log directory of the broker has failed; 1 is the only event."""
    return encode_object({"version": 1, "broker": broker_id, "event": 1})


@tolerant(lambda _data: paths.LOG_DIR_EVENTS)
def decode_log_dir_event(data: bytes) -> BrokerId:
    return BrokerId(whole_number(decode_object(data)["broker"]))


# /latest_producer_id_block


class ProducerIdBlock(NamedTuple):
    """Ids from `start` up to but not including `end` that belong to one broker."""

    broker_id: BrokerId
    start: int
    end: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The end is written inclusive, both bounds as text."""
    return encode_object(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.start),
            "block_end": str(block.end - 1),
        }
    )


@tolerant(lambda _data: paths.PRODUCER_ID_BLOCK)
def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """None when no block was ever allocated."""
    if not data:
        return None
    value = decode_object(data)
    return ProducerIdBlock(
        BrokerId(whole_number(value["broker"])), int(value["block_start"]), int(value["block_end"]) + 1
    )
