"""What refuses a broker's start before there is a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.wiring.startup import StartRefused, cluster_settings_of, policy_of, refuse_incompatible_cluster
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, BrokerEndpoint, ClusterSettings
from sordini.replication.controller.policy import LeaderRebalance
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.registration import EndpointTaken, ensure_base_paths
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import inline

ME = Broker(BrokerId(1), 0, (BrokerEndpoint("PLAINTEXT", "a", 9092),))


@pytest.fixture
async def session() -> AsyncIterator[EmbeddedSession]:
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    session = await store.open_session()
    await ensure_base_paths(session)
    yield session
    await store.close()


def speaking(protocol: str, **entries: str) -> Config:
    old = {"log.message.format.version": "0.10.0"}
    return build_config({"inter.broker.protocol.version": protocol, **old, **entries})[0]


async def others(session: EmbeddedSession, *broker_ids: int, is_exclusive: bool = False) -> None:
    for number in broker_ids:
        broker = Broker(
            BrokerId(number), 0, (BrokerEndpoint("PLAINTEXT", f"host-{number}", 9092),), is_exclusive=is_exclusive
        )
        await session.create(paths.broker(broker.broker_id), znodes.encode_broker(broker, 0))


@pytest.mark.parametrize("protocol", ["0.10.0", "2.6", "2.6-IV0"])
async def test_a_protocol_that_brokers_do_not_speak_among_themselves_is_refused_beside_others(
    session: EmbeddedSession, protocol: str
) -> None:
    await refuse_incompatible_cluster(speaking(protocol), session, ME)
    await others(session, 1)
    await refuse_incompatible_cluster(speaking(protocol), session, ME)
    await others(session, 12, 3)
    with pytest.raises(StartRefused, match=f"inter.broker.protocol.version={protocol} .* broker 3, 12: .* 2.7-IV0"):
        await refuse_incompatible_cluster(speaking(protocol), session, ME)


@pytest.mark.parametrize("protocol", ["2.7-IV0", "2.7", "3.9"])
async def test_from_2_7_on_a_broker_joins_others(session: EmbeddedSession, protocol: str) -> None:
    await others(session, 2, 3)
    await refuse_incompatible_cluster(speaking(protocol), session, ME)


async def test_a_pure_broker_joins_pure_ones_only(session: EmbeddedSession) -> None:
    pure = ME._replace(is_exclusive=True)
    config = speaking("3.9", **{"sordini.cluster.exclusive": "true"})
    await others(session, 2, is_exclusive=True)
    await refuse_incompatible_cluster(config, session, pure)
    with pytest.raises(
        StartRefused, match=r"broker 2 is registered with sordini.cluster.exclusive=true, .* without it"
    ):
        await refuse_incompatible_cluster(speaking("3.9"), session, ME)
    await others(session, 3)
    with pytest.raises(
        StartRefused, match=r"broker 3 is registered without sordini.cluster.exclusive=true, .* with it"
    ):
        await refuse_incompatible_cluster(config, session, pure)


def test_the_controller_of_a_pure_cluster_finalizes_the_transaction_version() -> None:
    assert cluster_settings_of(speaking("3.9", **{"sordini.cluster.exclusive": "true"})).is_exclusive
    assert not cluster_settings_of(speaking("3.9")).is_exclusive


def test_a_protocol_for_brokers_of_apache_kafka_2_7_is_refused_in_a_pure_cluster() -> None:
    speaking("2.8-IV0", **{"sordini.cluster.exclusive": "true"})
    with pytest.raises(
        ConfigError, match=r"sordini.cluster.exclusive=true .* inter.broker.protocol.version=2.7-IV2, .*2.8-IV0"
    ):
        speaking("2.7-IV2", **{"sordini.cluster.exclusive": "true"})


async def test_an_address_of_another_broker_is_refused(session: EmbeddedSession) -> None:
    await others(session, 2)
    with pytest.raises(EndpointTaken, match="host-2:9092 is registered by broker 2"):
        await refuse_incompatible_cluster(
            speaking("3.9"), session, Broker(BrokerId(1), 0, (BrokerEndpoint("INTERNAL", "host-2", 9092),))
        )


async def test_a_store_connection_lost_meanwhile_is_reported_as_such(session: EmbeddedSession) -> None:
    await session.close()
    with pytest.raises(
        StartRefused, match="the connection to the coordination store was lost while the broker started"
    ):
        await refuse_incompatible_cluster(speaking("3.9"), session, ME)


@pytest.mark.parametrize(
    ("protocol", "uses_topic_ids", "feature_version", "marks_recovery"),
    [
        ("2.7", False, 1, False),
        ("2.8-IV0", True, 1, False),
        ("3.1-IV0", True, 1, False),
        ("3.2", True, 1, True),
        ("3.3-IV0", True, 2, True),
        ("3.9", True, 2, True),
    ],
)
def test_what_a_controller_counts_on_follows_from_the_protocol(
    protocol: str, uses_topic_ids: bool, feature_version: int, marks_recovery: bool
) -> None:
    names = {
        "listeners": "PLAINTEXT://:9092,IN://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:PLAINTEXT",
        "inter.broker.listener.name": "IN",
    }
    counted_on = cluster_settings_of(speaking(protocol, **names))
    assert counted_on == ClusterSettings("IN", uses_topic_ids, feature_version, marks_recovery)
    assert not cluster_settings_of(speaking(protocol, **names, **{"delete.topic.enable": "false"})).deletes_topics


def test_leaderships_are_evened_out_as_the_settings_say() -> None:
    assert policy_of(DynamicConfig(speaking("3.9"))).rebalance == LeaderRebalance(300, 10)
    given = {"leader.imbalance.check.interval.seconds": "7", "leader.imbalance.per.broker.percentage": "0"}
    assert policy_of(DynamicConfig(speaking("3.9", **given))).rebalance == LeaderRebalance(7, 0)
    assert policy_of(DynamicConfig(speaking("3.9", **{"auto.leader.rebalance.enable": "false"}))).rebalance is None


def test_unclean_elections_are_allowed_by_the_topic_or_else_by_the_brokers_default_of_the_moment() -> None:
    dynamic = DynamicConfig(speaking("3.9"))
    key, allows = "unclean.leader.election.enable", policy_of(dynamic).allows_unclean
    assert [allows({}), allows({key: "true"}), allows({key: "perhaps"})] == [False, True, False]
    dynamic.set_layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {key: "true"})
    assert [allows({}), allows({key: "false"}), allows({key: "perhaps"})] == [True, False, True]
