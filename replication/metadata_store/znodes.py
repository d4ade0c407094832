"""Content of the store's nodes: JSON to values and back, as Apache Kafka 2.7 to 3.9 write and read it.

Decoding is tolerant: unknown keys and any order are accepted, and what cannot be decoded becomes a `Malformed` value
that names the node. Decoders do not raise: one bad node, a tool's or a newer broker's, must not stop a controller from
serving all others. Encoding is exact, down to the order of the keys.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from sordini.protocol.topic_names import partition_error
from sordini.protocol.types import (
    NO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
    topic_id_from_text,
    topic_id_text,
)
from sordini.replication.cluster_model import Broker, Endpoint, Malformed, PartitionState, TopicAssignment
from sordini.replication.metadata_store import paths

T = TypeVar("T")
Args = ParamSpec("Args")

PRODUCER_ID_MAX = 2**63 - 1
PRODUCER_IDS_PER_BLOCK = 1000
TEXT_BYTES_MAX = 2**15 - 1
"""The limit of a string in the oldest Metadata responses."""
SECURITY_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})


def _tolerant(path_of: Callable[..., str]) -> Callable[[Callable[Args, T]], Callable[Args, T | Malformed]]:
    """Make a decoder return Malformed, with the node that `path_of` names, instead of raising."""

    def decorate(decode: Callable[Args, T]) -> Callable[Args, T | Malformed]:
        @wraps(decode)
        def decode_tolerantly(*args: Args.args, **kwargs: Args.kwargs) -> T | Malformed:
            try:
                return decode(*args, **kwargs)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                return Malformed(path_of(*args, **kwargs), f"{type(error).__name__}: {error}")

        return decode_tolerantly

    return decorate


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _decode(data: bytes) -> dict[str, Any]:
    value = json.loads(data)
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _int(value: Any) -> int:
    """A number that fits the wire format's 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not a whole number")
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{value} does not fit in 32 bits")
    return value


def _text(value: Any) -> str:
    """Text that fits the wire format."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    if len(value.encode()) > TEXT_BYTES_MAX:
        raise ValueError(f"text of more than {TEXT_BYTES_MAX} bytes")
    return value


def _brokers(value: Any) -> tuple[BrokerId, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list of brokers")
    return tuple(BrokerId(_int(broker)) for broker in value)


# /brokers/ids/N

TRANSACTION_VERSION = "transaction.version"
"""A feature of brokers and clusters: with 2 the end of each transaction raises its producer's epoch (KIP-890)."""


def encode_broker(broker: Broker, timestamp_ms: int, *, jmx_port: int = -1) -> bytes:
    """Version 5. `host` and `port` name the first plaintext endpoint for readers that know no others.

    Features are registered in a pure cluster only (KIP-584).
    """
    plain = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value = {
        "features": {TRANSACTION_VERSION: {"min_version": 1, "max_version": 2}} if broker.is_pure else {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "endpoints": [f"{e.listener}://{_host_text(e.host)}:{e.port}" for e in broker.endpoints],
        "jmx_port": jmx_port,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    return _encode(value if broker.rack is None else value | {"rack": broker.rack})


@_tolerant(lambda broker_id, _data, _epoch: paths.broker(broker_id))
def decode_broker(broker_id: BrokerId, data: bytes, epoch: int) -> Broker:
    """Versions 2 to 5 and what may follow; before 4 a listener's name is its protocol."""
    value = _decode(data)
    protocols = value.get("listener_security_protocol_map") or {}
    endpoints = tuple(_endpoint(text, protocols) for text in value["endpoints"])
    rack = value.get("rack")
    feature = (value.get("features") or {}).get(TRANSACTION_VERSION)
    is_pure = isinstance(feature, dict) and feature.get("max_version") == 2
    return Broker(broker_id, epoch, endpoints, None if rack is None else _text(str(rack)), is_pure)


@_tolerant(lambda broker_id, _data: paths.broker(broker_id))
def decode_registration_time(_broker_id: BrokerId, data: bytes) -> int:
    """The time of a registration in milliseconds, by its broker's clock."""
    written_ms = int(str(_decode(data)["timestamp"]))
    if not 0 <= written_ms < 2**63:
        raise ValueError(f"{written_ms} is not a time")
    return written_ms


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, separator, address = _text(text).partition("://")
    host, colon, port = address.rpartition(":")
    protocol = protocols.get(listener, listener)
    if not separator or not colon or not 0 <= int(port) < 2**16 or protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"{text!r} is not an endpoint")
    return Endpoint(listener, host.strip("[]"), int(port), protocol)


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
    return _encode(value | {"adding_replicas": _replica_map(assignment.adding), "version": version})


@_tolerant(lambda name, _data, _version: paths.topic(name))
def decode_topic(name: str, data: bytes, version: int) -> TopicAssignment:
    """Versions 1 to 3; `version` is the node's own."""
    value = _decode(data)
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
    return {_number(partition): _brokers(brokers) for partition, brokers in value.items()}


def _number(text: str) -> int:
    number = _int(int(text))
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
    return _encode(value | {"leader_recovery_state": 1} if state.recovering else value)


@_tolerant(lambda topic_partition, _data: paths.state(topic_partition))
def decode_state(topic_partition: TopicPartition, data: bytes) -> PartitionState:  # noqa: ARG001 - for the path.
    value = _decode(data)
    leader = _int(value["leader"])
    return PartitionState(
        None if leader < 0 else BrokerId(leader),
        LeaderEpoch(_int(value["leader_epoch"])),
        _brokers(value["isr"]),
        _int(value["controller_epoch"]),
        value.get("leader_recovery_state") == 1,
    )


# /controller, /controller_epoch, /feature, /cluster/id


def encode_controller(broker_id: BrokerId, timestamp_ms: int) -> bytes:
    return _encode({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


@_tolerant(lambda _data: paths.CONTROLLER)
def decode_controller(data: bytes) -> BrokerId:
    return BrokerId(_int(_decode(data)["brokerid"]))


@_tolerant(lambda _data: paths.CONTROLLER_EPOCH)
def decode_controller_epoch(data: bytes) -> int:
    return int(data)


class Features(NamedTuple):
    """/feature as a controller writes it (`ClusterSettings`)."""

    version: int | None
    """Of the node's format; None when feature versioning is disabled."""
    is_pure: bool = False
    """transaction.version 2 is finalized: brokers that do not support it stop."""


def encode_features(version: int, *, is_pure: bool = False) -> bytes:
    """Feature versioning enabled; no finalized features but in a pure cluster."""
    lowest = {"min_version_level": 1} if version == 1 else {}
    features = {TRANSACTION_VERSION: {**lowest, "max_version_level": 2}} if is_pure else {}
    return _encode({"features": features, "version": version, "status": 1})


FEATURES = encode_features(2)


@_tolerant(lambda _data: paths.FEATURE)
def decode_features(data: bytes) -> Features:
    value = _decode(data)
    version = _int(value["version"]) if _int(value["status"]) == 1 else None
    level = (value.get("features") or {}).get(TRANSACTION_VERSION)
    return Features(version, level is not None)


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


@_tolerant(lambda _data: paths.CLUSTER_ID)
def decode_cluster_id(data: bytes) -> str:
    text = _decode(data)["id"]
    if not isinstance(text, str) or len(base64.urlsafe_b64decode(text + "==")) != 16:
        raise ValueError(f"{text!r} is not a cluster id")
    return text


# /config/... and its change notifications


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(config)})


@_tolerant(lambda entity_path, _data: paths.config(entity_path))
def decode_config(entity_path: str, data: bytes) -> dict[str, str]:  # noqa: ARG001 - for the path.
    """An empty node is an entity without settings, as Apache Kafka reads it."""
    config = _decode(data).get("config", {}) if data else {}
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity_path: str) -> bytes:
    return _encode({"version": 2, "entity_path": entity_path})


