"""The configuration of the brokers of one process."""

from __future__ import annotations

import asyncio
import io

import pytest

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.process.dev_cluster import OWN_KEYS, DevClusterPlan, broker_log, configurations
from sordini.broker.process.logging import make_logger

PLAN = DevClusterPlan(3, "data/dev", "127.0.0.1", 9092)


def test_each_has_an_id_a_listener_and_a_directory_of_its_own() -> None:
    configs = [given.config for given in configurations(PLAN, (), {}).values()]
    assert [config.broker_id for config in configs] == [1, 2, 3]
    assert [str(config.endpoints[0]) for config in configs] == [
        "PLAINTEXT://127.0.0.1:9092",
        "PLAINTEXT://127.0.0.1:9093",
        "PLAINTEXT://127.0.0.1:9094",
    ]
    assert [config.log_directories for config in configs] == [
        ("data/dev/broker-1",),
        ("data/dev/broker-2",),
        ("data/dev/broker-3",),
    ]


@pytest.mark.parametrize(("brokers", "copies"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_topics_have_as_many_copies_as_there_are_brokers_and_three_at_the_most(brokers: int, copies: int) -> None:
    for given in configurations(PLAN._replace(brokers=brokers), (), {}).values():
        assert given.config.default_replication_factor == copies
        assert given.config.offsets_topic_replication_factor == copies


def test_overrides_and_the_environment_hold_for_all_and_say_so() -> None:
    every = configurations(PLAN, ["num.partitions=7"], {"KAFKA_MIN_INSYNC_REPLICAS": "2", "KAFKA_NUM_PARTITIONS": "5"})
    for given in every.values():
        assert (given.config.num_partitions, given.config.min_insync_replicas) == (7, 2)
        assert {"num.partitions", "min.insync.replicas", "broker.id"} <= given.explicit
        assert "retention.ms" not in given.explicit


@pytest.mark.parametrize("key", OWN_KEYS)
def test_what_each_has_to_itself_cannot_be_overridden(key: str) -> None:
    with pytest.raises(ConfigError, match=f"--override {key}=x is not valid here"):
        configurations(PLAN, [f"{key}=x"], {})


def test_a_containers_environment_for_one_broker_does_not_get_in_the_way() -> None:
    environment = {"KAFKA_LOG_DIRS": "/elsewhere", "KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_BROKER_ID": "9"}
    config = configurations(PLAN, (), environment)[2].config
    assert (config.broker_id, config.log_directories, config.zookeeper_connect) == (2, ("data/dev/broker-2",), "")


def test_port_0_leaves_every_port_to_the_system_and_metrics_ports_follow_the_first() -> None:
    free = configurations(PLAN._replace(port=0), (), {})
    assert [given.config.endpoints[0].port for given in free.values()] == [0, 0, 0]
    measured = configurations(PLAN, ["sordini.metrics.port=9100"], {})
    assert [given.config.metrics_port for given in measured.values()] == [9100, 9101, 9102]
    for unmoved in ("0", "-1"):
        same = configurations(PLAN, [f"sordini.metrics.port={unmoved}"], {})
        assert [given.config.metrics_port for given in same.values()] == [int(unmoved)] * 3


def test_each_line_says_whose_it_is_and_while_all_stop_nobodys_end_is_alarming() -> None:
    lines, stop = io.StringIO(), asyncio.Event()
    log = broker_log(make_logger("warning", lines), 2, stop)
    log.warning("leader unreachable", broker=3)
    log.info("not for this level")
    assert "leader unreachable" in lines.getvalue()
    assert "broker=3" in lines.getvalue()
    assert "this_broker=2" in lines.getvalue()
    stop.set()
    reported = lines.getvalue()
    log.warning("leader unreachable", broker=1)
    assert lines.getvalue() == reported
    log.error("out of memory")
    assert "out of memory" in lines.getvalue()
