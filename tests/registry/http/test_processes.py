"""Registries as processes beside real brokers: two of them, one that a broker starts, TLS, logins, and how they stop."""

from __future__ import annotations

import base64
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outside.processes import DevProcess, SecureProcess
from tests.registry.http.registry_process import RegistryProcess, send
from tests.support.certificates import Authority
from tests.support.polling import eventually

INT, LONG = {"schema": '"int"'}, {"schema": '"long"'}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """A broker with a registry of its own."""
    options = ("--brokers", "1", "--registry", "--registry-port", "0")
    with DevProcess(tmp_path_factory.mktemp("dev"), *options) as process:
        eventually(lambda: RegistryProcess.ready_line.search(process.output()), "the registry is ready", 30)
        yield process


def url_of(dev: DevProcess) -> str:
    found = RegistryProcess.ready_line.search(dev.output())
    assert found is not None
    return found[2]


def test_of_two_registries_one_writes_and_the_other_forwards(dev: DevProcess, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path, dev.bootstrap) as second:
        for number, url in enumerate((url_of(dev), second.url)):
            text = {"schema": f'{{"type":"fixed","name":"F{number}","size":4}}'}
            reply = send(url, "POST", f"/subjects/s{number}/versions", text)
            assert reply.status == 200, reply
            for other in (url_of(dev), second.url):
                assert send(other, "GET", f"/schemas/ids/{reply.value['id']}").status == 200
        refused = send(second.url, "PUT", "/config", {"compatibility": "SOMETIMES"})
        assert (refused.status, refused.value["error_code"]) == (422, 42203)
        assert (
            len({send(url, "POST", "/subjects/s/versions", INT).value["id"] for url in (url_of(dev), second.url)}) == 1
        )

        def forwarded() -> list[str] | None:
            lines = [*second.output().splitlines(), *dev.output().splitlines()]
            found = [line for line in lines if "forwarded_to" in line]
            return found if len(found) == 3 else None

        found = eventually(forwarded, "a line for each request that was forwarded", 30)
        assert all("status=200" in line or "status=422" in line for line in found)


def test_a_registry_that_is_read_only_reads_what_others_write(dev: DevProcess, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path, dev.bootstrap, "--read-only") as reader:
        assert "(read-only)" in reader.output()
        number = send(url_of(dev), "POST", "/subjects/read/versions", LONG).value["id"]
        assert send(reader.url, "GET", f"/schemas/ids/{number}").value["schema"] == '"long"'
        refused = send(reader.url, "DELETE", "/subjects/read")
        assert (refused.status, refused.value["error_code"]) == (422, 42205)


def test_when_the_registry_that_writes_stops_another_one_writes_and_knows_all(tmp_path: Path) -> None:
    with (
        DevProcess(tmp_path / "dev", "--brokers", "1") as dev,
        RegistryProcess(tmp_path / "first", dev.bootstrap) as first,
    ):
        number = send(first.url, "POST", "/subjects/a/versions", INT).value["id"]
        with RegistryProcess(tmp_path / "second", dev.bootstrap) as second:
            first.stop()

            def written() -> bool | None:
                return send(second.url, "POST", "/subjects/b/versions", LONG).status == 200 or None

            eventually(written, "the second registry writes", 30)
            assert send(second.url, "POST", "/subjects/a/versions", INT).value == {"id": number}
            assert send(second.url, "GET", "/subjects/b/versions/1").value["id"] == number + 1
        assert "registry stopped" in second.output()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_registry_with_status_0(dev: DevProcess, tmp_path: Path, number: signal.Signals) -> None:
    command = RegistryProcess(tmp_path, dev.bootstrap).command()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert RegistryProcess.ready_line.search(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(30) == 0


def test_a_registry_of_a_broker_ends_with_its_input(dev: DevProcess, tmp_path: Path) -> None:
    command = [*RegistryProcess(tmp_path, dev.bootstrap).command(), "--stop-with-input"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr


def test_a_cluster_that_is_not_reached_is_named(tmp_path: Path) -> None:
    command = RegistryProcess(tmp_path, "127.0.0.1:1").command()
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("sordini: the registry failed: cannot reach 127.0.0.1:1: connection refused")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sasl-login", "PLAIN"], "--sasl-login needs --command-config"),
        (["--tls-key", "key.pem"], "give both or none"),
        (["--listen", "far:away"], "allowed is HOST:PORT or PORT"),
        (["--advertised-host", "0.0.0.0"], "allowed is a name or an address"),
        (["--bootstrap", "host:port"], "--bootstrap"),
        (["--command-config", "/nowhere"], "no such file"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: list[str], words: str) -> None:
    program = str(Path(sys.prefix) / "bin" / "sordini")
    done = subprocess.run([program, "registry", *options], capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 2
    assert words in re.sub(r"\s+", " ", done.stderr)


def test_a_port_that_is_taken_is_said(dev: DevProcess) -> None:
    program, port = str(Path(sys.prefix) / "bin" / "sordini"), url_of(dev).rpartition(":")[2]
    command = [program, "registry", "--bootstrap", dev.bootstrap, "--listen", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stderr) == (1, "sordini: the registry cannot start: Address already in use\n")


def test_a_secured_broker_starts_a_registry_whose_visitors_are_its_users(tmp_path: Path) -> None:
    broker = SecureProcess(tmp_path)
    broker.options = ["--registry", "--registry-port", "0"]
    with broker:
        found = eventually(lambda: RegistryProcess.ready_line.search(broker.output()), "the registry is ready", 30)
        password = re.search(r'password="([^"]+)"', broker.client_properties.read_text())
        assert password is not None
        login = base64.b64encode(f"admin:{password[1]}".encode()).decode()
        assert send(found[2], "GET", "/subjects").status == 401
        wrong = base64.b64encode(b"admin:guess").decode()
        assert send(found[2], "GET", "/subjects", headers={"authorization": f"Basic {wrong}"}).status == 401
        made = send(found[2], "POST", "/subjects/s/versions", INT, {"authorization": f"Basic {login}"})
        assert (made.status, made.value) == (200, {"id": 1})
        eventually(lambda: "registry change" in broker.output() or None, "the line of the change", 30)
        assert password[1] not in broker.output()


def test_a_registry_serves_https_and_forwards_to_one_that_does(dev: DevProcess, tmp_path: Path) -> None:
    authority = Authority()
    issued, key, chain = authority.issue("127.0.0.1"), tmp_path / "key.pem", tmp_path / "chain.pem"
    key.write_text(issued.key_pem())
    chain.write_text(issued.chain_pem)
    ca = str(authority.pem_file(tmp_path / "ca.pem"))
    tls = ("--tls-certificate", str(chain), "--tls-key", str(key), "--tls-ca", ca)
    context = ssl.create_default_context(cafile=ca)
    group = ("--group", "with-tls", "--topic", "tls_schemas")
    with (
        RegistryProcess(tmp_path / "one", dev.bootstrap, *tls, *group) as one,
        RegistryProcess(tmp_path / "two", dev.bootstrap, *tls, *group) as two,
    ):
        assert one.url.startswith("https://")
        for url in (one.url, two.url):
            assert send(url, "POST", "/subjects/s/versions", INT, context=context).value == {"id": 1}
