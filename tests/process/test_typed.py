"""What a new user types: mistakes in a configuration, a name or an address are answered with their cause."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client
from tests.unit.broker.configuration.keys.test_kraft_keys import KAFKA_4

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
Start = Callable[..., SordiniProcess]
SECONDS = 30


def typed(*words: str, typed_in: str = "", bootstrap: str = "127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    """One command, whose standard input is no terminal."""
    return subprocess.run(
        [PROGRAM, *words],
        input=typed_in,
        env={**os.environ, "SORDINI_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def refused(*overrides: str, code: int) -> str:
    """The last line of a broker that refuses to start."""
    words = ["serve", "--override", f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"]
    done = typed(*words, *(word for one in overrides for word in ("--override", one)))
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (code, "", False), done.stderr
    return done.stderr.splitlines()[-1].removeprefix("sordini: ")


def test_python_m_sordini_is_the_command() -> None:
    words = [sys.executable, "-m", "sordini", "topic", "list"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    assert "there is no command 'topic' (did you mean topics?)" in done.stderr


def test_a_log_directory_that_cannot_be_used_is_named_with_its_key_and_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    in_place = "is not a directory, and none can be made there: a file is in its place"
    assert refused(f"log.dirs={file}", code=2) == f"log.dirs: {file} {in_place}"
    assert refused(f"log.dirs={tmp_path}/one,{file}/below", code=2) == f"log.dirs: {file}/below {in_place}"
    assert refused("log.dirs=", code=2) == "log.dirs='' is not valid: allowed is at least one directory"
    assert refused("log.dir= , ", code=2) == "log.dir=' , ' is not valid: allowed is at least one directory"
    assert refused("log.dirs=/proc/none", code=1) == "log.dirs: /proc/none cannot be made: no such file or directory"


def test_a_log_directory_of_a_broker_that_runs_is_named_with_its_process(start_sordini: Start, tmp_path: Path) -> None:
    broker = start_sordini()
    used = f"log.dirs: {broker.data_directory} is in use by another broker, process {broker.pid}"
    assert refused(f"log.dirs={broker.data_directory}", code=1) == used
    assert refused(f"log.dirs={tmp_path}/other,{broker.data_directory}", code=1) == used


@pytest.mark.slow
def test_a_log_directory_of_kraft_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\ndirectory.id=BBBBBBBBBBBBBBBBBBBBBB\n")
    said = refused(f"log.dirs={tmp_path}", code=2)
    assert said == (
        f"log.dirs: {meta} is of Apache Kafka in KRaft mode, whose directories cannot be taken over (docs/kraft.md)"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.slow
def test_a_listener_whose_host_is_none_of_this_machine_is_named_with_its_key(tmp_path: Path) -> None:
    directory = f"log.dirs={tmp_path / 'data'}"
    unknown = refused("listeners=PLAINTEXT://no-such-host.invalid:9092", directory, code=1)
    said = "listeners: PLAINTEXT://no-such-host.invalid:9092: the host 'no-such-host.invalid' does not resolve here: "
    assert unknown.startswith(said)
    assert "advertised.listeners has the address that clients connect to" in unknown
    elsewhere = refused("listeners=PLAINTEXT://192.0.2.1:9092", directory, code=1)
    assert elsewhere.startswith("listeners: PLAINTEXT://192.0.2.1:9092: cannot listen on 192.0.2.1 port 9092: ")
    assert "A listener's host is an address of this machine" in elsewhere


def test_a_properties_file_that_is_not_utf8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.id=1\n# caf\xe9\n".encode("latin-1"))
    done = typed("serve", str(path))
    assert (done.returncode, done.stderr) == (2, f"sordini: {path}: line 2 is not UTF-8: it has the byte 0xe9\n")


def test_a_server_properties_of_kafka_4_starts_the_broker_of_its_node_id(tmp_path: Path) -> None:
    port = free_port()
    own = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://:{port + 1}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{port + 1}",
        "log.dirs": str(tmp_path / "kraft-combined-logs"),
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={text}\n" for key, text in {**KAFKA_4, **own}.items()))

    class Kafka4(SordiniProcess):
        def command(self) -> list[str]:
            return [PROGRAM, "serve", str(path)]

    broker = Kafka4(tmp_path)
    broker.port = port
    with broker:
        output = broker.output()
        assert "sordini is ready: broker 1 of cluster" in output
        assert f"listens on 127.0.0.1:{port} and advertises localhost:{port} (" in output
        (line,) = [line for line in output.splitlines() if "KRaft" in line]
        assert "[warning  ] KRaft configuration taken over, by a broker without KRaft (docs/kraft.md)" in line
        for field in ("broker_id='1 (node.id)'", f"not_opened=CONTROLLER://:{port + 1}", "process.roles"):
            assert field in line
        assert "unknown configuration key" not in output
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port + 1)) != 0
        stopped = typed("stop", str(path))
        assert stopped.returncode == 0, stopped.stderr


@pytest.mark.parametrize("voters", ["1@a:9093,2@b:9093,3@c:9093"])
def test_a_broker_of_a_quorum_does_not_start_as_a_cluster_of_its_own(tmp_path: Path, voters: str) -> None:
    path = tmp_path / "server.properties"
    mine = {**KAFKA_4, "controller.quorum.voters": voters, "log.dirs": str(tmp_path / "data")}
    path.write_text("".join(f"{key}={text}\n" for key, text in mine.items()))
    done = typed("serve", str(path))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "which Sordini cannot join: remove the keys of KRaft, and set zookeeper.connect" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_dev_cluster_takes_no_key_of_kraft_and_ignores_a_containers() -> None:
    done = typed("dev", "--override", "node.id=3")
    assert (done.returncode, done.stderr) == (
        2,
        "sordini: --override node.id=3 is not valid here: there is no KRaft (docs/kraft.md)\n",
    )


def test_records_for_a_topic_that_does_not_exist_create_it_as_the_help_promises(
    sordini_broker: SordiniProcess, topic: str
) -> None:
    done = typed("produce", topic, typed_in="hello\n", bootstrap=sordini_broker.bootstrap)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"sordini: topic '{topic}' did not exist: it was created with 1 partition\n"
    assert done.stdout.startswith(f"{topic}: 1 record (5 B)")
    again = typed("produce", topic, typed_in="hello\n", bootstrap=sordini_broker.bootstrap)
    assert (again.returncode, again.stderr) == (0, "")


@pytest.mark.slow
def test_where_brokers_create_no_topics_the_command_that_does_is_named(start_sordini: Start) -> None:
    broker = start_sordini({"auto.create.topics.enable": "false"})
    done = typed("produce", "orders", typed_in="hello\n", bootstrap=broker.bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "sordini: topic 'orders': there is no such topic, and the brokers create none; `sordini topics create orders` "
        "does (UNKNOWN_TOPIC_OR_PARTITION)\n"
    )
    assert typed("topics", "list", "--json", bootstrap=broker.bootstrap).stdout == "[]\n"


def test_a_start_beyond_the_end_is_an_error_that_names_the_end(sordini_broker: SordiniProcess, topic: str) -> None:
    with Client("127.0.0.1", sordini_broker.port) as client:
        assert client.create(topic) == [0]
        assert client.produce(topic, [a_batch(2)])[0].error_code == 0
    beyond = typed("consume", topic, "--from", "3", "-e", bootstrap=sordini_broker.bootstrap)
    assert (beyond.returncode, beyond.stdout) == (1, "")
    assert beyond.stderr == (
        f"sordini: offset 3 is beyond the end: {topic}-0 ends at 2. --from end waits for new records\n"
    )
    at_the_end = typed("consume", topic, "--from", "2", "-e", bootstrap=sordini_broker.bootstrap)
    assert (at_the_end.returncode, at_the_end.stdout, at_the_end.stderr) == (0, "", "")
    future = typed("consume", topic, "--from", "2999-01-01", "-e", bootstrap=sordini_broker.bootstrap)
    assert (future.returncode, "which is in the future: only new records" in future.stderr) == (0, True)


def test_a_reset_of_a_group_that_does_not_exist_says_so(sordini_broker: SordiniProcess, topic: str) -> None:
    with Client("127.0.0.1", sordini_broker.port) as client:
        assert client.create(topic) == [0]
    group = f"{topic}-group"

    def reset(*words: str) -> subprocess.CompletedProcess[str]:
        return typed("groups", "reset", group, *words, bootstrap=sordini_broker.bootstrap)

    everything = reset("--all-topics", "--to-earliest")
    assert everything.returncode == 1
    assert everything.stderr.startswith(f"sordini: group '{group}' does not exist; `sordini groups list` lists")
    plan = reset("--topic", topic, "--to-earliest", "--json")
    assert (plan.returncode, json.loads(plan.stdout)["executed"]) == (0, False)
    assert plan.stderr == f"Notice: group '{group}' does not exist: --execute creates it.\n"
    done = reset("--topic", topic, "--to-earliest", "--execute")
    assert done.stderr == f"Notice: group '{group}' did not exist: it was created with these offsets.\n"
    assert reset("--topic", topic, "--to-earliest", "--execute").stderr == ""


@pytest.mark.slow
def test_a_topic_is_not_deleted_by_a_script_without_yes(sordini_broker: SordiniProcess, topic: str) -> None:
    at = sordini_broker.bootstrap
    assert typed("topics", "create", topic, bootstrap=at).returncode == 0
    assert typed("topics", "delete", topic, bootstrap=at).returncode == 2
    assert typed("topics", "describe", topic, bootstrap=at).returncode == 0
    assert typed("topics", "delete", topic, "--yes", bootstrap=at).stdout == f"{topic} deleted\n"


@pytest.mark.slow
def test_the_address_in_the_ready_line_is_taken_by_every_command(sordini_broker: SordiniProcess) -> None:
    found = re.search(r"listens on (\S+) ", sordini_broker.output())
    assert found is not None
    for words in (["ping"], ["topics", "list"], ["produce", "typed-ready-line"], ["cluster", "status"]):
        done = typed(*words, "-b", found[1])
        assert done.returncode == 0, done.stderr
