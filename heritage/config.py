"""The properties of the clients, under the names of the documents and of Apache Kafka 0.7 to 1.1.

Times are in milliseconds, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from sordini.broker.configuration import settings
from sordini.broker.configuration.settings import boolean, integer, one_of, setting, string
from sordini.heritage.errors import ConfigError

_RESETS: Final = one_of("largest", "smallest", "error")
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Properties:
    """What both configurations have in common."""

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Self:
        """Read properties, whose values may be text. Raises ConfigError for an unknown name or a wrong value."""
        known = settings.settings_of(cls)
        unknown = sorted(properties.keys() - known.keys())
        if unknown:
            raise ConfigError(f"{unknown[0]} is no property of {cls.__name__}; known are {', '.join(sorted(known))}")
        try:
            return cls(**{known[key][0]: known[key][1].rule.read(key, str(given)) for key, given in properties.items()})
        except settings.ConfigError as error:
            raise ConfigError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(Properties):
    """How a Producer works."""

    zk_connect: str = setting("zk.connect", string, "", "The ensemble in which brokers and leaders are followed; or")
    broker_list: str = setting("broker.list", string, "", "host:port,host:port: brokers that are not followed.")
    session_timeout_ms: int = setting("zk.sessiontimeout.ms", integer(1), 6_000, "Also to connect.")
    producer_type: str = setting("producer.type", one_of("sync", "async"), "sync", "async: by a queue and a thread.")
    queue_time: int = setting("queue.time", integer(0), 5_000, "The queue is sent when its first message is so old, or")
    batch_size: int = setting("batch.size", integer(1), 200, "when so many messages wait.")
    queue_size: int = setting("queue.size", integer(1), 10_000, "`send` blocks while so many messages wait.")
    codec: str = setting("compression.codec", one_of(*CODECS), "none", "How message sets are compressed.")
    compressed_topics: str = setting("compressed.topics", string, "", "Those to compress, with commas; empty: all.")
    acks: int = setting("request.required.acks", integer(-1, 1), 1, "1: by the leader; -1: by all in-sync replicas.")
    retries: int = setting("message.send.max.retries", integer(0), 3, "After a change of leaders; with zk.connect.")
    backoff_ms: int = setting("retry.backoff.ms", integer(0), 100, "Before another attempt.")
    socket_timeout_ms: int = setting("socket.timeout.ms", integer(1), 30_000, "For each step of a request.")
    client_id: str = setting("client.id", string, "heritage", "As brokers log and meter it.")

    def __post_init__(self) -> None:
        if bool(self.zk_connect) == bool(self.broker_list):
            raise ConfigError("exactly one of zk.connect and broker.list is to be set")
        if self.acks == 0:
            raise ConfigError("request.required.acks='0' is not valid: allowed are 1 and -1")

    def codec_of(self, topic: str) -> int:
        chosen = self.compressed_topics.replace(" ", "").split(",")
        return CODECS[self.codec] if chosen == [""] or topic in chosen else CODECS["none"]


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(Properties):
    """How a ConsumerConnector works."""

    group_id: str = setting("group.id", string, "", "The group that this member belongs to.")
    consumer_id: str = setting("consumer.id", string, "", "Empty: host name, time and a random number.")
    zookeeper_connect: str = setting("zookeeper.connect", string, "", "The ensemble of the brokers.")
    session_timeout_ms: int = setting("zookeeper.session.timeout.ms", integer(1), 6_000, "Also to connect.")
    rebalance_retries: int = setting("rebalance.max.retries", integer(1), 4, "Attempts to own partitions.")
    rebalance_backoff_ms: int = setting("rebalance.backoff.ms", integer(0), 2_000, "At most, between attempts.")
    partition_order: str = setting("partition.order", one_of("number", "document"), "number", "document: by leader.")
    auto_commit: bool = setting("auto.commit.enable", boolean, True, "Commit what was consumed, regularly.")
    auto_commit_interval_ms: int = setting("auto.commit.interval.ms", integer(1), 60_000, "How often.")
    auto_offset_reset: str = setting("auto.offset.reset", _RESETS, "largest", "Where no committed offset is valid.")
    offsets_storage: str = setting("offsets.storage", one_of("zookeeper", "kafka"), "zookeeper", "Where commits go.")
    dual_commit: bool = setting("dual.commit.enabled", boolean, True, "With kafka: to both, and the larger counts.")
    commit_retries: int = setting("offsets.commit.max.retries", integer(0), 5, "Of commits and fetches of offsets.")
    offsets_backoff_ms: int = setting("offsets.channel.backoff.ms", integer(0), 1_000, "Before another attempt.")
    fetch_bytes: int = setting("fetch.message.max.bytes", integer(1), 1024 * 1024, "Of one partition; doubled up to")
    fetch_bytes_max: int = setting("fetch.buffer.max.bytes", integer(1), 64 * 1024 * 1024, "this for large messages.")
    fetch_wait_ms: int = setting("fetch.wait.max.ms", integer(0), 100, "How long a broker waits for messages.")
    leader_backoff_ms: int = setting("refresh.leader.backoff.ms", integer(0), 200, "Before leaders are looked for.")
    queued_chunks: int = setting("queued.max.message.chunks", integer(1), 2, "Results of fetches that a stream holds.")
    consumer_timeout_ms: int = setting("consumer.timeout.ms", integer(-1), -1, "Of an iterator that waits; -1: none.")
    socket_timeout_ms: int = setting("socket.timeout.ms", integer(1), 30_000, "For each step of a request.")
    client_id: str = setting("client.id", string, "heritage", "As brokers log and meter it.")

    def __post_init__(self) -> None:
        if not self.group_id or "/" in self.group_id:
            raise ConfigError(f"group.id={self.group_id!r} is not valid: allowed is a name without a slash")
