"""`sordini dev`: a cluster in one process, as its user sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sordini.protocol.errors import ErrorCode
from tests.outside.ports import free_port
from tests.outside.processes import DevProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Connect = Callable[..., Client]

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")


def ports_of_leaders(client: Client, topic: str) -> list[int]:
    """By partition."""
    answer = client.metadata(topic)
    brokers = {broker.node_id: broker.port for broker in answer.brokers}
    partitions = sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)
    assert {len(one.replica_nodes) for one in partitions} == {3}
    assert {len(one.isr_nodes) for one in partitions} == {3}
    return [brokers[one.leader_id] for one in partitions]


def test_three_brokers_are_a_cluster_that_stops_at_ctrl_c_and_comes_back_whole(
    tmp_path: Path, connect: Connect
) -> None:
    with DevProcess(tmp_path / "dev", "--override", "min.insync.replicas=3") as dev:
        cluster_id, first = dev.cluster_id, connect(dev.ports[2])
        controller = connect(dev.ports[first.metadata().controller_id - 1])
        assert controller.create("orders", partitions=3, replicas=-1) == [0]
        leaders = ports_of_leaders(first, "orders")
        assert sorted(leaders) == sorted(dev.ports), "each leads one"
        for partition, port in enumerate(leaders):
            (outcome,) = connect(port).produce("orders", [a_batch(1)], first=partition)
            assert outcome.error_code == ErrorCode.NONE, "on all three when it is answered"
        os.kill(dev.pid, signal.SIGINT)
        assert dev.wait_for_exit(20) == 0
        (_,) = dev.output().splitlines()
        dev.start()
        assert dev.cluster_id == cluster_id
        again = connect(dev.ports[0])
        for partition, port in enumerate(ports_of_leaders(again, "orders")):
            assert len(connect(port).fetch("orders", index=partition)) == len(a_batch(1))
        assert dev.stop() == 0


def test_a_directory_serves_one_cluster_at_a_time(tmp_path: Path) -> None:
    with DevProcess(tmp_path / "dev", "--brokers", "1") as dev:
        second = subprocess.run(dev.command(), capture_output=True, text=True, timeout=20, check=False)
        assert (second.returncode, second.stdout) == (1, "")
        assert (
            second.stderr
            == f"sordini: {dev.directory}/data/sordini.pid is in use by another broker, process {dev.pid}\n"
        )
        stopped = subprocess.run(
            [PROGRAM, "stop", "--pid-file", f"{dev.directory}/data/sordini.pid"], capture_output=True, check=False
        )
        assert stopped.returncode == 0
        assert dev.wait_for_exit(1) == 0


def test_a_broker_that_cannot_start_ends_all_of_them_and_says_why(tmp_path: Path) -> None:
    port = free_port()
    with DevProcess(tmp_path / "dev", "--brokers", "1", "--port", str(port + 1)):
        command = [PROGRAM, "dev", "--port", str(port), "--directory", str(tmp_path / "other")]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    in_use = f"cannot listen on 127.0.0.1 port {port + 1}: Address already in use"
    assert refused.stderr == f"sordini: listeners: PLAINTEXT://127.0.0.1:{port + 1}: {in_use}\n"
    assert not (tmp_path / "other" / "sordini.pid").exists()


def test_a_wrong_setting_ends_with_status_2(tmp_path: Path) -> None:
    command = [PROGRAM, "dev", "--directory", str(tmp_path / "dev"), "--override", "broker.id=7"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--override broker.id=7 is not valid here: each broker has its own broker.id" in refused.stderr
    assert list(tmp_path.iterdir()) == []
