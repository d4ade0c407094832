"""A topic's configuration: its overrides before the broker's settings before Apache Kafka's defaults.

Each topic key names the broker keys it inherits from, in the order of precedence; a broker key in hours or minutes has
the factor that converts it into the topic's milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sordini.broker.configuration.config import SETTINGS, Config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig, IgnoredEntry, Synonym
from sordini.broker.configuration.protocol_version import ONE_FORMAT, read_version
from sordini.broker.configuration.settings import ConfigError, ValueKind, ValueRule, boolean, long, matching, one_of
from sordini.protocol.records.batch import CURRENT_MAGIC
from sordini.system.named_tuple import NamedTuple

SCHEMA_VALIDATE = "sordini.schema.validate"
DEAD_LETTERS = "errors.deadletterqueue.group.enable"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


# `*+` is possessive: with backtracking over blanks a short text would take exponential time to refuse.
THROTTLED_REPLICAS = matching(
    r"\*|([0-9]+:[0-9]+)?( *, *+([0-9]+:[0-9]+)?)*", "* or a comma-separated list of partition:broker", ValueKind.LIST
)


class BrokerKey(NamedTuple):
    """A broker key that a topic key inherits from, and the factor between their units."""

    key: str
    factor: int = 1


class TopicSetting(NamedTuple):
    """One topic key; `default` is used where no broker key has one."""

    key: str
    rule: ValueRule
    inherits: tuple[BrokerKey, ...]
    meaning: str
    default: Any = None


def _same(key: str, broker_key: str, meaning: str, *, rule: ValueRule | None = None) -> TopicSetting:
    return TopicSetting(key, rule or SETTINGS[broker_key][1].rule, (BrokerKey(broker_key),), meaning)


def _declare() -> Iterator[TopicSetting]:
    yield _same("cleanup.policy", "log.cleanup.policy", "What happens to old segments.")
    yield _same("compression.type", "compression.type", "The codec batches are stored with.")
    yield _same("compression.gzip.level", "compression.gzip.level", "Level for gzip.")
    yield _same("compression.lz4.level", "compression.lz4.level", "Level for lz4.")
    yield _same("compression.zstd.level", "compression.zstd.level", "Level for zstd.")
    yield _same("delete.retention.ms", "log.cleaner.delete.retention.ms", "How long deletion markers stay.")
    yield _same("file.delete.delay.ms", "log.segment.delete.delay.ms", "Time before a removed file is deleted.")
    yield _same("flush.messages", "log.flush.interval.messages", "Messages after which the log is flushed to disk.")
    yield TopicSetting(
        "flush.ms",
        long(0),
        (BrokerKey("log.flush.interval.ms"), BrokerKey("log.flush.scheduler.interval.ms")),
        "Time after which the log is flushed to disk.",
    )
    throttled = "Replicas whose replication is throttled: partition:broker pairs, or *."
    yield TopicSetting("follower.replication.throttled.replicas", THROTTLED_REPLICAS, (), throttled, "")
    yield TopicSetting("leader.replication.throttled.replicas", THROTTLED_REPLICAS, (), throttled, "")
    yield _same("index.interval.bytes", "log.index.interval.bytes", "Bytes of log between two index entries.")
    yield _same(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        "Maximum age of a record before it becomes eligible for compaction.",
    )
    yield _same(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        "Minimum age of a record before it can be compacted.",
    )
    yield _same(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        "Minimum ratio of dirty log to total log for compaction.",
    )
    yield TopicSetting(
        SCHEMA_VALIDATE,
        one_of("none", "id", "full"),
        (),
        "With id, a produced value has to begin with a schema id that a registry has for the subject <topic>-value; "
        "with full, that schema has to decode it, too.",
        "none",
    )
    yield TopicSetting(
        DEAD_LETTERS,
        boolean,
        (),
        "Whether share groups may name the topic for their dead letters (KIP-1191).",
        default=False,
    )
    yield from _declare_messages()
    yield from _declare_retention()


def _declare_messages() -> Iterator[TopicSetting]:
    yield _same("max.message.bytes", "message.max.bytes", "Maximum size of a record batch.")
    yield _same(
        "message.downconversion.enable",
        "log.message.downconversion.enable",
        "Down-convert records for consumers of old formats.",
    )
    yield _same(
        "message.timestamp.type",
        "log.message.timestamp.type",
        "Whether a record has the producer's time or the time of the append.",
    )
    for end in ("difference", "before", "after"):
        yield _same(
            f"message.timestamp.{end}.max.ms", f"log.message.timestamp.{end}.max.ms", "Bound on a record's timestamp."
        )
    yield _same(
        "min.insync.replicas", "min.insync.replicas", "In-sync replicas that a produce request with acks=all needs."
    )
    yield _same(
        "preallocate", "log.preallocate", "Preallocate a segment's disk space, up to an eighth of the free space."
    )
    yield _same(
        "message.format.version",
        "log.message.format.version",
        "The message format stored, while inter.broker.protocol.version is below 3.0.",
    )


def _declare_retention() -> Iterator[TopicSetting]:
    for key in ("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"):
        yield TopicSetting(key, boolean, (), "Tiered storage; only false is allowed.", default=False)
    for key in ("local.retention.bytes", "local.retention.ms"):
        yield TopicSetting(key, long(-2), (), "Tiered storage: local retention; -2 keeps all.", default=-2)
    yield _same(
        "retention.bytes", "log.retention.bytes", "Size of each partition above which old segments are deleted."
    )
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
        "Random time subtracted from segment.ms.",
    )
    yield TopicSetting(
        "segment.ms",
        long(1),
        (BrokerKey("log.roll.ms"), BrokerKey("log.roll.hours", HOUR_MS)),
        "A segment older than this is rolled.",
    )
    yield _same(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        "Allow a replica outside the ISR to become leader.",
    )


TOPIC_SETTINGS: dict[str, TopicSetting] = {declared.key: declared for declared in _declare()}


def check_topic_configs(configs: Mapping[str, str | None]) -> None:
    """Raise ConfigError for overrides of a topic that are unknown, null or wrong, or that contradict each other.

    The text names key, value and rule.
    """
    values: dict[str, Any] = {}
    for key, text in configs.items():
        declared = TOPIC_SETTINGS.get(key)
        if declared is None:
            raise ConfigError(f"{key} is not a topic configuration: allowed are {', '.join(TOPIC_SETTINGS)}")
        if text is None:
            raise ConfigError(f"{key} has no value: allowed is {declared.rule.allowed}")
        values[key] = declared.rule.read(key, text)
        if values[key] is True and key.startswith("remote."):
            raise ConfigError(f"{key}={text!r} is not valid: allowed is false, there is no tiered storage")
    least, most = (values.get(key, default_of(key)) for key in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if least > most:
        raise ConfigError(
            f"min.compaction.lag.ms={least} is not valid: allowed is no more than max.compaction.lag.ms={most}"
        )


def unusable_overrides(overrides: Mapping[str, str]) -> list[IgnoredEntry]:
    """The overrides in the store that cannot be used, and why."""
    found = []
    for key, text in overrides.items():
        try:
            check_topic_configs({key: text})
        except ConfigError:
            known = TOPIC_SETTINGS.get(key)
            found.append(IgnoredEntry(key, f"allowed is {known.rule.allowed}" if known else "unknown key"))
    return found


def stored_format(broker: Config, topic_version: str) -> int:
    """The message format that a topic with this `message.format.version` stores.

    Format 2 from protocol 3.0 on, whatever is configured; a version newer than the protocol gives way to the broker's.
    """
    protocol = broker.inter_broker_protocol_version
    if protocol >= ONE_FORMAT:
        return CURRENT_MAGIC
    version = read_version(topic_version)
    return (read_version(broker.log_message_format_version) if version > protocol else version).magic


def overruled_format(broker: Config, version: str | None) -> str | None:
    """Why a configured message format is not the stored one; None if it is, or if none is configured."""
    protocol = broker.inter_broker_protocol_version
    configured = None if version is None else read_version(version)
    if configured is None or configured <= protocol < ONE_FORMAT:
        return None
    if protocol < ONE_FORMAT:
        return f"{configured} is newer than inter.broker.protocol.version={protocol}"
    return (
        None if configured.magic == CURRENT_MAGIC else f"from protocol 3.0 on the format is 2, not that of {configured}"
    )


def default_of(key: str) -> Any:
    """A topic key's value when no key is set."""
    declared = TOPIC_SETTINGS[key]
    for inherited in declared.inherits:
        value = SETTINGS[inherited.key][1].default
        if value is not None:
            return _in_topic_units(value, inherited)
    return declared.default


class TopicConfig:
    """One topic's resolved values. Overrides that cannot be used (another tool wrote them) are ignored."""

    __slots__ = ("_broker", "_own", "_values", "overrides")

    def __init__(self, broker: DynamicConfig, overrides: Mapping[str, str]) -> None:
        """Values that are inherited are those in force now."""
        self._broker = broker
        self.overrides = dict(overrides)
        useless = {entry.key for entry in unusable_overrides(overrides)}
        self._own = {key: text for key, text in overrides.items() if key not in useless}
        self._values: dict[str, Any] = {}
        for key, declared in TOPIC_SETTINGS.items():
            self._values[key] = self._resolve(declared)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def source(self, key: str) -> ConfigSource:
        """The source of the value in force."""
        given = self.synonyms(key)
        return given[0].source if given else ConfigSource.DEFAULT

    def synonyms(self, key: str) -> list[Synonym]:
        """Every source of a value, the one in force first (KIP-226)."""
        inherited = self._broker.synonyms([broker_key.key for broker_key in TOPIC_SETTINGS[key].inherits])
        if key in self._own:
            inherited.insert(0, Synonym(key, self._own[key], ConfigSource.TOPIC))
        return inherited

    def _resolve(self, declared: TopicSetting) -> Any:
        if declared.key in self._own:
            return declared.rule.read(declared.key, self._own[declared.key])
        for inherited in declared.inherits:
            value = getattr(self._broker.config, SETTINGS[inherited.key][0])
            if value is not None:
                return _in_topic_units(value, inherited)
        return declared.default


def _in_topic_units(value: Any, inherited: BrokerKey) -> Any:
    return value * inherited.factor if inherited.factor != 1 and value >= 0 else value
