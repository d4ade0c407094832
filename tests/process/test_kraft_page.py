"""docs/kraft.md: what its files become, and that it names every key of the file that Apache Kafka 4 ships for KRaft."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.keys.kraft_keys import is_kraft_key, taken_over
from sordini.broker.configuration.properties_file import read_properties
from tests.unit.broker.configuration.keys.test_kraft_keys import KAFKA_4

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kraft.md").read_text(encoding="utf-8")
SHIPPED, SHORTER, CLUSTER = (
    read_properties(block) for block in re.findall(r"```properties\n(.*?)```", PAGE, re.DOTALL)
)


def config_of(entries: dict[str, str]) -> Config:
    config, unknown = build_config(taken_over(entries).entries)
    assert unknown == []
    return config


def test_the_first_file_has_the_keys_of_apache_kafka_4_and_is_the_broker_that_the_page_says() -> None:
    assert SHIPPED.items() <= KAFKA_4.items()
    assert {key for key in KAFKA_4 if is_kraft_key(key)} <= SHIPPED.keys()
    assert [str(end) for end in config_of(SHIPPED).endpoints] == ["PLAINTEXT://:9092"]


def test_the_shorter_file_is_the_same_broker_and_takes_nothing_over() -> None:
    long, short = config_of(SHIPPED), config_of(SHORTER)
    assert taken_over(SHORTER).note == {}
    assert (short.broker_id, short.endpoints) == (long.broker_id, long.endpoints)
    assert short.advertised(short.endpoints) == long.advertised(long.endpoints)


def test_the_file_of_a_cluster_is_valid_with_the_keys_of_kraft_and_without() -> None:
    assert config_of(CLUSTER).zookeeper_connect
    quorum = {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "1@a:1,2@b:1,3@c:1"}
    assert config_of({**CLUSTER, **quorum}).broker_id == 1


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([a-z]+\.[a-z.]+)\.\*`", PAGE))))
def test_each_family_that_the_page_says_has_no_effect_is_known(name: str) -> None:
    assert is_kraft_key(f"{name}.something")
