"""What the configurations of topics mean to their logs and to the checks on what is produced."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.storage.log_config import NEVER


def configs(overrides: Mapping[str, Mapping[str, str]] | None = None, **broker: str) -> TopicConfigs:
    """The configurations of a broker with some keys set (`_` for `.`), over a store that holds `overrides`."""
    entries = {key.replace("_", "."): text for key, text in broker.items()}

    async def read(topic: str) -> Mapping[str, str]:
        return (overrides or {}).get(topic, {})

    return TopicConfigs(DynamicConfig(build_config(entries)[0], frozenset(entries)), read)


async def test_loaded_overrides_apply_to_a_topic_until_they_are_replaced_or_forgotten() -> None:
    known = configs({"orders": {"segment.bytes": "1000"}, "bills": {"segment.bytes": "2000"}})
    assert known.config_of("orders")["segment.bytes"] == 1 << 30
    await known.load(["orders", "bills"])
    assert known.settings_of("orders").log.segment_bytes == 1000
    assert known.settings_of("bills").log.segment_bytes == 2000
    known.set("orders", {"segment.bytes": "3000"})
    assert known.settings_of("orders").log.segment_bytes == 3000
    known.forget("orders")
    assert known.settings_of("orders").log.segment_bytes == 1 << 30


def test_news_of_a_topic_that_has_gone_are_not_kept() -> None:
    known = configs()
    known.set("gone", {})
    assert known.config_of("gone") is not known.config_of("gone")
    known.set("orders", {"segment.bytes": "1000"})
    known.set("orders", {})
    assert known.config_of("orders") is known.config_of("orders")
    assert known.config_of("orders")["segment.bytes"] == 1 << 30


def test_what_topics_inherit_changes_in_all_of_them_but_for_what_they_say_themselves() -> None:
    broker = DynamicConfig(build_config({})[0])
    known = TopicConfigs(broker, lambda _: _nothing())
    known.set("orders", {"segment.bytes": "1000"})
    broker.set_layer(ConfigSource.DYNAMIC_BROKER, {"log.segment.bytes": "2000", "message.max.bytes": "77"})
    orders, bills = known.settings_of("orders"), known.settings_of("bills")
    assert (orders.log.segment_bytes, orders.rules.message_bytes_max) == (1000, 77)
    assert (bills.log.segment_bytes, bills.rules.message_bytes_max) == (2000, 77)


async def _nothing() -> Mapping[str, str]:
    return {}


def test_the_brokers_settings_are_every_topics() -> None:
    settings = configs(
        log_segment_bytes="5000",
        min_insync_replicas="2",
        log_message_downconversion_enable="false",
        message_max_bytes="77",
    ).settings_of("any")
    assert settings.log.segment_bytes == 5000
    assert settings.min_insync_replicas == 2
    assert not settings.down_conversion
    assert settings.rules.message_bytes_max == 77


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [("delete", True, False), ("compact", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_a_compacted_topic_wants_keys(policy: str, deletes: bool, compacts: bool) -> None:
    known = configs()
    known.set("t", {"cleanup.policy": policy})
    settings = known.settings_of("t")
    assert (settings.log.cleanup_delete, settings.log.cleanup_compact) == (deletes, compacts)
    assert settings.rules.key_required is compacts


def test_a_compacted_topic_tells_the_cleaner_what_it_wants() -> None:
    known = configs(log_cleaner_delete_retention_ms="7")
    own = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "5",
        "max.compaction.lag.ms": "6000",
    }
    known.set("t", own)
    log = known.settings_of("t").log
    assert (log.min_cleanable_dirty_ratio, log.min_compaction_lag_ms, log.max_compaction_lag_ms) == (0.25, 5, 6000)
    assert log.delete_retention_ms == 7


@pytest.mark.parametrize(
    ("policy", "segment_ms", "jitter_ms"),
    [("compact", 6000, 6000), ("compact,delete", 6000, 6000), ("delete", 9000, 7000)],
)
def test_segments_of_a_compacted_topic_close_before_the_greatest_lag_is_over(
    policy: str, segment_ms: int, jitter_ms: int
) -> None:
    known = configs()
    times = {"segment.ms": "9000", "segment.jitter.ms": "7000", "max.compaction.lag.ms": "6000"}
    known.set("t", {"cleanup.policy": policy, **times})
    log = known.settings_of("t").log
    assert (log.segment_ms, log.segment_jitter_ms) == (segment_ms, jitter_ms)


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", 0, None),
        ("gzip", 1, 7),
        ("snappy", 2, None),
        ("lz4", 3, 5),
        ("zstd", 4, 11),
    ],
)
def test_a_topics_codec_comes_with_its_own_level(name: str, codec: int | None, level: int | None) -> None:
    known = configs()
    known.set(
        "t",
        {
            "compression.type": name,
            "compression.gzip.level": "7",
            "compression.lz4.level": "5",
            "compression.zstd.level": "11",
        },
    )
    rules = known.settings_of("t").rules
    assert (rules.codec, rules.codec_level) == (codec, level)


def test_the_old_bound_on_timestamps_narrows_both_new_ones() -> None:
    known = configs()
    known.set("t", {"message.timestamp.difference.max.ms": "100", "message.timestamp.before.max.ms": "50"})
    rules = known.settings_of("t").rules
    assert (rules.timestamp_before_ms_max, rules.timestamp_after_ms_max) == (50, 100)


def test_the_append_time_is_the_logs_and_the_checks_alike() -> None:
    known = configs()
    known.set("t", {"message.timestamp.type": "LogAppendTime"})
    settings = known.settings_of("t")
    assert settings.log.log_append_time
    assert settings.rules.log_append_time


def test_a_flush_by_time_is_off_unless_it_is_set() -> None:
    known = configs()
    assert known.settings_of("t").log.flush_ms == NEVER
    known.set("t", {"flush.ms": "0"})
    assert known.settings_of("t").log.flush_ms == 0


def test_what_the_broker_checks_inside_compressed_batches_is_its_own_setting() -> None:
    assert not configs().settings_of("t").rules.check_compressed
    rules = configs(sordini_validate_compressed="true", sordini_expanded_bytes_max="2048").settings_of("t").rules
    assert rules.check_compressed
    assert rules.expanded_bytes_max == 2048


def test_partitions_of_one_topic_share_their_settings_until_these_change() -> None:
    broker = DynamicConfig(build_config({})[0])
    known = TopicConfigs(broker, lambda _: _nothing())
    known.set("orders", {"segment.bytes": "1000"})
    shared = known.settings_of("orders")
    assert known.settings_of("orders") is shared
    known.set("orders", {"segment.bytes": "1000", "flush.ms": "5"})
    assert known.settings_of("orders").log.flush_ms == 5
    broker.set_layer(ConfigSource.DYNAMIC_BROKER, {"message.max.bytes": "77"})
    assert known.settings_of("orders").rules.message_bytes_max == 77
    known.forget("orders")
    assert known.settings_of("orders").log.segment_bytes == 1 << 30
