"""Versions of the brokers' protocol, and which message format they mean for a topic."""

from __future__ import annotations

import itertools
import re

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.protocol_version import ONE_FORMAT, read_version
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.configuration.topic_config import overruled_format, stored_format
from sordini.broker.configuration.topic_configs import TopicConfigs

AGES = (
    ("0.8.0", 0), ("0.8.2", 0), ("0.9.0", 0), ("0.10.0-IV0", 1), ("0.10.0-IV1", 1), ("0.10.1-IV2", 1), ("0.10.2-IV0", 1),
    ("0.11.0-IV0", 2), ("0.11.0-IV2", 2), ("1.0-IV0", 2), ("1.1-IV0", 2), ("2.0-IV1", 2), ("2.1-IV2", 2), ("2.7-IV0", 2),
    ("2.7-IV2", 2), ("2.8-IV1", 2), ("3.0-IV0", 2), ("3.0-IV1", 2), ("3.3-IV3", 2), ("3.7-IV4", 2), ("3.9-IV0", 2),
)  # fmt: skip


def test_versions_are_ordered_by_age_and_know_their_newest_message_format() -> None:
    read = [read_version(text) for text, _ in AGES]
    assert all(older < newer for older, newer in itertools.pairwise(read))
    assert [version.magic for version in read] == [magic for _, magic in AGES]
    assert [str(version) for version in read] == [text for text, _ in AGES]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0.9.0.1", "0.9.0"),
        ("0.10.0", "0.10.0-IV1"),
        ("0.10.2.2", "0.10.2-IV0"),
        ("0.11.0", "0.11.0-IV2"),
        ("1.0", "1.0-IV0"),
        ("2.7.2", "2.7-IV2"),
        ("3.0", "3.0-IV1"),
        ("3.9", "3.9-IV0"),
        ("3.9.1", "3.9-IV0"),
    ],
)
def test_a_release_means_its_last_step(text: str, meant: str) -> None:
    assert read_version(text) == read_version(meant)
    assert str(read_version(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.10", "0.12.0", "1.2", "2.9", "2.7-IV3", "0.9.0-IV0", "2.7-IV", "2.7-IV-1", "2.7-iv1", "4.0", "x"],
)
def test_what_was_never_a_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text) or "^$"):
        read_version(text)
    for key in ("inter.broker.protocol.version", "log.message.format.version"):
        with pytest.raises(ConfigError, match=r"a version, such as"):
            build_config({key: text})


def entries(protocol: str, version: str) -> dict[str, str]:
    return {"inter.broker.protocol.version": protocol, "log.message.format.version": version}


def test_the_defaults_store_batches() -> None:
    config, _ = build_config({})
    assert (str(config.inter_broker_protocol_version), config.log_message_format_version) == ("3.9-IV0", "3.0-IV1")
    assert stored_format(config, "0.9.0") == 2
    assert not config.is_format_overruled


def test_the_brokers_format_must_be_one_that_the_protocol_has() -> None:
    for protocol, version in (("0.9.0", "0.10.0"), ("0.10.2", "0.11.0"), ("0.10.2", "3.0-IV1")):
        with pytest.raises(ConfigError, match=rf"log\.message\.format\.version={version} .*{protocol}"):
            build_config(entries(protocol, version))
    with pytest.raises(ConfigError):
        build_config({"inter.broker.protocol.version": "0.10.2"})
    # It may be newer, as long as the format is the same.
    for protocol, version in (("0.9.0", "0.9.0"), ("0.10.0", "0.10.2"), ("2.7", "3.0-IV1"), ("3.0", "0.9.0")):
        build_config(entries(protocol, version))


@pytest.mark.parametrize(
    ("protocol", "broker", "topic", "magic"),
    [
        ("0.9.0", "0.9.0", "0.8.2", 0),
        ("0.10.2", "0.10.2", "0.9.0", 0),
        ("0.10.2", "0.9.0", "0.10.1", 1),
        ("0.10.2", "0.9.0", "0.10.2", 1),
        ("2.8", "2.8", "0.10.2", 1),
        ("2.8", "0.10.2", "2.8", 2),
        ("3.0-IV0", "2.8", "0.9.0", 0),
        ("3.0-IV1", "2.8", "0.9.0", 2),
        ("3.9", "0.9.0", "0.9.0", 2),
        # Newer than the protocol: the broker's own.
        ("0.10.2", "0.9.0", "0.11.0", 0),
        ("0.10.1", "0.9.0", "0.10.2", 0),
    ],
)
def test_below_protocol_3_a_topics_format_is_stored_and_from_then_on_batches_are(
    protocol: str, broker: str, topic: str, magic: int
) -> None:
    config, _ = build_config(entries(protocol, broker))
    assert stored_format(config, topic) == magic
    known = TopicConfigs(DynamicConfig(config), _none)
    known.set("orders", {"message.format.version": topic})
    assert known.settings_of("orders").rules.magic == magic
    assert known.config_of("orders")["message.format.version"] == topic
    own = 2 if read_version(protocol) >= ONE_FORMAT else read_version(broker).magic
    assert known.settings_of("others").rules.magic == own


async def _none(_: str) -> dict[str, str]:
    return {}


@pytest.mark.parametrize(("protocol", "zstd"), [("2.0", False), ("2.1-IV0", True), ("3.9", True)])
def test_zstd_is_stored_from_protocol_2_1_on(protocol: str, zstd: bool) -> None:
    known = TopicConfigs(DynamicConfig(build_config(entries(protocol, "2.0"))[0]), _none)
    assert known.settings_of("orders").rules.zstd is zstd


def test_a_message_format_that_the_protocol_version_overrules_is_reported() -> None:
    old, _ = build_config(entries("0.10.2", "0.10.2"))
    new, _ = build_config(entries("3.9", "0.10.2"))
    assert new.is_format_overruled
    assert not old.is_format_overruled
    assert overruled_format(old, None) is None
    assert overruled_format(old, "0.9.0") is None
    assert "newer" in str(overruled_format(old, "0.11.0"))
    assert "3.0" in str(overruled_format(new, "0.9.0"))
    assert overruled_format(new, "2.7") is None
