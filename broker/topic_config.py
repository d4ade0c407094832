"""A topic's configuration: its own overrides over the broker's settings over Apache Kafka's defaults.

Each topic key is tied to the broker keys it inherits from, in the order they are asked; a broker key given in hours
or minutes carries the factor that turns it into the topic's milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from sordini.broker.config import SETTINGS, Config
from sordini.broker.settings import ConfigError, Rule, boolean, long, matching, string, value_text

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class ConfigSource(IntEnum):
    """Where a value came from, as DescribeConfigs reports it (KIP-226)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class BrokerKey(NamedTuple):
    """A broker key that a topic key inherits from, and what one of its units is in the topic's."""

    key: str
    factor: int = 1


class TopicSetting(NamedTuple):
    """One topic key; `default` stands only where no broker key has one."""

    key: str
    rule: Rule
    inherits: tuple[BrokerKey, ...]
    meaning: str
    default: Any = None


class Synonym(NamedTuple):
    """A key that could give a topic key its value, with the value it gives (None: unset) and where that stands."""

    name: str
    value: str | None
    source: ConfigSource


def _same(key: str, broker_key: str, meaning: str, *, rule: Rule | None = None) -> TopicSetting:
    return TopicSetting(key, rule or SETTINGS[broker_key][1].rule, (BrokerKey(broker_key),), meaning)


