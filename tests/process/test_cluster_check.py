"""`cluster status --check` and `ping --serving` on brokers whose ZooKeeper hangs, recovers, or has lost its data."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from tests.outside.java import ZooKeeperProcess
from tests.outside.processes import SordiniProcess
from tests.support.wire_client import Client

SESSION_MS = 4_000
"""Long enough for a command on a busy machine."""
SECONDS_MAX = 60.0


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    output: str
    errors: str


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper of one's own, which may be stopped, emptied and started."""
    with ZooKeeperProcess(tmp_path_factory.mktemp("checked-zookeeper")) as process:
        yield process


@pytest.fixture(scope="module")
def brokers(ensemble: ZooKeeperProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SordiniProcess]]:
    """Brokers 1 and 2 with a topic that each leads a partition of."""
    home = tmp_path_factory.mktemp("checked")
    made = [
        SordiniProcess(
            home / str(number),
            {
                "broker.id": number,
                "zookeeper.connect": f"{ensemble.connect}/checked",
                "zookeeper.session.timeout.ms": SESSION_MS,
                "default.replication.factor": 2,
                "controlled.shutdown.enable": "false",
            },
        )
        for number in (1, 2)
    ]
    try:
        for broker in made:
            broker.start()
        with Client("127.0.0.1", made[0].port) as client:
            assert client.create("orders", partitions=2, replicas=2) == [0]
        yield made
    finally:
        for broker in made:
            broker.kill()


def run(broker: SordiniProcess, *words: str) -> Said:
    done = CliRunner().invoke(main, [*words, "--bootstrap", broker.bootstrap])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Said(done.exit_code, done.stdout, done.stderr)


def check(broker: SordiniProcess) -> tuple[int, dict[str, Any]]:
    said = run(broker, "cluster", "status", "--check", "--json")
    return said.code, json.loads(said.output)


def until(condition: Callable[[], object], account: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, account()
        time.sleep(0.05)


def until_well(brokers: list[SordiniProcess]) -> None:
    until(lambda: check(brokers[0])[0] == 0, lambda: check(brokers[0]))


def stores(report: dict[str, Any]) -> list[str]:
    return [row["store"].partition(":")[0] for row in report["brokers"]]


def test_a_cluster_that_is_well_passes_and_each_broker_serves(brokers: list[SordiniProcess]) -> None:
    until_well(brokers)
    code, report = check(brokers[1])
    assert (code, report["problems"], stores(report)) == (0, [], ["connected", "connected"])
    for broker in brokers:
        said = run(broker, "ping", "--serving")
        assert (said.code, "answers and serves" in said.output) == (0, True), said


def test_while_zookeeper_hangs_the_first_check_fails_and_the_brokers_serve_on(
    brokers: list[SordiniProcess], ensemble: ZooKeeperProcess
) -> None:
    until_well(brokers)
    with ensemble.hung():
        code, report = check(brokers[0])
        assert (code, stores(report)) == (1, ["silent", "silent"]), report["problems"]
        assert all("gets no answer from the coordination store" in problem for problem in report["problems"])
        assert [row["state"] for row in report["brokers"]] == ["up", "up"]
        said = run(brokers[0], "ping", "--serving")
        assert said.code == 0, said
        shown = run(brokers[1], "cluster", "status").output
        assert "problem: broker 1 gets no answer" in shown
    until_well(brokers)


def test_a_broker_that_hangs_and_one_that_is_dead_fail_the_check(brokers: list[SordiniProcess]) -> None:
    until_well(brokers)
    with brokers[1].hung():
        said = run(brokers[0], "cluster", "status", "--check", "--timeout", "2")
        assert said.code == 1
        assert "problem: broker 2 does not answer: no answer within 1 s" in said.output
        assert "sordini: the cluster has " in said.errors
        assert run(brokers[1], "ping", "--serving", "--timeout", "0.5").code == 1
    until_well(brokers)


def test_a_zookeeper_that_has_lost_its_data_fails_every_check_and_its_brokers_say_so_and_do_not_serve(
    brokers: list[SordiniProcess], ensemble: ZooKeeperProcess
) -> None:
    until_well(brokers)
    ensemble.kill()
    assert check(brokers[0])[0] == 1, "it is away"
    shutil.rmtree(ensemble.directory / "data")
    ensemble.start()
    lost: dict[str, Any] = {}

    def is_lost() -> bool:
        code, report = check(brokers[0])
        assert (code, "connected" in stores(report)) == (1, False), "it is back and empty"
        lost.update(report)
        return stores(report) == ["lost", "lost"]

    until(is_lost, lambda: (lost["problems"], [broker.tail() for broker in brokers]))
    for broker, number in zip(brokers, (1, 2), strict=True):
        wanted = f"broker {number} does not find its cluster in the coordination store"
        assert any(problem.startswith(wanted) for problem in lost["problems"]), lost["problems"]
        said = run(broker, "ping", "--serving")
        assert (said.code, "does not serve" in said.errors) == (3, True), said
