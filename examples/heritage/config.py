"""The properties of the clients, under the names of the documents and of Apache Kafka 0.7 to 1.1.

Times are in milliseconds, sizes in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from examples.heritage.errors import ConfigError
from examples.heritage.properties import Properties, boolean, declare, integer, one_of, string

_RESETS: Final = one_of("largest", "smallest", "error")
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(Properties):
    """How a Producer works."""

    zk_connect: str = declare("zk.connect", string, "", "The ensemble in which brokers and leaders are followed; or")
    broker_list: str = declare("broker.list", string, "", "host:port,host:port: brokers that are not followed.")
    session_timeout_ms: int = declare("zk.sessiontimeout.ms", integer(1), 6_000, "Also to connect.")
    producer_type: str = declare("producer.type", one_of("sync", "async"), "sync", "async: by a queue and a thread.")
    queue_time: int = declare("queue.time", integer(0), 5_000, "The queue is sent when its first message is so old, or")
    batch_size: int = declare("batch.size", integer(1), 200, "when so many messages wait.")
    queue_size: int = declare("queue.size", integer(1), 10_000, "`send` blocks while so many messages wait.")
    codec: str = declare("compression.codec", one_of(*CODECS), "none", "How message sets are compressed.")
    compressed_topics: str = declare("compressed.topics", string, "", "Those to compress, with commas; empty: all.")
    acks: int = declare("request.required.acks", integer(-1, 1), 1, "1: by the leader; -1: by all in-sync replicas.")
    retries: int = declare("message.send.max.retries", integer(0), 3, "After a change of leaders; with zk.connect.")
    backoff_ms: int = declare("retry.backoff.ms", integer(0), 100, "Before another attempt.")
    socket_timeout_ms: int = declare("socket.timeout.ms", integer(1), 30_000, "For each step of a request.")
    client_id: str = declare("client.id", string, "heritage", "As brokers log and meter it.")

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

    group_id: str = declare("group.id", string, "", "The group that this member belongs to.")
    consumer_id: str = declare("consumer.id", string, "", "Empty: host name, time and a random number.")
    zookeeper_connect: str = declare("zookeeper.connect", string, "", "The ensemble of the brokers.")
    session_timeout_ms: int = declare("zookeeper.session.timeout.ms", integer(1), 6_000, "Also to connect.")
    rebalance_retries: int = declare("rebalance.max.retries", integer(1), 4, "Attempts to own partitions.")
    rebalance_backoff_ms: int = declare("rebalance.backoff.ms", integer(0), 2_000, "At most, between attempts.")
    partition_order: str = declare("partition.order", one_of("number", "document"), "number", "document: by leader.")
    auto_commit: bool = declare("auto.commit.enable", boolean, True, "Commit what was consumed, regularly.")
    auto_commit_interval_ms: int = declare("auto.commit.interval.ms", integer(1), 60_000, "How often.")
    auto_offset_reset: str = declare("auto.offset.reset", _RESETS, "largest", "Where no committed offset is valid.")
    offsets_storage: str = declare("offsets.storage", one_of("zookeeper", "kafka"), "zookeeper", "Where commits go.")
    dual_commit: bool = declare("dual.commit.enabled", boolean, True, "With kafka: to both, and the larger counts.")
    commit_retries: int = declare("offsets.commit.max.retries", integer(0), 5, "Of commits and fetches of offsets.")
    offsets_backoff_ms: int = declare("offsets.channel.backoff.ms", integer(0), 1_000, "Before another attempt.")
    fetch_bytes: int = declare("fetch.message.max.bytes", integer(1), 1024 * 1024, "Of one partition; doubled up to")
    fetch_bytes_max: int = declare("fetch.buffer.max.bytes", integer(1), 64 * 1024 * 1024, "this for large messages.")
    fetch_wait_ms: int = declare("fetch.wait.max.ms", integer(0), 100, "How long a broker waits for messages.")
    leader_backoff_ms: int = declare("refresh.leader.backoff.ms", integer(0), 200, "Before leaders are looked for.")
    queued_chunks: int = declare("queued.max.message.chunks", integer(1), 2, "Results of fetches that a stream holds.")
    consumer_timeout_ms: int = declare("consumer.timeout.ms", integer(-1), -1, "Of an iterator that waits; -1: none.")
    socket_timeout_ms: int = declare("socket.timeout.ms", integer(1), 30_000, "For each step of a request.")
    client_id: str = declare("client.id", string, "heritage", "As brokers log and meter it.")

    def __post_init__(self) -> None:
        if not self.group_id or "/" in self.group_id:
            raise ConfigError(f"group.id={self.group_id!r} is not valid: allowed is a name without a slash")