def _declare() -> Iterator[TopicSetting]:
    yield _same("cleanup.policy", "log.cleanup.policy", "What happens to old segments.")
    yield _same("compression.type", "compression.type", "The codec batches are stored with.")
    yield _same("compression.gzip.level", "compression.gzip.level", "Level for gzip.")
    yield _same("compression.lz4.level", "compression.lz4.level", "Level for lz4.")
    yield _same("compression.zstd.level", "compression.zstd.level", "Level for zstd.")
    yield _same("delete.retention.ms", "log.cleaner.delete.retention.ms", "How long deletion markers stay.")
    yield _same("file.delete.delay.ms", "log.segment.delete.delay.ms", "Time before a removed file is deleted.")
    yield _same("flush.messages", "log.flush.interval.messages", "Messages after which the log is forced to the disk.")
    yield TopicSetting(
        "flush.ms",
        long(0),
        (BrokerKey("log.flush.interval.ms"), BrokerKey("log.flush.scheduler.interval.ms")),
        "Time after which the log is forced to the disk.",
    )
    throttled = "Replicas whose replication is throttled: partition:broker pairs, or *."
    yield TopicSetting("follower.replication.throttled.replicas", string, (), throttled, "")
    yield TopicSetting("leader.replication.throttled.replicas", string, (), throttled, "")
    yield _same("index.interval.bytes", "log.index.interval.bytes", "Bytes of log between two index entries.")
    yield _same("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "Age at which compaction is due.")
    yield _same("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "Age before which nothing is compacted.")
    yield _same("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "Uncleaned share that starts it.")
    yield _same("max.message.bytes", "message.max.bytes", "The largest record batch taken.")
    yield _same("message.downconversion.enable", "log.message.downconversion.enable", "Serve consumers of old formats.")
    yield _same("message.timestamp.type", "log.message.timestamp.type", "Whose clock dates a record.")
    for end in ("difference", "before", "after"):
        yield _same(
            f"message.timestamp.{end}.max.ms", f"log.message.timestamp.{end}.max.ms", "Bound on a record's date."
        )
    yield _same("min.insync.replicas", "min.insync.replicas", "Replicas that acks=all waits for at the least.")
    yield _same("preallocate", "log.preallocate", "Taken and shown; without effect yet.")
    yield TopicSetting(
        "message.format.version",
        matching(r"0\.(8|9|1[01])(\.\d+)*(-IV\d)?|[1-4]\.\d+(\.\d+)?(-IV\d+)?", "a version, such as 2.7 or 3.0-IV1"),
        (),
        "Only honoured below protocol 3.0: batches are v2.",
        "3.0-IV1",
    )
    for key in ("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"):
        yield TopicSetting(key, boolean, (), "Tiered storage; only false is taken.", default=False)
    for key in ("local.retention.bytes", "local.retention.ms"):
        yield TopicSetting(key, long(-2), (), "Tiered storage: what stays here; -2 is all.", default=-2)
    yield _same("retention.bytes", "log.retention.bytes", "Bytes kept of each partition.")
    yield TopicSetting(
        "retention.ms",
        long(-1),
        (
            BrokerKey("log.retention.ms"),
            BrokerKey("log.retention.minutes", MINUTE_MS),
            BrokerKey("log.retention.hours", HOUR_MS),
        ),
        "Age at which a segment is deleted.",
    )
    yield _same("segment.bytes", "log.segment.bytes", "A segment larger than this is rolled.")
    yield _same("segment.index.bytes", "log.index.size.max.bytes", "The size of an index file.")
    yield TopicSetting(
        "segment.jitter.ms",
        long(0),
        (BrokerKey("log.roll.jitter.ms"), BrokerKey("log.roll.jitter.hours", HOUR_MS)),
        "Random time taken off segment.ms.",
    )
    yield TopicSetting(
        "segment.ms",
        long(1),
        (BrokerKey("log.roll.ms"), BrokerKey("log.roll.hours", HOUR_MS)),
        "A segment older than this is rolled.",
    )
    yield _same(
        "unclean.leader.election.enable", "unclean.leader.election.enable", "Let a replica outside the ISR lead."
    )


TOPIC_SETTINGS: dict[str, TopicSetting] = {declared.key: declared for declared in _declare()}


def check_topic_configs(configs: Mapping[str, str | None]) -> None:
    """Refuse a topic's overrides if one is unknown, null or wrong; raises ConfigError naming key, value and rule."""
    for key, text in configs.items():
        declared = TOPIC_SETTINGS.get(key)
        if declared is None:
            raise ConfigError(f"{key} is not a topic configuration: allowed are {', '.join(TOPIC_SETTINGS)}")
        if text is None:
            raise ConfigError(f"{key} has no value: allowed is {declared.rule.allowed}")
        if declared.rule.read(key, text) is True and key.startswith("remote."):
            raise ConfigError(f"{key}={text!r} is not valid: allowed is false, there is no tiered storage")


class TopicConfig:
    """One topic's values, resolved. Unknown or unreadable overrides (of another broker's making) are passed over."""

    __slots__ = ("_config", "_explicit", "_values", "overrides")

    def __init__(self, config: Config, explicit: frozenset[str], overrides: Mapping[str, str]) -> None:
        """`explicit` names the broker keys that were set, as opposed to left at their defaults."""
        self._config = config
        self._explicit = explicit
        self.overrides = dict(overrides)
        self._values: dict[str, Any] = {}
        for key, declared in TOPIC_SETTINGS.items():
            self._values[key] = self._resolve(declared)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def source(self, key: str) -> ConfigSource:
        """Where the value in force stands."""
        given = [synonym for synonym in self.synonyms(key) if synonym.value is not None]
        return given[0].source if given else ConfigSource.DEFAULT

    def synonyms(self, key: str) -> list[Synonym]:
        """Every place that gives a value, the one in force first (KIP-226's order).

        As with Apache Kafka, the default of a coarser broker key (hours) is only told beside a value that was set.
        """
        declared = TOPIC_SETTINGS[key]
        found: list[Synonym] = []
        if key in self.overrides:
            found.append(Synonym(key, self.overrides[key], ConfigSource.TOPIC))
        for source in (ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT):
            for inherited in declared.inherits:
                field, broker_setting = SETTINGS[inherited.key]
                if source is ConfigSource.STATIC_BROKER:
                    if inherited.key in self._explicit:
                        found.append(Synonym(inherited.key, value_text(getattr(self._config, field)), source))
                elif broker_setting.default is not None and (found or inherited is declared.inherits[0]):
                    found.append(Synonym(inherited.key, broker_setting.default_text, source))
        return found

    def _resolve(self, declared: TopicSetting) -> Any:
        if declared.key in self.overrides:
            try:
                return declared.rule.read(declared.key, self.overrides[declared.key])
            except ConfigError:
                pass  # Written past us into the store: the broker's value holds, as if it were not there.
        for inherited in declared.inherits:
            value = getattr(self._config, SETTINGS[inherited.key][0])
            if value is not None:
                return value * inherited.factor if inherited.factor != 1 and value >= 0 else value
        return declared.default
