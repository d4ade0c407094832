"""How a broker starts, or refuses to, and what it says."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sordini.coordination_store.store_location import STORE_FILE
from sordini.protocol.messages.produce import PartitionProduceResponse
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
READY = re.compile(
    r"^sordini is ready: broker (\d+) of cluster ([\w-]{22}) listens on (.+) \((\d+\.\d\d) s\)$", re.MULTILINE
)


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=20, check=False, cwd=cwd)


def refused(tmp_path: Path, overrides: dict[str, object]) -> str:
    """What a broker that must not start says, in one line, when it ends with status 1."""
    process = SordiniProcess(tmp_path / "refused", overrides)
    process.launch()
    assert process.wait_for_exit(20) == 1, process.tail()
    (line,) = process.output().splitlines()
    assert line.startswith("sordini: ")
    return line


def test_the_ready_line_says_who_listens_where_and_how_long_it_took(start_sordini: Start) -> None:
    broker = start_sordini({"broker.id": 7})
    ((broker_id, cluster_id, listeners, _),) = READY.findall(broker.output())
    assert broker_id == "7"
    assert listeners == broker.bootstrap, "as options take it"
    assert "OPEN TO THE NETWORK" not in broker.output()
    assert f"cluster.id={cluster_id}\n" in (broker.data_directory / "meta.properties").read_text()


def test_the_ready_line_names_what_is_advertised_where_that_is_not_what_is_bound(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path / "open")
    bound = f"0.0.0.0:{broker.port}"
    broker.overrides["listeners"] = f"PLAINTEXT://{bound}"
    advice = "(clients elsewhere need advertised.listeners, or KAFKA_ADVERTISED_LISTENERS in the environment)"
    with broker:
        ((_, _, line, _),) = READY.findall(broker.output())
        assert line == f"{bound} and advertises {os.uname().nodename}:{broker.port} {advice}"
        (warning,) = [line for line in broker.output().splitlines() if "OPEN TO THE NETWORK" in line]
        assert f"listeners=PLAINTEXT://{bound}" in warning
        advertised = f"localhost:{broker.port}"
        broker.overrides["advertised.listeners"] = f"PLAINTEXT://{advertised}"
        broker.restart()
        ((_, _, line, _),) = READY.findall(broker.output())
        assert line == f"{bound} and advertises {advertised}", "what is set needs no advice"


def test_without_an_id_a_broker_takes_one_and_keeps_it(start_sordini: Start) -> None:
    broker = start_sordini()
    first = READY.findall(broker.output())
    assert first[0][0] == "1001"
    broker.restart()
    assert READY.findall(broker.output())[0][:2] == first[0][:2]


def test_a_delete_policy_that_is_not_installed_is_named_with_those_that_are(tmp_path: Path) -> None:
    line = refused(tmp_path, {"sordini.log.delete.policy": "time,archived"})
    assert "sordini.log.delete.policy='archived' is not valid: allowed are time, size" in line


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("num.partitions=many", ["num.partitions", "'many'", "whole number of at least 1"]),
        ("compression.type=rar", ["compression.type", "'rar'", "gzip", "zstd"]),
        ("listeners=ftp", ["listeners", "ftp"]),
        ("listeners=PLAINTEXT://:99999", ["listeners", "99999"]),
        ("num.partitions", ["--override", "'num.partitions'", "KEY=VALUE"]),
    ],
)
def test_a_wrong_value_ends_with_status_2_naming_key_value_and_what_is_allowed(
    tmp_path: Path, override: str, words: list[str]
) -> None:
    ended = run("serve", "--override", override, cwd=tmp_path)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert [word for word in words if word not in line] == []
    assert list(tmp_path.iterdir()) == [], "and nothing was begun"


def test_a_wrong_line_of_a_file_is_named_with_its_file_and_number(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("broker.id=1\n=nonsense\n")
    ended = run("serve", "server.properties", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "server.properties: line 2" in ended.stderr
    ended = run("serve", "missing.properties", cwd=tmp_path)
    assert ended.returncode == 2
    assert "missing.properties" in ended.stderr


@pytest.mark.parametrize("way", ["file", "override", "environment"])
def test_a_key_that_asks_for_protection_ends_with_status_2_and_makes_nothing(tmp_path: Path, way: str) -> None:
    key, text = "listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"
    file = tmp_path / "server.properties"
    file.write_text(f"{key}={text}\n" if way == "file" else "")
    command = [PROGRAM, "serve", str(file), *(["--override", f"{key}={text}"] if way == "override" else [])]
    name = f"KAFKA_{key.replace('.', '_').upper()}"
    environment = os.environ | ({name: text} if way == "environment" else {})
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=20, check=False, cwd=tmp_path, env=environment
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"sordini: {key}='{text}' asks for authentication by SASL")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server.properties"]


def test_an_unknown_key_is_named_and_the_broker_starts(start_sordini: Start) -> None:
    broker = start_sordini({"num.io.threads.of.mine": 8})
    (warning,) = [line for line in broker.output().splitlines() if "[warning" in line]
    assert "unknown configuration key" in warning
    assert "num.io.threads.of.mine" in warning


def test_a_file_is_read_and_an_override_goes_before_it(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path / "broker")
    (broker.directory / "server.properties").write_text(
        "# mine\nbroker.id=5\nnum.partitions: 4\nlisteners=PLAINTEXT://:1\n"
    )
    command = broker.command()
    broker.command = lambda: [*command[:2], "server.properties", *command[2:]]  # type: ignore[method-assign]
    with broker, Client("127.0.0.1", broker.port) as client:
        assert READY.findall(broker.output())[0][0] == "5"
        assert client.create("t", partitions=-1) == [0]
        assert len(client.metadata("t").topics[0].partitions) == 4


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["serve", "-h"]])
def test_help_is_readable(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Usage:" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 120
    if arguments[0] == "serve":
        assert "--override KEY=VALUE" in ended.stdout
        assert "config/server.properties" in ended.stdout


def test_a_second_broker_on_the_same_directory_is_refused_and_the_first_serves_on(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    first = start_sordini()
    line = refused(tmp_path, {"log.dirs": first.data_directory})
    assert str(first.data_directory) in line
    assert "in use" in line or "is a broker running on it" in line
    assert connect(first).create("orders") == [0]


def test_a_second_log_directory_of_another_broker_is_refused_too(start_sordini: Start, tmp_path: Path) -> None:
    first = start_sordini()
    first.stop()
    (tmp_path / "own").mkdir()
    shutil.copy(first.data_directory / STORE_FILE, tmp_path / "own")
    first.start()
    line = refused(tmp_path, {"log.dirs": f"{tmp_path / 'own'},{first.data_directory}"})
    assert str(first.data_directory) in line
    assert f"is in use by another broker, process {first.pid}" in line


def test_a_taken_port_is_named(start_sordini: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(tmp_path, {"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    where = f"PLAINTEXT://127.0.0.1:{port}"
    assert line == f"sordini: listeners: {where}: cannot listen on 127.0.0.1 port {port}: Address already in use"


@pytest.mark.parametrize(("key", "value"), [("broker.id", "99"), ("cluster.id", "AAAAAAAAAAAAAAAAAAAAAA")])
def test_a_directory_of_another_broker_or_cluster_is_refused_and_left_unchanged(
    start_sordini: Start, key: str, value: str
) -> None:
    broker = start_sordini({"broker.id": 1})
    broker.stop()
    meta = broker.data_directory / "meta.properties"
    changed = re.sub(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", meta.read_text())
    meta.write_text(changed)
    broker.launch()
    assert broker.wait_for_exit(20) == 1
    (line,) = broker.output().splitlines()
    assert str(broker.data_directory) in line
    assert value in line
    assert meta.read_text() == changed


def test_a_stopped_broker_leaves_the_clean_shutdown_marker_and_status_0(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    marker = broker.data_directory / ".kafka_cleanshutdown"
    client = connect(broker)
    assert client.create("orders") == [0]
    assert not marker.exists()
    assert broker.stop() == 0
    assert marker.exists()
    assert client.is_closed()
    broker.start()
    assert not marker.exists(), "it is gone before anything is written"


def written(rows: list[PartitionProduceResponse]) -> list[tuple[int, int]]:
    return [(row.error_code, row.base_offset) for row in rows]


def test_a_killed_broker_restarts_with_its_records(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    client = connect(broker)
    client.create("orders")
    assert [written(client.produce("orders", [a_batch()])) for _ in range(3)] == [[(0, 0)], [(0, 3)], [(0, 6)]]
    before = client.fetch("orders")
    broker.kill()
    assert not (broker.data_directory / ".kafka_cleanshutdown").exists()
    broker.start()
    client = connect(broker)
    assert client.fetch("orders") == before
    assert written(client.produce("orders", [a_batch()])) == [(0, 9)]


def test_a_broker_with_200_topics_starts_and_serves_the_first_and_the_last(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini()
    names = [f"topic-{number:03}" for number in range(200)]
    client = connect(broker)
    assert set(client.create(*names)) == {0}
    client.produce(names[-1], [a_batch()])
    broker.kill()
    broker.start()
    client = connect(broker)
    found = {topic.name: topic.partitions[0].leader_id for topic in client.metadata(*names).topics}
    assert found == dict.fromkeys(names, 1001)
    assert written(client.produce(names[0], [a_batch()])) == [(0, 0)]
    assert written(client.produce(names[-1], [a_batch()])) == [(0, 3)]


def with_second_listener(directory: Path, name: str, address: str) -> SordiniProcess:
    broker = SordiniProcess(directory)
    broker.overrides["listeners"] = f"PLAINTEXT://{broker.bootstrap},{name}://{address}"
    broker.overrides["listener.security.protocol.map"] = f"PLAINTEXT:PLAINTEXT,{name}:PLAINTEXT"
    return broker


def test_each_listener_tells_its_own_address(tmp_path: Path) -> None:
    port = free_port()
    with (
        with_second_listener(tmp_path / "broker", "INSIDE", f"127.0.0.1:{port}") as broker,
        Client("127.0.0.1", broker.port) as outside,
        Client("127.0.0.1", port) as inside,
    ):
        assert f"listens on {broker.bootstrap}, 127.0.0.1:{port} (INSIDE) (" in broker.output()
        assert [(row.host, row.port) for row in outside.metadata().brokers] == [("127.0.0.1", broker.port)]
        assert [(row.host, row.port) for row in inside.metadata().brokers] == [("127.0.0.1", port)]
        assert inside.create("orders") == [0]
        assert outside.metadata("orders").topics[0].error_code == 0


def test_an_ipv6_listener_is_served_and_advertised_without_its_brackets(tmp_path: Path) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as probe:
            port = probe.getsockname()[1]
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")
    with with_second_listener(tmp_path / "broker", "SIX", f"[::1]:{port}") as broker, Client("::1", port) as client:
        assert f"[::1]:{port} (SIX)" in broker.output()
        assert [(row.host, row.port) for row in client.metadata().brokers] == [("::1", port)]
