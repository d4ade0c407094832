"""`sordini reassign` against a cluster of three brokers: records move, unharmed, no faster than allowed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sordini.cli.__main__ import main
from sordini.protocol.errors import ErrorCode
from tests.cluster.applications import ConfluentProducing
from tests.outside.ports import free_port
from tests.outside.processes import DevProcess
from tests.process.test_cluster_page import BLOCK, PAGE
from tests.process.test_command_faults import interrupted, program
from tests.support.builders import a_batch
from tests.support.wire_client import Client

PROGRESS = re.compile(r"\d+ of \d+ partitions left, .* to copy; broker 1 holds \d+ replica")
Connect = Callable[..., Client]
SLOW = 1_000
"""So few bytes a second that what is moved is still on its way when it is looked at."""


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    # One fetch is always granted: it must not bring everything.
    settings = "replica.fetch.max.bytes=20000", "offsets.topic.replication.factor=2", "offsets.topic.num.partitions=2"
    options = [word for setting in settings for word in ("--override", setting)]
    with DevProcess(tmp_path_factory.mktemp("dev"), *options) as running:
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

    def described(self, key: str) -> list[Any]:
        """Of each partition."""
        (topic,) = json.loads(self.run("topics", "describe", self.topic, "--json"))
        return [row[key] for row in topic["partitions"]]

    def throttles(self, *whose: str) -> dict[str, str]:
        (resource,) = json.loads(self.run("configs", "describe", *whose, "--json"))
        return {row["key"]: row["value"] for row in resource["configs"] if "throttled" in row["key"]}

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """A command as a process of its own."""
        return program(*arguments, bootstrap=self._bootstrap)

    def attempt(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments], env={"SORDINI_BOOTSTRAP": self._bootstrap}, prog_name="sordini")


@pytest.fixture
def cluster(dev: DevProcess, tmp_path: Path, connect: Connect, request: pytest.FixtureRequest) -> Cluster:
    """A topic of its own for each test: two partitions with two replicas each, and 100 kB of records in both."""
    found = Cluster(dev, tmp_path, f"orders-{len(request.node.name)}")
    found.run("topics", "create", found.topic, "--partitions", "2", "--replication-factor", "2")
    where = found.plan((0, [1, 2]), (1, [2, 3]))
    found.reassign("execute", where)
    batch = a_batch(10, value=bytes(1000))
    leaders = found.described("leader")

    def is_written(partition: int) -> bool:
        (row,) = connect(dev.ports[leaders[partition] - 1]).produce(found.topic, [batch], first=partition)
        if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            # A leader learns the end of a reassignment a little later than the controller, which reported it.
            leaders[:] = found.described("leader")
            return False
        return row.error_code == ErrorCode.NONE

    for partition in (0, 1) * 10:
        dev.wait_until(lambda one=partition: is_written(one), 20, "take records")
    return found


def test_a_throttled_move_is_slow_is_seen_can_be_taken_back_and_ends_once_it_may(cluster: Cluster) -> None:
    plan = cluster.plan((0, [3, 1]), (1, [2, 3]))
    with cluster.started("reassign", "execute", plan, "--throttle", str(SLOW)) as watching:
        assert watching.stderr is not None
        assert watching.stderr.readline() == "replication is limited to 1 kB a second per broker\n"
        assert watching.stderr.readline().startswith("1 of 2 partitions left, ")
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
        out, errors = watching.communicate(timeout=30)
    assert (watching.returncode, out.splitlines()) == (
        1,
        [f"{cluster.topic}-1 has been moved already, to 2,3", f"{cluster.topic}-0 is being moved to 3,1"][::-1],
    )
    assert f"1 partition not on the plan's brokers and not being moved there ({cluster.topic}-0)" in errors
    cluster.reassign("execute", plan)
    assert cluster.replicas() == [[3, 1], [2, 3]]
    assert (cluster.described("earliest_offset"), cluster.described("latest_offset")) == ([0, 0], [100, 100])


def test_a_topic_that_moves_can_be_deleted(cluster: Cluster, dev: DevProcess) -> None:
    plan = cluster.plan((0, [3, 1]))
    cluster.reassign("execute", plan, "--throttle", str(SLOW), "--no-wait")
    cluster.run("topics", "delete", cluster.topic, "--yes")
    dev.wait_until(lambda: cluster.reassign("list") == [], 20, "the move to be over")
    data = dev.directory / "data"

    def has_copies() -> bool:
        return any(not copy.name.endswith("-delete") for copy in data.glob(f"*/{cluster.topic}-*"))

    dev.wait_until(lambda: not has_copies(), 20, "all copies to be deleted")


def test_a_refused_reassignment_is_reported_per_partition_and_the_other_partitions_are_moved(cluster: Cluster) -> None:
    plan = cluster.plan((0, [9]), (7, [1]), (1, [3, 2]))
    done = cluster.attempt("reassign", "execute", plan, "--throttle", "1000000")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, f"{cluster.topic}-1 is being moved to 3,2")
    assert "not live" in done.stderr
    assert "UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
    assert done.stderr.splitlines()[-1] == "sordini: 2 of 3 partitions refused"
    assert cluster.replicas() == [[1, 2], [3, 2]]
    described = cluster.reassign("execute", plan, "--throttle", "1000000", "--no-wait", code=1)
    assert [(row["partition"], row["state"], row["error"] is None) for row in described] == [
        (0, "refused", False),
        (1, "done", True),
        (7, "refused", False),
    ]
    alone = cluster.attempt("reassign", "execute", cluster.plan((0, [9])), "--throttle", "1000000")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert cluster.throttles("--topic", cluster.topic) == cluster.throttles("--broker", "1") == {}


REFUSED: tuple[tuple[str, int, str], ...] = (
    ("--brokers 7 {topic}", 1, "brokers 7 are not live"),
    ("--from-broker 7 --all", 1, "no broker 7 is live or has a replica (live: 1, 2, 3)"),
    ("--from-broker 1 {topic}-none", 1, "there is no such topic"),
    ("--from-broker 1 --from-broker 2 {topic}", 1, "not enough brokers remain for {topic}: 2 needed, 1 remaining (3)"),
    ("--from-broker 1 --brokers 2 {topic}", 1, "not enough brokers remain for {topic}: 2 needed, 1 remaining (2)"),
    ("--from-broker 2 --brokers 7 {topic}", 1, "brokers 7 are not live (live: 1, 3)"),
    ("--from-broker 2 --brokers 2,3 {topic}", 2, "broker 2 is in --from-broker and in --brokers"),
    ("--from-broker 2 -r 3 {topic}", 2, "keeps the number of replicas"),
    ("--from-broker 2 --current {topic}", 2, "keeps the number of replicas"),
    ("--from-broker 2", 2, "name topics, or give --all"),
    ("--from-broker 2 --all {topic}", 2, "name topics, or give --all"),
)


def test_a_plan_is_for_the_brokers_that_are_named_and_one_that_cannot_be_is_refused(cluster: Cluster) -> None:
    spread = cluster.reassign("generate", cluster.topic, "--brokers", "2,3")
    assert all(set(row["replicas"]) == {2, 3} for row in spread["partitions"])
    plan = cluster.reassign("generate", cluster.topic, "--from-broker", "2")
    assert [sorted(row["replicas"]) for row in plan["partitions"]] == [[1, 3], [1, 3]]
    assert plan["partitions"][0]["replicas"] == [1, 3], "the preferred leader stays"
    limited = cluster.reassign("generate", cluster.topic, "--from-broker", "1", "--brokers", "3")
    assert [(row["partition"], row["replicas"]) for row in limited["partitions"]] == [(0, [3, 2])]
    everything = cluster.reassign("generate", "--all", "--current")["partitions"]
    assert {(cluster.topic, 0), (cluster.topic, 1)} <= {(row["topic"], row["partition"]) for row in everything}

    for words, code, reason in REFUSED:
        done = cluster.attempt("reassign", "generate", *words.format(topic=cluster.topic).split())
        assert (done.exit_code, done.stdout) == (code, ""), words
        assert reason.format(topic=cluster.topic) in done.stderr
    plan = cluster.plan((0, [1, 3]), (1, [1, 3]))
    cluster.reassign("execute", plan)
    nothing = cluster.attempt("reassign", "generate", "--from-broker", "2", cluster.topic)
    reason = f"sordini: no replica of {cluster.topic} is on broker 2: there is nothing to move\n"
    assert (nothing.exit_code, nothing.stderr) == (1, reason)


def stop_of(dev: DevProcess, broker: int, *options: str) -> list[str]:
    """`sordini stop` with the configuration of one of the brokers. The process that it finds is that of all three."""
    settings = {
        "log.dirs": str(dev.directory / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{dev.ports[broker - 1]}",
        "broker.id": broker,
        "zookeeper.connect": "not-asked:2181",
    }
    return ["stop", *(word for key, value in settings.items() for word in ("--override", f"{key}={value}")), *options]


def test_a_stop_that_has_a_cost_is_refused_where_only_a_safe_one_is_wanted(cluster: Cluster, dev: DevProcess) -> None:
    alone = f"{cluster.topic}-alone"
    cluster.run("topics", "create", alone, "--partitions", "3", "--replication-factor", "1")
    cluster.run("configs", "set", "--topic", cluster.topic, "min.insync.replicas=2")
    done = cluster.attempt(*stop_of(dev, 2, "--if-safe"))
    assert (done.exit_code, done.stderr) == (
        4,
        "sordini: broker 2 is not stopped: --if-safe was given and partitions would be affected\n",
    )
    first, offline, short = done.stdout.splitlines()
    assert re.match(r"sordini: broker 2 holds \d+ replicas and leads \d+ of them; other brokers lead \d+", first)
    assert re.search(rf"1 partition has no other in-sync replica, .*: {alone}-\d$", offline)
    assert re.search(rf"2 partitions have fewer .* acks=all is refused: {cluster.topic}-0, {cluster.topic}-1$", short)
    unknown = cluster.attempt(
        *stop_of(dev, 2, "--if-safe", "--override", f"listeners=PLAINTEXT://127.0.0.1:{free_port()}")
    )
    assert (unknown.exit_code, unknown.stdout) == (4, "")
    assert "the effect of a stop is unknown: cannot reach" in unknown.stderr
    assert dev.is_running
    cluster.run("topics", "delete", alone, "--yes")


def recipe() -> list[list[str]]:
    """The words of docs/cluster.md's lines that drain broker 1, without the program and redirections."""
    (block,) = (one for one in BLOCK.findall(PAGE) if "--from-broker 1" in one)
    return [shlex.split(line.partition(">")[0])[1:] for line in block.splitlines()]


def test_a_broker_is_drained_under_writes_though_its_watcher_is_interrupted_and_can_be_stopped(
    cluster: Cluster, dev: DevProcess, tmp_path: Path
) -> None:
    """The page's recipe. The last one of this module: the cluster is stopped in its course."""
    generate, execute, check, stop = recipe()
    assert (execute[-3:], stop) == (["plan.json", "--throttle", "50000000"], ["stop", "/etc/sordini/server.properties"])
    cluster.run("groups", "reset", "readers", "--topic", cluster.topic, "--to-earliest", "--execute")  # Internal, too.
    plan = tmp_path / "drain.json"
    plan.write_text(cluster.run(*generate))
    targets = {(row["topic"], row["partition"]): row["replicas"] for row in json.loads(plan.read_text())["partitions"]}
    assert {cluster.topic, "__consumer_offsets"} <= {topic for topic, _ in targets}
    with ConfluentProducing(dev.bootstrap, cluster.topic) as producing:
        with cluster.started("reassign", "execute", str(plan), "--throttle", str(SLOW)) as watching:
            assert watching.stderr is not None
            assert "limited to 1 kB a second" in watching.stderr.readline()
            assert PROGRESS.match(watching.stderr.readline())
            errors = interrupted(watching)
        assert watching.returncode == 130
        assert "started reassignments continue in the cluster" in errors
        moving = {(row["topic"], row["partition"]) for row in cluster.reassign("list")}
        assert (cluster.topic, 0) in moving
        assert cluster.throttles("--topic", cluster.topic)
        done = cluster.run(*execute[:-3], str(plan), *execute[-2:])
        target = ",".join(map(str, targets[cluster.topic, 0]))
        assert f"{cluster.topic}-0 is being moved already, to {target}" in done
        assert " is being moved to " not in done
        assert done.endswith("; broker 1 holds no replica; throttles removed\n")
    assert cluster.throttles("--topic", cluster.topic) == {}
    assert [cluster.throttles("--broker", str(broker)) for broker in (1, 2, 3)] == [{}, {}, {}]
    cluster.run(*check)
    (drained, *_) = json.loads(cluster.run("cluster", "status", "--json"))["brokers"]
    assert (drained["broker"], drained["replicas"]) == (1, 0)
    assert (producing.errors, len(producing.acknowledged) > 10) == ([], True)
    read = cluster.run("consume", cluster.topic, "--from", "beginning", "--exit-at-end", "--json").splitlines()
    there = {(row["partition"], row["offset"]) for row in map(json.loads, read)}
    assert set(producing.acknowledged) <= there
    assert len(there) == len(producing.acknowledged) + 200
    stopped = cluster.run(*stop_of(dev, 1, "--if-safe"))
    assert re.match(r"sordini: broker 1 holds no replica\nsordini: broker process \d+ has stopped", stopped)
