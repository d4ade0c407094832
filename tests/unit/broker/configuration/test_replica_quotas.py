"""Throttles of replication follow the configuration of the broker and of the topics."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.replica_quotas import is_throttled, replica_quotas
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.wiring.replica_fetchers import fetch_settings
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.fetching.messages import FetchSettings

ME = BrokerId(1)


async def none(_: str) -> dict[str, str]:
    return {}


def test_a_list_names_replicas_or_all_of_them() -> None:
    assert is_throttled("*", 5, ME)
    assert not is_throttled("", 0, ME)
    assert is_throttled("0:1, 3:2 ,7:1", 7, ME)
    assert not is_throttled("0:1,3:2,7:1", 3, ME)


def test_rates_and_lists_take_effect_when_they_are_set_and_when_they_are_taken_away() -> None:
    dynamic = DynamicConfig(build_config({})[0])
    topics = TopicConfigs(dynamic, none)
    quotas = replica_quotas(ME, dynamic, topics)
    listed, other = TopicPartition("orders", 3), TopicPartition("orders", 4)

    def held_back() -> list[bool]:
        quotas.leader.record(listed, 10_000, 0)
        return [quota.is_throttled(name, 0) for quota in quotas for name in (listed, other)]

    assert held_back() == [False] * 4
    dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {"leader.replication.throttled.rate": "100"})
    assert held_back() == [False] * 4, "a rate alone throttles no replica"
    topics.set("orders", {"leader.replication.throttled.replicas": "3:1,4:2"})
    assert held_back() == [True, False, False, False]
    dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {})
    assert held_back() == [False] * 4


def test_the_defaults_are_apache_kafkas() -> None:
    assert fetch_settings(build_config({})[0]) == FetchSettings(500, 1, 1048576, 10485760, 1000, 30000)


@pytest.mark.parametrize(
    ("entries", "key"),
    [
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.socket.timeout.ms=30000"),
        ({"replica.fetch.wait.max.ms": "20000", "replica.lag.time.max.ms": "10000"}, "replica.lag.time.max.ms=10000"),
    ],
)
def test_a_wait_longer_than_what_it_would_upset_is_refused(entries: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=r"replica\.fetch\.wait") as refusal:
        build_config(entries)
    assert key in str(refusal.value)
