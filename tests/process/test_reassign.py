"""`sordini reassign` against a cluster of three brokers: records move, unharmed, no faster than allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sordini.broker.__main__ import main
from sordini.protocol.errors import ErrorCode
from tests.build import a_batch
from tests.outside.processes import DevProcess
from tests.process.wire import Client

Connect = Callable[..., Client]
SLOW = 1_000
"""So few bytes a second that what is moved is still on its way when it is looked at."""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    # One fetch is always granted: it must not bring everything.
    with DevProcess(tmp_path_factory.mktemp("dev"), "--override", "replica.fetch.max.bytes=20000") as running:
        yield running


class Cluster:
    """The commands against one cluster, and plans as files."""

    def __init__(self, dev: DevProcess, directory: Path, topic: str) -> None:
        self.dev = dev
        self.topic = topic
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in dev.ports)
        self._plan = directory / "plan.json"

    def run(self, *arguments: str, code: int = 0) -> str:
        done = self.attempt(*arguments)
        assert done.exit_code == code, (arguments, done.stdout, done.stderr, done.exception)
        return done.stdout

    def reassign(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run("reassign", *arguments, "--json", code=code))

    def plan(self, *rows: tuple[int, list[int]]) -> str:
        partitions = [{"topic": self.topic, "partition": index, "replicas": held} for index, held in rows]
        self._plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(self._plan)

    def replicas(self) -> list[list[int]]:
        rows = self.reassign("generate", "--current", self.topic)["partitions"]
        return [row["replicas"] for row in rows]

    def told(self, key: str) -> list[Any]:
        """Of each partition."""
        (topic,) = json.loads(self.run("topics", "describe", self.topic, "--json"))
        return [row[key] for row in topic["partitions"]]

    def throttles(self, *whose: str) -> dict[str, str]:
        (resource,) = json.loads(self.run("configs", "describe", *whose, "--json"))
        return {row["key"]: row["value"] for row in resource["configs"] if "throttled" in row["key"]}

    def wait_for(self, path: str) -> None:
        """Until the plan is carried out."""
        self.dev.wait_until(lambda: self.attempt("reassign", "verify", path).exit_code == 0, 20, f"{path} to be done")

    def attempt(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments], env={"SORDINI_BOOTSTRAP": self._bootstrap}, prog_name="sordini")


@pytest.fixture
def cluster(dev: DevProcess, tmp_path: Path, connect: Connect, request: pytest.FixtureRequest) -> Cluster:
    """A topic of its own for each test: two partitions with two replicas each, and 100 kB of records in both."""
    found = Cluster(dev, tmp_path, f"orders-{len(request.node.name)}")
    found.run("topics", "create", found.topic, "--partitions", "2", "--replication-factor", "2")
    where = found.plan((0, [1, 2]), (1, [2, 3]))
    found.reassign("execute", where)
    found.wait_for(where)
    for partition, leader in enumerate(found.told("leader")):
        for _ in range(10):
            batch = a_batch(10, value=bytes(1000))
            (row,) = connect(dev.ports[leader - 1]).produce(found.topic, [batch], first=partition)
            assert row.error_code == ErrorCode.NONE
    return found


def test_a_throttled_move_is_slow_is_seen_can_be_taken_back_and_ends_once_it_may(cluster: Cluster) -> None:
    plan = cluster.plan((0, [3, 1]), (1, [2, 3]))
    begun = cluster.reassign("execute", plan, "--throttle", str(SLOW))
    assert [row["error"] for row in begun] == [None, None]
    assert cluster.throttles("--topic", cluster.topic) == {
        "leader.replication.throttled.replicas": "0:1,0:2",
        "follower.replication.throttled.replicas": "0:3",
    }
    (moving,) = cluster.reassign("list")
    assert (moving["replicas"], moving["adding"], moving["removing"]) == ([3, 1, 2], [3], [2])
    states = cluster.reassign("verify", plan, code=1)
    assert [row["state"] for row in states] == ["moving", "done"]
    assert cluster.throttles("--topic", cluster.topic), "as long as something moves"
    cluster.reassign("cancel", plan)
    assert cluster.reassign("list") == []
    assert cluster.replicas() == [[1, 2], [2, 3]]
    assert cluster.throttles("--topic", cluster.topic) == {}
    assert cluster.throttles("--broker", "1") == {}
    cluster.reassign("execute", plan)
    cluster.wait_for(plan)
    assert cluster.replicas() == [[3, 1], [2, 3]]
    assert (cluster.told("earliest_offset"), cluster.told("latest_offset")) == ([0, 0], [100, 100])


def test_a_topic_that_moves_can_be_deleted(cluster: Cluster, dev: DevProcess) -> None:
    plan = cluster.plan((0, [3, 1]))
    cluster.reassign("execute", plan, "--throttle", str(SLOW))
    cluster.run("topics", "delete", cluster.topic, "--yes")
    dev.wait_until(lambda: cluster.reassign("list") == [], 20, "the move to be over")
    data = dev.directory / "data"

    def has_copies() -> bool:
        return any(not copy.name.endswith("-delete") for copy in data.glob(f"*/{cluster.topic}-*"))

    dev.wait_until(lambda: not has_copies(), 20, "all copies to be deleted")


def test_what_cannot_be_moved_is_told_for_each_partition(cluster: Cluster) -> None:
    plan = cluster.plan((0, [9]), (7, [1]), (1, [3, 2]))
    told = cluster.reassign("execute", plan, code=1)
    errors = {row["partition"]: row["error"] for row in told}
    assert "not alive" in errors[0]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in errors[7]
    assert errors[1] is None
    assert cluster.replicas() == [[1, 2], [3, 2]]


def test_a_plan_is_generated_over_the_brokers_that_are_named(cluster: Cluster) -> None:
    plan = cluster.reassign("generate", cluster.topic, "--brokers", "2,3")
    assert all(set(row["replicas"]) == {2, 3} for row in plan["partitions"])
    refused = cluster.attempt("reassign", "generate", cluster.topic, "--brokers", "7")
    assert "brokers 7 do not run" in refused.stderr
