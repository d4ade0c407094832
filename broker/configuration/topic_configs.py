"""The configurations of all topics, and the settings of logs and validation that follow from them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.protocol_version import ZSTD
from sordini.broker.configuration.topic_config import SCHEMA_VALIDATE, TopicConfig, stored_format
from sordini.protocol.records.produce_validation import ProduceRules
from sordini.replication.partition_deps import PartitionSettings
from sordini.storage.log_config import NEVER, LogConfig

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LEVEL_KEYS = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}

ReadOverrides = Callable[[str], Awaitable[Mapping[str, str]]]


class TopicConfigs:
    """Overrides by topic, resolved against the broker's settings."""

    def __init__(self, broker: DynamicConfig, read_overrides: ReadOverrides) -> None:
        """`read_overrides` reads a topic's entries from the store; `broker` has the inherited values."""
        self._broker = broker
        self._read_overrides = read_overrides
        self._topics: dict[str, TopicConfig] = {}
        self._settings: dict[str, tuple[TopicConfig, PartitionSettings]] = {}
        """What `settings_of` returned for the configuration beside it: partitions of one topic share their settings."""
        broker.on_change(self._inherit)

    def knows(self, topic: str) -> bool:
        """Whether the topic's overrides have been read."""
        return topic in self._topics

    async def load(self, topics: Iterable[str]) -> None:
        """Read the overrides of topics."""
        names = list(topics)
        for name, overrides in zip(
            names, await asyncio.gather(*(self._read_overrides(name) for name in names)), strict=True
        ):
            self._topics[name] = self.resolve(overrides)

    async def reload(self) -> None:
        """Read the overrides of all known topics again."""
        await self.load(self._topics)

    def set(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Set overrides that a notification brought; empty ones do not add a topic, which may have been deleted."""
        if overrides or topic in self._topics:
            self._topics[topic] = self.resolve(overrides)

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self._topics.pop(topic, None)
        self._settings.pop(topic, None)

    def resolve(self, overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic with these overrides."""
        return TopicConfig(self._broker, overrides)

    def _inherit(self, _: Config) -> None:
        self._topics = {topic: self.resolve(known.overrides) for topic, known in self._topics.items()}
        self._settings.clear()

    def config_of(self, topic: str) -> TopicConfig:
        """A topic's configuration; the broker's defaults for one that has not been loaded."""
        known = self._topics.get(topic)
        return self.resolve({}) if known is None else known

    def settings_of(self, topic: str) -> PartitionSettings:
        """The settings of each of the topic's partitions."""
        known = self._topics.get(topic)
        if known is None:
            return self._settings_from(self.resolve({}))
        derived = self._settings.get(topic)
        if derived is None or derived[0] is not known:
            derived = self._settings[topic] = (known, self._settings_from(known))
        return derived[1]

    def _settings_from(self, values: TopicConfig) -> PartitionSettings:
        codec = CODECS.get(values["compression.type"])
        policies = values["cleanup.policy"].split(",")
        log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        distance_ms = values["message.timestamp.difference.max.ms"]
        checks_schema_ids = values[SCHEMA_VALIDATE] != "none"
        segment_ms = values["segment.ms"]
        if "compact" in policies:
            # Only inactive segments are compacted, so they must roll before their records are due (KIP-354).
            segment_ms = min(segment_ms, values["max.compaction.lag.ms"])
        return PartitionSettings(
            log=LogConfig(
                segment_bytes=values["segment.bytes"],
                segment_ms=segment_ms,
                segment_jitter_ms=min(values["segment.jitter.ms"], segment_ms),
                segment_index_bytes=values["segment.index.bytes"],
                index_interval_bytes=values["index.interval.bytes"],
                retention_ms=values["retention.ms"],
                retention_bytes=values["retention.bytes"],
                file_delete_delay_ms=values["file.delete.delay.ms"],
                preallocate=values["preallocate"],
                flush_messages=values["flush.messages"],
                flush_ms=NEVER if values["flush.ms"] is None else values["flush.ms"],
                cleanup_delete="delete" in policies,
                cleanup_compact="compact" in policies,
                log_append_time=log_append_time,
                producer_expiration_ms=self._broker.config.producer_id_expiration_ms,
                producers_max=self._broker.config.partition_producers_max,
                min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
                min_compaction_lag_ms=values["min.compaction.lag.ms"],
                max_compaction_lag_ms=values["max.compaction.lag.ms"],
                delete_retention_ms=values["delete.retention.ms"],
            ),
            rules=ProduceRules(
                message_bytes_max=values["max.message.bytes"],
                key_required="compact" in policies,
                log_append_time=log_append_time,
                timestamp_before_ms_max=min(values["message.timestamp.before.max.ms"], distance_ms),
                timestamp_after_ms_max=min(values["message.timestamp.after.max.ms"], distance_ms),
                codec=codec,
                codec_level=values[LEVEL_KEYS[codec]] if codec in LEVEL_KEYS else None,
                # Records that are read for their schema ids are checked as any that are expanded.
                check_compressed=self._broker.config.validate_compressed or checks_schema_ids,
                expanded_bytes_max=self._broker.config.expanded_bytes_max,
                magic=stored_format(self._broker.config, values["message.format.version"]),
                zstd=self._broker.config.inter_broker_protocol_version >= ZSTD,
                check_schema_ids=checks_schema_ids,
                decode_values=values[SCHEMA_VALIDATE] == "full",
            ),
            min_insync_replicas=values["min.insync.replicas"],
            down_conversion=values["message.downconversion.enable"],
        )
