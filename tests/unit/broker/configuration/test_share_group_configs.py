"""What is in force for a share group, and where it begins to read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.group_configs import GroupConfigs
from sordini.broker.configuration.offset_reset import EARLIEST, LATEST, OffsetReset, read_offset_reset
from sordini.broker.configuration.share_group_configs import ShareGroupLimits, ShareLimits
from tests.support.fake_ports import ListLog

DEFAULT = ShareLimits(45000, 5000, 1000, 200, 5, 30000, 2000, LATEST, False, True, None, False)
INTERVAL = "group.share.assignment.interval.ms"


def limits(**entries: str) -> tuple[DynamicConfig, GroupConfigs, ShareGroupLimits]:
    dynamic = DynamicConfig(build_config(entries)[0], frozenset(entries))
    configs = GroupConfigs(dynamic, ListLog())
    return dynamic, configs, ShareGroupLimits(dynamic, configs)


def test_a_group_without_settings_has_those_of_the_broker_which_may_change() -> None:
    dynamic, _, found = limits()
    assert found.of("g") == DEFAULT
    dynamic.set_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {INTERVAL: "0"})
    assert found.of("g") == DEFAULT._replace(assignment_interval_ms=0)


def test_a_group_has_its_own_settings_from_the_next_use_on_and_loses_them_again() -> None:
    _, configs, found = limits()
    assert found.of("g") == DEFAULT
    own = {
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
        "share.delivery.count.limit": "2",
        "share.record.lock.duration.ms": "15000",
        "share.partition.max.record.locks": "100",
        "errors.deadletterqueue.topic.name": "dlq.g",
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    configs.changed("groups/g", own)
    expected = ShareLimits(
        45000, 5000, 1000, 200, 2, 15000, 100, OffsetReset("by_duration", 3_600_000), True, False, "dlq.g", True
    )
    assert found.of("g") == expected
    assert found.of("other") == DEFAULT
    configs.changed("groups/g", {**own, "share.delivery.count.limit": "3"})
    assert found.of("g") == expected._replace(delivery_count_limit=3)
    configs.changed("groups/g", {})
    assert found.of("g") == DEFAULT


def test_a_value_that_the_bounds_have_left_is_the_nearest_within_them() -> None:
    _, configs, found = limits(**{"group.share.max.delivery.count.limit": "6"})
    configs.changed("groups/g", {"share.delivery.count.limit": "9", "share.record.lock.duration.ms": "1000"})
    assert (found.of("g").delivery_count_limit, found.of("g").record_lock_duration_ms) == (6, 15000)


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [
        ("PT1H", 3_600_000),
        ("pt1h", 3_600_000),
        ("P2D", 172_800_000),
        ("P1DT-1H", 82_800_000),
        ("PT0S", 0),
        ("PT1.5S", 1500),
        ("PT1,5S", 1500),
        ("PT1.S", 1000),
        ("+PT1S", 1000),
        ("-PT-1S", 1000),
        ("P1DT2H3M4.005S", 93_784_005),
        ("P99999999999D", 8_639_999_999_913_600_000),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, age_ms: int) -> None:
    assert read_offset_reset(f"by_duration:{text}") == OffsetReset("by_duration", age_ms)


@pytest.mark.parametrize(
    "text",
    [
        *("LATEST", "Earliest", "none", "", "by_duration", "by_duration:", "BY_DURATION:PT1H"),
        *("by_duration:-PT1H", "by_duration:PT-1H", "by_duration:PT", "by_duration:P", "by_duration:PT.5S"),
        *("by_duration: PT1S", "by_duration:P1Y", "by_duration:PT-0.5S", "by_duration:PT2S1M", "by_duration:P1W"),
        *("by_duration:P1DT", "by_duration:PT1H ", "by_duration:PT\u0661S", "by_duration:P9999999999999999D"),
    ],
)
def test_what_apache_kafka_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_offset_reset(text)


def test_latest_and_earliest_are_not_durations() -> None:
    found = [read_offset_reset(text) for text in ("latest", "earliest", "by_duration:PT1S")]
    assert [(one.is_latest, one.is_earliest) for one in found] == [(True, False), (False, True), (False, False)]
    assert found[:2] == [LATEST, EARLIEST]


@given(st.integers(0, 10_000), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_that_is_written_is_read_back(days: int, hours: int, minutes: int, seconds: int, ms: int) -> None:
    found = read_offset_reset(f"by_duration:P{days}DT{hours}H{minutes}M{seconds}.{ms:03}S")
    assert found.age_ms == (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms
