"""docker-compose.yml under faults: what is acknowledged stays, health checks tell, volumes outlive containers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.docker.engine import ROOT, Engine

HOST = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
BROKERS = ("broker-1", "broker-2", "broker-3")
NETWORK = "sordini_default"
TOPIC = "load"
LOAD_SECONDS_MAX = 400.0


@pytest.fixture
def cluster(engine: Engine) -> Iterator[Engine]:
    """Three brokers and a ZooKeeper, as the page starts them."""
    engine.compose("up", "--detach", "--wait")
    settle(engine)
    yield engine
    engine.compose("down", "--volumes", "--timeout", "40")


def settle(engine: Engine) -> None:
    """Until every partition has all its replicas in sync, as a client of the host sees it."""
    engine.run("sordini", "cluster", "status", "--check", "--wait", "90", "-b", HOST)


def container(service: str) -> str:
    return f"sordini-{service}-1"


def kill(engine: Engine, service: str) -> None:
    """The process inside, as the kernel does when memory is short: the restart policy brings it back."""
    engine.run("kill", "-KILL", engine.inspect(container(service), "State.Pid"))


def kill_container(engine: Engine, service: str) -> None:
    """By an operator, which no restart policy undoes."""
    engine.docker("kill", container(service))
    engine.wait_for(container(service), "State.Status", "exited")
    engine.docker("start", container(service))


def pause(engine: Engine, service: str) -> None:
    """For longer than its session with ZooKeeper lasts, so that others lead meanwhile."""
    engine.docker("pause", container(service))
    await_leaders_elsewhere(engine, service)
    engine.docker("unpause", container(service))


def disconnect(engine: Engine, service: str) -> None:
    """From the others and from clients, until others lead."""
    engine.docker("network", "disconnect", NETWORK, container(service))
    await_leaders_elsewhere(engine, service)
    engine.docker("network", "connect", "--alias", service, NETWORK, container(service))


def await_leaders_elsewhere(engine: Engine, service: str) -> None:
    """Until no partition of the load is led by the service's broker."""
    others = [f"{broker}:29092" for broker in BROKERS if broker != service]
    other = others[0].partition(":")[0]
    deadline = time.monotonic() + 60
    while True:
        described = engine.compose(
            "exec", "-T", other, "sordini", "topics", "describe", TOPIC, "--json", "-b", ",".join(others)
        )
        leaders = {partition["leader"] for partition in json.loads(described)[0]["partitions"]}
        if int(service[-1]) not in leaders:
            return
        assert time.monotonic() < deadline, f"{service} still leads\n{described}"


@dataclass
class Outcome:
    """What `tests.docker.load` says of its records."""

    acknowledged: int = 0
    lost: list[int] = field(default_factory=list)
    doubled: list[int] = field(default_factory=list)


FAULTS: tuple[Callable[[Engine, str], None], ...] = (kill, kill_container, pause, disconnect)


@contextmanager
def load(engine: Engine) -> Iterator[Outcome]:
    """A producer of the host while the block runs; afterwards the outcome has what became of its records."""
    outcome = Outcome()
    command = engine.command([sys.executable, "-m", "tests.docker.load", HOST, TOPIC])
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            yield outcome
            assert program.poll() is None, "the load ended before the last fault"
            output, errors = program.communicate(timeout=LOAD_SECONDS_MAX)
        finally:
            program.kill()
    assert program.returncode == 0, errors
    vars(outcome).update(json.loads(output))


def test_nothing_acknowledged_is_lost_or_doubled_while_brokers_are_killed_paused_and_disconnected(
    cluster: Engine,
) -> None:
    cluster.compose("exec", "-T", "broker-1", "sordini", "topics", "create", TOPIC, "--partitions", "6")
    with load(cluster) as outcome:
        for fault in FAULTS:
            for service in BROKERS:
                fault(cluster, service)
                settle(cluster)
    assert (outcome.lost, outcome.doubled) == ([], [])
    assert outcome.acknowledged > 1000


def test_clients_in_another_container_and_on_the_host_see_the_same_records(cluster: Engine) -> None:
    cluster.run("bash", "-c", f"echo 'from the host' | kcat -P -b {HOST} -t orders")
    consumed = cluster.docker(
        "run", "--rm", "--network", NETWORK, "--read-only", "--cap-drop", "ALL", "sordini",
        "consume", "orders", "--from", "beginning", "--max-messages", "1", "-b", "broker-2:29092",
    )  # fmt: skip
    assert "from the host" in consumed


def test_data_outlives_down_and_up(cluster: Engine) -> None:
    cluster.run("bash", "-c", f"seq 500 | kcat -P -b {HOST} -t orders")
    cluster.compose("down", "--timeout", "40")
    assert cluster.docker("ps", "--all", "--quiet") == ""
    cluster.compose("up", "--detach", "--wait")
    assert cluster.run("bash", "-c", f"kcat -C -b {HOST} -t orders -e -q | wc -l").strip() == "500"


def test_a_zookeeper_without_quorum_is_unhealthy_and_brokers_go_on_serving(engine: Engine) -> None:
    three = ("--env-file", "config/cluster/ensemble.env")
    engine.compose(*three, "up", "--detach", "--wait")
    settle(engine)
    engine.run("bash", "-c", f"seq 10 | kcat -P -b {HOST} -t orders")
    engine.compose(*three, "stop", "zookeeper-2", "zookeeper-3")
    engine.wait_for(container("zookeeper-1"), "State.Health.Status", "unhealthy")
    assert engine.run("bash", "-c", f"kcat -C -b {HOST} -t orders -e -q | wc -l").strip() == "10"
    assert [engine.inspect(container(broker), "State.Health.Status") for broker in BROKERS] == ["healthy"] * 3
    engine.compose(*three, "start", "zookeeper-2", "zookeeper-3")
    engine.wait_for(container("zookeeper-1"), "State.Health.Status", "healthy")
    settle(engine)
    engine.compose(*three, "down", "--volumes", "--timeout", "40")