@_tolerant(lambda _data: paths.CONFIG_CHANGES)
def decode_config_change(data: bytes) -> str:
    """The entity's path under /config, in version 2; in version 1 from its type and name."""
    value = _decode(data)
    if value.get("version") == 1:
        return f"{value['entity_type']}/{value['entity_name']}"
    entity_path = value["entity_path"]
    if not isinstance(entity_path, str) or not entity_path:
        raise ValueError(f"{entity_path!r} names no entity")
    return entity_path


# /admin/preferred_replica_election


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """As tools write it."""
    return _encode({"version": 1, "partitions": [{"topic": topic, "partition": p} for topic, p in partitions]})


@_tolerant(lambda _data: paths.PREFERRED_ELECTION)
def decode_preferred_election(data: bytes) -> list[TopicPartition]:
    return [TopicPartition(_text(one["topic"]), _int(one["partition"])) for one in _decode(data)["partitions"]]


# /admin/reassign_partitions


def encode_reassignment(targets: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """The partitions to be reassigned, with their targets."""
    rows = [{"topic": name, "partition": p, "replicas": list(held)} for (name, p), held in targets.items()]
    return _encode({"version": 1, "partitions": rows})


@_tolerant(lambda _data: paths.REASSIGN_PARTITIONS)
def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Where a partition is named more than once, the last entry counts."""
    return {
        TopicPartition(_text(one["topic"]), _int(one["partition"])): _brokers(one["replicas"])
        for one in _decode(data)["partitions"]
    }


# /isr_change_notification, /log_dir_event_notification


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """IsrChangeNotification: a leader has written ISRs itself (inter.broker.protocol.version below 2.7-IV2)."""
    return _encode({"version": 1, "partitions": [{"topic": topic, "partition": p} for topic, p in partitions]})


@_tolerant(lambda _data: paths.ISR_CHANGES)
def decode_isr_change(data: bytes) -> list[TopicPartition]:
    """Names that no partition may have are left out: each becomes a path."""
    named = [TopicPartition(_text(one["topic"]), _int(one["partition"])) for one in _decode(data)["partitions"]]
    return [one for one in named if partition_error(*one) is None]


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    """LogDirEventNotification: a log directory of the broker has failed; 1 is the only event."""
    return _encode({"version": 1, "broker": broker_id, "event": 1})


@_tolerant(lambda _data: paths.LOG_DIR_EVENTS)
def decode_log_dir_event(data: bytes) -> BrokerId:
    return BrokerId(_int(_decode(data)["broker"]))


# /latest_producer_id_block


class ProducerIdBlock(NamedTuple):
    """Ids from `start` up to but not including `end` that belong to one broker."""

    broker_id: BrokerId
    start: int
    end: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """The end is written inclusive, both bounds as text."""
    return _encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.start),
            "block_end": str(block.end - 1),
        }
    )


@_tolerant(lambda _data: paths.PRODUCER_ID_BLOCK)
def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """None when no block was ever allocated."""
    if not data:
        return None
    value = _decode(data)
    return ProducerIdBlock(BrokerId(_int(value["broker"])), int(value["block_start"]), int(value["block_end"]) + 1)
