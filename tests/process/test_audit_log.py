"""The audit log of a real broker: its file, what is in it, and what a full disk or a missing directory does."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.outside.ports import free_port
from tests.outside.processes import DevProcess, SecureProcess, SordiniProcess
from tests.support.certificates import Authority, Issued
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]
PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
PATIENCE_S = 20.0


def lines(file: Path, event: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in found if line["event"] == event or not event]


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        found = re.search(rf"^{name}(?:{{.*}})? (\S+)$", page.read().decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_a_change_is_a_line_in_a_file_of_the_owner_alone_that_is_continued_by_the_next_start(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "audit.log"
    broker = start_sordini({"sordini.audit.log.file": file})
    assert connect(broker).create("orders", "bad/name") == [0, 17]
    assert file.stat().st_mode & 0o777 == 0o600
    [line] = lines(file)
    assert (line["event"], line["api"], line["outcome"]) == ("change", "CREATE_TOPICS", "INVALID_TOPIC_EXCEPTION")
    assert "CREATE_TOPICS" not in broker.output()
    broker.restart()
    assert connect(broker).delete("orders") == 0
    assert [line["api"] for line in lines(file)] == ["CREATE_TOPICS", "DELETE_TOPICS"]


def test_no_audit_log_is_written_unless_it_is_asked_for(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini()
    assert connect(broker).create("orders") == [0]
    assert not list(broker.directory.rglob("*audit*"))


def test_sighup_reopens_the_file_after_it_was_renamed(start_sordini: Start, connect: Connect, tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    broker = start_sordini({"sordini.audit.log.file": file})
    client = connect(broker)
    assert client.create("one") == [0]
    file.rename(tmp_path / "audit.log.1")
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: "audit log reopened" in broker.output(), "it says so")
    assert client.create("two") == [0]
    assert [line["request"]["topics"][0]["name"] for line in lines(file)] == ["two"]
    assert len(lines(tmp_path / "audit.log.1")) == 1


def test_a_file_that_cannot_be_reopened_is_an_error_in_the_log_and_the_former_one_stays(
    start_sordini: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    broker = start_sordini({"sordini.audit.log.file": folder / "audit.log"})
    folder.rename(tmp_path / "elsewhere")
    os.kill(broker.pid, signal.SIGHUP)
    eventually(lambda: "audit log not reopened" in broker.output(), "it says so")
    assert connect(broker).create("two") == [0]
    assert len(lines(tmp_path / "elsewhere" / "audit.log")) == 1


def test_a_full_disk_drops_and_counts_lines_and_stops_nothing(start_sordini: Start, connect: Connect) -> None:
    port = free_port()
    broker = start_sordini({"sordini.audit.log.file": "/dev/full", "sordini.metrics.port": port})
    client = connect(broker)
    for number in range(5):
        assert client.create(f"topic-{number}") == [0]
    eventually(lambda: metric(port, "sordini_audit_lines_dropped_total") == 5, "the lines are counted")
    assert broker.stop() == 0


@pytest.mark.parametrize("path", ["/proc/none/audit.log", "/proc"])
def test_a_file_that_cannot_be_opened_prevents_the_start_in_one_line(tmp_path: Path, path: str) -> None:
    broker = SordiniProcess(tmp_path / "broker", {"sordini.audit.log.file": path})
    broker.launch()
    assert broker.wait_for_exit(20) == 1
    assert re.fullmatch(rf"sordini: {path} \(sordini\.audit\.log\.file\): .+\n", broker.output())


def test_a_daemon_takes_a_path_that_is_relative_to_where_it_was_started(tmp_path: Path) -> None:
    broker = SordiniProcess(tmp_path / "daemon", {"sordini.audit.log.file": "own/audit.log"})
    (broker.directory / "own").mkdir()
    done = subprocess.run(
        [*broker.command(), "--daemon"], capture_output=True, text=True, timeout=60, cwd=broker.directory, check=False
    )
    try:
        assert done.returncode == 0, done.stderr
        with Client("127.0.0.1", broker.port) as client:
            assert client.create("orders") == [0]
        assert len(lines(broker.directory / "own" / "audit.log")) == 1
    finally:
        words = [PROGRAM, "stop", "--override", f"log.dirs={broker.data_directory}", "--force", "--timeout", "10"]
        assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == 0


def test_the_brokers_of_a_development_cluster_share_the_file(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    with DevProcess(tmp_path / "dev", "--brokers", "2", "--override", f"sordini.audit.log.file={file}") as cluster:
        codes = {}
        for port in cluster.ports:
            with Client("127.0.0.1", port) as client:
                codes[port] = client.create("orders")
        assert sorted({line["broker"] for line in lines(file)}) == [1, 2]
        file.rename(tmp_path / "audit.log.1")
        os.kill(cluster.pid, signal.SIGHUP)
        eventually(file.exists, "the file is made again")


def test_a_certificate_that_is_missing_or_not_trusted_is_a_failed_login(tmp_path: Path) -> None:
    authority, file, metrics = Authority(), tmp_path / "audit.log", free_port()
    broker = SordiniProcess(
        tmp_path / "secured",
        {
            "security.inter.broker.protocol": "SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.issue("broker").pem_file(tmp_path / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.pem_file(tmp_path / "ca.pem"),
            "sordini.audit.log.file": file,
            "sordini.metrics.port": metrics,
        },
    )
    broker.overrides["listeners"] = f"SSL://{broker.bootstrap}"

    def connect_with(issued: Issued | None) -> None:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        if issued is not None:
            context.load_cert_chain(issued.pem_file(tmp_path / "client.pem"))
        with (
            socket.create_connection(("127.0.0.1", broker.port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            assert not secured.recv(1)  # Of TLS 1.3 a client learns after its handshake that it is refused.

    expected = {
        "peer did not return a certificate": None,
        "the certificate is not trusted: unable to get local issuer certificate": Authority("Other").issue("mallory"),
        "the certificate is not trusted: certificate has expired": authority.issue("carol", days=-1),
    }
    with broker:
        for issued in expected.values():
            with pytest.raises((ssl.SSLError, ConnectionError)):
                connect_with(issued)
        eventually(lambda: len(lines(file, "login failed")) == len(expected), "the lines are written")
        found = lines(file, "login failed")
        assert [line["reason"] for line in found] == list(expected)
        assert {(line["user"], line["mechanism"], line["listener"], line["address"]) for line in found} == {
            ("", "TLS", "SSL", "127.0.0.1")
        }
        assert metric(metrics, "sordini_logins_failed_total") == len(expected)


def test_a_secured_broker_has_an_audit_log_with_denials_and_failed_logins(tmp_path: Path) -> None:
    port = free_port()
    with SecureProcess(tmp_path / "secure", {"sordini.metrics.port": port}) as broker:
        options = f"--bootstrap {broker.bootstrap} --command-config"
        admin = f"{options} {broker.client_properties}"

        def run(words: str, given: str = "") -> int:
            line = [PROGRAM, *shlex.split(words)]
            return subprocess.run(line, input=given, capture_output=True, text=True, timeout=60, check=False).returncode

        assert run(f"users set carol --password-file - {admin}", "carol-horse\n") == 0
        text = broker.client_properties.read_text().replace('"admin"', '"carol"')
        for name, password in (("carol", "carol-horse"), ("wrong", "wrong-horse")):
            (tmp_path / f"{name}.properties").write_text(text.replace(broker.password, password))
        assert run(f"topics create ledger {options} {tmp_path}/carol.properties") == 1
        assert run(f"topics list --timeout 3 {options} {tmp_path}/wrong.properties") == 1
        file = broker.data_directory / "audit.log"
        assert file.stat().st_mode & 0o777 == 0o600
        [made, refused] = lines(file, "change")
        assert (made["principal"], made["request"]["upsertions"][0]["name"]) == ("User:admin", "carol")
        assert (refused["principal"], refused["outcome"]) == ("User:carol", "TOPIC_AUTHORIZATION_FAILED")
        denied = lines(file, "denied")[-1]
        assert [denied[key] for key in ("principal", "api", "operation", "resource_type", "resource")] == [
            *("User:carol", "CREATE_TOPICS", "CREATE", "TOPIC", "ledger")
        ]
        failed = lines(file, "login failed")[0]
        assert [failed[key] for key in ("user", "mechanism", "listener", "address")] == [
            *("carol", "SCRAM-SHA-256", "SASL_SSL", "127.0.0.1")
        ]
        assert "horse" not in file.read_text()
        assert metric(port, "sordini_denials_total") >= 1
        assert metric(port, "sordini_logins_failed_total") >= 1
        assert metric(port, "sordini_audit_lines_dropped_total") == 0
