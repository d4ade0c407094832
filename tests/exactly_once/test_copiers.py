"""Consume, transform, produce with three Python clients, while brokers and clients are killed: each input is in the
output exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.exactly_once.conftest import ROUNDS, SEED
from tests.exactly_once.copiers.orders import Orders
from tests.exactly_once.judge import BROKERS, Topics, judge, made
from tests.exactly_once.programs import Copier
from tests.exactly_once.schedule import Kill, plan

MEMBERS = 2


def copiers(module: str, cluster: Cluster, topics: Topics, directory: Path) -> list[Copier]:
    """Two members of one group; where the client cannot send its generation, one copier for each partition."""
    numbers = range(len(BROKERS)) if module == "aio" else [-1] * MEMBERS
    made_of = []
    for index, partition in enumerate(numbers):
        name = f"{topics.sink}-{index}"
        journal = directory / f"{name}.jsonl"
        orders = Orders(name, cluster.bootstrap, *topics, str(journal), partition)
        made_of.append(Copier(directory, module, orders))
    return made_of


def run(module: str, cluster: Cluster, directory: Path, kills: list[Kill], name: str) -> None:
    topics = made(cluster, name)
    judge(cluster, topics, copiers(module, cluster, topics, directory), kills)


def test_each_input_is_copied_once_though_a_broker_and_a_copier_are_killed(three: Cluster, tmp_path: Path) -> None:
    """With aiokafka: the others have bugs after which a copier hangs until its program is ended."""
    run("aio", three, tmp_path, [Kill(40, True, 2), Kill(40, False, 0)], "short")


@pytest.mark.minutes
@pytest.mark.parametrize("module", ["confluent", "kafka_python", "aio"])
def test_each_input_is_copied_once_in_minutes_of_kills(three: Cluster, tmp_path: Path, module: str) -> None:
    clients = len(BROKERS) if module == "aio" else MEMBERS
    run(module, three, tmp_path, plan(SEED, BROKERS, clients, ROUNDS), f"long-{module}")
