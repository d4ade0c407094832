"""The properties of the producer and the consumer, under the names of the documents and of Apache Kafka 0.7 to 1.1.

A field's name with dots for underscores is the property: `batch_size` is `batch.size`. Times are in milliseconds, sizes
in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from sordini.heritage.errors import ConfigError
from sordini.protocol.records.compression import CODEC_NAMES

_BOOLEANS: Final = {"true": True, "false": False}
CODECS: Final = {"none": 0, **{name: codec for codec, name in CODEC_NAMES.items() if codec}}


def _number(default: int, at_least: int = 0) -> Any:
    return field(default=default, metadata={"at_least": at_least})


def _choice(default: str, *others: str) -> Any:
    return field(default=default, metadata={"allowed": (default, *others)})


class Properties:
    """What both configurations have in common; subclasses are frozen dataclasses."""

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """Read properties, whose values may be text. Raises ConfigError for an unknown name or a wrong value."""
        known = {one.name.replace("_", "."): one for one in fields(cls)}  # type: ignore[arg-type]
        for name in properties:
            if name not in known:
                raise ConfigError(f"{name} is no property of {cls.__name__}; known are {', '.join(sorted(known))}")
        values = {known[name].name: _read(name, value, known[name]) for name, value in properties.items()}
        return cls(**values)


def _read(name: str, value: object, declared: Any) -> Any:
    text = str(value).strip()
    if isinstance(declared.default, bool):
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"{name} is {text!r}; allowed are true and false")
        return _BOOLEANS[text.lower()]
    if isinstance(declared.default, int):
        at_least = declared.metadata["at_least"]
        try:
            number = int(text)
        except ValueError:
            number = at_least - 1
        if number < at_least:
            raise ConfigError(f"{name} is {text!r}; allowed are whole numbers from {at_least} on")
        return number
    allowed = declared.metadata.get("allowed", (text,))
    if text not in allowed:
        raise ConfigError(f"{name} is {text!r}; allowed are {', '.join(allowed)}")
    return text


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(Properties):
    """How a Producer works. Exactly one of `zk.connect` and `broker.list` says where the brokers are."""

    zk_connect: str = ""
    broker_list: str = ""
    """`host:port,host:port`: never watched, never changed."""
    producer_type: str = _choice("sync", "async")
    queue_time: int = _number(5_000)
    """The asynchronous producer sends a batch when its first message has waited for so long,"""
    batch_size: int = _number(200, 1)
    """or when it has so many messages."""
    queue_size: int = _number(10_000, 1)
    """Messages that may wait to be sent."""
    queue_enqueue_timeout_ms: int = _number(-1, -1)
    """How long `send` waits for room in the queue; -1: for ever."""
    compression_codec: str = _choice("none", *[name for name in CODECS if name != "none"])
    compressed_topics: str = ""
    """Names with commas between; empty: all topics."""
    request_required_acks: int = _number(1, -1)
    """1: the leader has the messages; -1: all in-sync replicas have them."""
    message_send_max_retries: int = _number(3)
    """With `zk.connect`, after a change of leaders."""
    retry_backoff_ms: int = _number(100)
    socket_timeout_ms: int = _number(30_000, 1)
    zk_sessiontimeout_ms: int = _number(6_000, 1)
    client_id: str = "sordini-heritage"

    def __post_init__(self) -> None:
        if bool(self.zk_connect) == bool(self.broker_list):
            raise ConfigError("exactly one of zk.connect and broker.list is to be set")
        if self.request_required_acks not in (-1, 1):
            raise ConfigError(f"request.required.acks is {self.request_required_acks}; allowed are 1 and -1")

    def codec_of(self, topic: str) -> int:
        """The codec for messages of a topic."""
        chosen = [name.strip() for name in self.compressed_topics.split(",") if name.strip()]
        return CODECS[self.compression_codec] if not chosen or topic in chosen else CODECS["none"]


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(Properties):
    """How a ConsumerConnector works."""

    group_id: str = ""
    zookeeper_connect: str = ""
    consumer_id: str = ""
    """Empty: host name, time and a random number."""
    zookeeper_session_timeout_ms: int = _number(6_000, 1)
    zookeeper_connection_timeout_ms: int = _number(6_000, 1)
    rebalance_max_retries: int = _number(4, 1)
    rebalance_backoff_ms: int = _number(2_000)
    partition_order: str = _choice("number", "document")
    """Partitions are sorted by their numbers, as Apache Kafka did, or by leader and number, as the documents write."""
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = _number(60_000, 1)
    auto_offset_reset: str = _choice("largest", "smallest", "error")
    """Where a partition begins without a committed offset or with one out of range; `error`: the iterator raises."""
    offsets_storage: str = _choice("zookeeper", "kafka")
    dual_commit_enabled: str = _choice("", "true", "false")
    """With `offsets.storage=kafka`: commit to ZooKeeper as well, and begin with the larger of the two; true unless set."""
    offsets_commit_max_retries: int = _number(5)
    offsets_channel_backoff_ms: int = _number(1_000)
    offsets_channel_socket_timeout_ms: int = _number(10_000, 1)
    fetch_message_max_bytes: int = _number(1024 * 1024, 1)
    fetch_buffer_max_bytes: int = _number(64 * 1024 * 1024, 1)
    """The limit up to which the buffer is doubled for a message that does not fit."""
    fetch_min_bytes: int = _number(1)
    fetch_wait_max_ms: int = _number(100)
    refresh_leader_backoff_ms: int = _number(200)
    queued_max_message_chunks: int = _number(2, 1)
    consumer_timeout_ms: int = _number(-1, -1)
    """An iterator that waits for longer raises ConsumerTimeout; -1: it waits for ever."""
    exclude_internal_topics: bool = True
    socket_timeout_ms: int = _number(30_000, 1)
    client_id: str = "sordini-heritage"

    def __post_init__(self) -> None:
        if not self.group_id or "/" in self.group_id:
            raise ConfigError(f"group.id is {self.group_id!r}; a name without a slash is needed")

    @property
    def commits_twice(self) -> bool:
        """Whether offsets are in ZooKeeper and in Kafka."""
        return self.offsets_storage == "kafka" and self.dual_commit_enabled != "false"
