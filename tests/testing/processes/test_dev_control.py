"""`sordini dev --control` as a process: its start, its refusals, its end, and what it leaves in its directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.outside.ports import free_port
from tests.outside.processes import DevProcess

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")


def ask(control: str, method: str, path: str, **fields: object) -> Any:
    connection = HTTPConnection(control, timeout=60)
    try:
        connection.request(method, path, json.dumps(fields) if fields else None)
        response = connection.getresponse()
        found = json.loads(response.read())
    finally:
        connection.close()
    assert response.status in (200, 201), found
    return found


def produce(bootstrap: str, topic: str, *texts: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for text in texts:
        producer.produce(topic, text)
    assert producer.flush(20) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False, "log_level": 0}
    reader = Consumer(settings)
    # After a start the leader is elected behind the ready line, and librdkafka reads metadata again only each second.
    end = time.monotonic() + 20
    while not any(
        partition.leader > 0 for partition in reader.list_topics(topic, 20).topics[topic].partitions.values()
    ):
        assert time.monotonic() < end
    reader.assign([TopicPartition(topic, 0, 0)])
    found = [message.value() for message in reader.consume(count, 20)]
    reader.close()
    return found


def test_a_broker_that_is_killed_has_its_files_when_it_starts_again(dev: DevProcess) -> None:
    orders = ask(dev.control, "POST", "/topics", replicas=1)["name"]
    produce(dev.bootstrap, orders, "one", "two")
    leader = ask(dev.control, "GET", f"/topics/{orders}/partitions/0")["leader"]
    ask(dev.control, "POST", f"/brokers/{leader}/kill")
    ask(dev.control, "POST", f"/brokers/{leader}/start")
    assert consume(dev.bootstrap, orders, 2) == [b"one", b"two"]
    assert (dev.directory / "data" / f"broker-{leader}" / f"{orders}-0").is_dir()


@pytest.mark.parametrize("end", [lambda dev: dev.stop(), lambda dev: dev.kill()], ids=["stopped", "killed"])
def test_the_directory_is_found_again_with_a_control_and_without(
    tmp_path: Path, end: Callable[[DevProcess], object]
) -> None:
    first = DevProcess(tmp_path, "--brokers", "2", "--control", "127.0.0.1:0")
    without = DevProcess(tmp_path, "--brokers", "2")
    with first:
        cluster_id = first.cluster_id
        orders = ask(first.control, "POST", "/topics", replicas=2)["name"]
        produce(first.bootstrap, orders, "one")
        end(first)
    clean = [(tmp_path / "data" / f"broker-{number}" / ".kafka_cleanshutdown").exists() for number in (1, 2)]
    assert clean == [first.wait_for_exit(1) == 0] * 2
    with without:
        assert without.cluster_id == cluster_id
        assert consume(without.bootstrap, orders, 1) == [b"one"]
        produce(without.bootstrap, orders, "two")
        without.stop()
    with first:
        assert first.cluster_id == cluster_id
        assert consume(first.bootstrap, orders, 2) == [b"one", b"two"]


def test_ctrl_c_stops_it_in_order_also_when_brokers_are_paused_and_killed(tmp_path: Path) -> None:
    with DevProcess(tmp_path, "--control", "0") as dev:
        ask(dev.control, "POST", "/faults", api="Produce", do="hold")
        ask(dev.control, "POST", "/brokers/1/pause")
        ask(dev.control, "POST", "/brokers/2/kill")
        os.kill(dev.pid, signal.SIGINT)
        assert dev.wait_for_exit(30) == 0
        (_,) = dev.output().splitlines()
        assert not (tmp_path / "data" / "sordini.pid").exists()


def test_a_request_that_was_lost_does_not_hold_the_end_up(tmp_path: Path) -> None:
    with DevProcess(tmp_path, "--brokers", "1", "--control", "0") as dev:
        orders = ask(dev.control, "POST", "/topics")["name"]
        for do in ("drop_request", "drop_answer", "hold"):
            fault = ask(dev.control, "POST", "/faults", api="Produce", topic=orders, times=1, do=do)
            producer = Producer({"bootstrap.servers": dev.bootstrap, "log_level": 0})
            producer.produce(orders, b"one")
            end = time.monotonic() + 20
            while not ask(dev.control, "GET", f"/faults/{fault['id']}")["used"]:
                assert time.monotonic() < end
                producer.flush(0.01)
            if do == "drop_request":
                ask(dev.control, "DELETE", "/faults")
                assert producer.flush(20) == 0, "its connection is closed, and it sends the request again"
        before = time.monotonic()
        assert dev.stop() == 0
        assert time.monotonic() - before < 10, "the broker would wait 15 s for responses"
        producer.purge()


def test_it_listens_on_this_machine_only_unless_another_address_is_named(dev: DevProcess) -> None:
    assert dev.control.startswith("127.0.0.1:")
    port = f":{int(dev.control.rpartition(':')[2]):04X}"
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert [words[1] for words in listening if words[1].endswith(port) and words[3] == "0A"] == [f"0100007F{port}"]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--control", "here"], 2, "'here' is not valid: allowed is HOST:PORT or PORT, with a port from 0 to 65535"),
        (["--control", "127.0.0.1:70000"], 2, "'127.0.0.1:70000' is not valid"),
        (["--control", "0", "--override", "broker.id=7"], 2, "--override broker.id=7 is not valid here"),
        (
            ["--control", "0", "--override", "inter.broker.listener.name=X"],
            2,
            "--override inter.broker.listener.name=X is not valid with --control: its brokers set it themselves",
        ),
        (["--control", "0", "--override", "no.key=1"], 2, "no.key is not a key of a broker"),
        (["--control", "0", "--override", "min.insync.replicas=x"], 2, "min.insync.replicas='x' is not valid"),
    ],
)
def test_wrong_options_end_it_with_status_2(tmp_path: Path, options: list[str], code: int, said: str) -> None:
    command = [PROGRAM, "dev", "--directory", str(tmp_path / "dev"), *options]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert said in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_prevents_a_start_is_one_line(dev: DevProcess, tmp_path: Path) -> None:
    taken, control = dev.ports[0], dev.control.rpartition(":")[2]
    for options, said in (
        (
            ["--port", str(taken), "--control", "0"],
            f"listeners: CLIENTS://127.0.0.1:{taken}: cannot listen on 127.0.0.1 port {taken}: Address already in use",
        ),
        (["--port", "0", "--control", control], f"cannot listen on 127.0.0.1 port {control}: Address already in use"),
        (["--port", "0", "--control", "0", "--directory", "/proc/none"], "/proc/none: No such file or directory"),
        (
            ["--control", "0", "--directory", f"{dev.directory}/data"],
            f"{dev.directory}/data/sordini.pid is in use by another broker, process {dev.pid}",
        ),
    ):
        command = [PROGRAM, "dev", "--brokers", "1", "--directory", str(tmp_path / str(free_port())), *options]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", f"sordini: {said}\n")


def test_brokers_log_what_the_level_asks_for(tmp_path: Path) -> None:
    with DevProcess(tmp_path, "--brokers", "1", "--control", "0", "--log-level", "info") as dev:
        assert "this_broker=" in dev.output()
        assert ask(dev.control, "GET", "/log?lines=1")["lines"] != []
