"""Configurations of Apache Kafka in KRaft mode: taken over by one broker, or refused in a sentence."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.environment import environment_entries, unknown_names
from sordini.broker.configuration.keys.kraft_keys import is_kraft_key, taken_over
from sordini.broker.configuration.settings import ConfigError

KAFKA_4 = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""The keys of config/server.properties as Apache Kafka 4 ships it, and their values but for an absolute path."""


def test_the_file_of_apache_kafka_4_is_taken_over_by_the_broker_of_its_node_id() -> None:
    entries, note = taken_over(KAFKA_4)
    config, unknown = build_config(entries)
    assert unknown == []
    assert config.broker_id == 1
    assert config.share_coordinator_state_topic_min_isr == config.share_coordinator_state_topic_replication_factor == 1
    assert [str(endpoint) for endpoint in config.endpoints] == ["PLAINTEXT://:9092"]
    assert [str(end) for end in config.advertised(config.endpoints)] == ["PLAINTEXT://localhost:9092"]
    assert note == {
        "broker_id": "1 (node.id)",
        "not_opened": "CONTROLLER://:9093",
        "without_effect": "controller.listener.names, controller.quorum.bootstrap.servers, process.roles",
    }


def test_a_configuration_without_a_key_of_kraft_stays_as_it_is() -> None:
    entries = {"broker.id": "3", "listeners": "CONTROLLER://:1", "controller.socket.timeout.ms": "1"}
    assert taken_over(entries) == (entries, {})


def test_a_node_id_alone_is_the_broker_id_as_high_as_it_may_be() -> None:
    entries, note = taken_over({"node.id": " 30001 ", "zookeeper.connect": "z:2181"})
    assert build_config(entries)[0].broker_id == 30001
    assert note == {"broker_id": "30001 (node.id)"}


def test_both_names_of_the_id_may_have_one_value() -> None:
    assert taken_over({"node.id": "3", "broker.id": "3"}).entries["broker.id"] == "3"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"process.roles": "controller"}, "process.roles='controller' is a KRaft controller, which Sordini does not"),
        ({"process.roles": "broker"}, "process.roles='broker' is a broker of a KRaft quorum, which Sordini cannot"),
        ({"process.roles": "brokers"}, "process.roles='brokers' is not valid: allowed is broker,controller"),
        ({"node.id": ""}, "without node.id: allowed is node.id=N"),
        ({"node.id": "one"}, "node.id='one' is not valid"),
        ({"broker.id": "2"}, "node.id=1 and broker.id=2 are two names of one id"),
        (
            {"controller.quorum.voters": "1@a:9093,2@b:9093"},
            "controller.quorum.voters='1@a:9093,2@b:9093' is a KRaft quorum, which Sordini cannot join",
        ),
        ({"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, "set zookeeper.connect for a cluster of several"),
    ],
)
def test_what_describes_another_cluster_than_one_broker_is_refused_with_the_remedy(
    changes: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        taken_over({**KAFKA_4, **changes})
    assert said in str(refusal.value)


@pytest.mark.parametrize("roles", ["broker", "broker,controller", "controller, broker"])
def test_with_zookeeper_connect_a_broker_of_any_quorum_is_taken_over(roles: str) -> None:
    quorum = {"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093", "zookeeper.connect": "z:2181"}
    entries, _ = taken_over({**KAFKA_4, **quorum, "process.roles": roles})
    config = build_config(entries)[0]
    assert (config.broker_id, config.zookeeper_connect) == (1, "z:2181")


def test_keys_of_a_controllers_listener_go_with_it_and_those_of_others_stay() -> None:
    more = {
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.max.connections": "5",
    }
    entries, _ = taken_over({**KAFKA_4, **more})
    assert more.keys() & entries.keys() == {"listener.name.plaintext.max.connections"}
    assert build_config(entries)[1] == []


def test_variables_of_a_container_are_read_as_the_keys_are() -> None:
    environment = {
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_GROUP_SHARE_ENABLE": "true",
    }
    assert unknown_names(environment) == []
    config, unknown = build_config(taken_over(environment_entries(environment)).entries)
    assert (config.broker_id, [end.name for end in config.endpoints], unknown) == (7, ["PLAINTEXT"], [])


@pytest.mark.parametrize("key", ["process.role", "nodes.id", "controller.quorum.", "share", "metadata.max.age.ms.x.y"])
def test_a_key_that_is_nearly_one_of_kraft_is_unknown(key: str) -> None:
    assert is_kraft_key(key) is (key == "metadata.max.age.ms.x.y")
