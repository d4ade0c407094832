"""Commands that log in to a registry over TLS; and its passwords and tokens, which are in no output and no argument."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from sordini.admin.failure import Failure
from sordini.broker.process.secure_start.authority import issue, make_authority
from sordini.cli.common.registry_options import RegistryOptions
from sordini.system.clock import SystemClock
from sordini.testing import Kafka, Sasl, make_kafka
from tests.process.planted_secrets import forms
from tests.registry.clients.scripted_registry import ScriptedRegistry, answer
from tests.registry.http.registry_process import RegistryProcess

PROGRAM = Path(sys.prefix) / "bin" / "sordini"
PASSWORDS = {"admin": "Kx7-registry-own-rail-4c2b", "alice": "Kx7-registry-alice-coot-5d3c"}
WRONG, TOKEN = "Kx7-registry-wrong-tern-6e4d", "Kx7-registry-token-smew-7f5e"
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
LOGIN = """security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(sasl=Sasl(PASSWORDS, ["SCRAM-SHA-256"]), topics={"orders": 1}) as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("logins")
    now_ms = SystemClock().now_ms()
    authority = make_authority("registry test", now_ms)
    issued = issue(authority, "registry", ("127.0.0.1", "localhost"), now_ms)
    (made / "ca.pem").write_bytes(authority.certificate_pem)
    (made / "chain.pem").write_bytes(issued.certificate_pem)
    (made / "key.pem").write_bytes(issued.key_pem)
    (made / "order.avsc").write_text(ORDER)
    for name, text in {"alice": PASSWORDS["alice"], "wrong": WRONG, "token": TOKEN, "empty": ""}.items():
        (made / name).write_text(f"{text}\nno part of it\n")
    for name, password in PASSWORDS.items():
        (made / f"{name}.properties").write_text(LOGIN.format(name, password))
    return made


@pytest.fixture(scope="module")
def registry(kafka: Kafka, folder: Path) -> Iterator[RegistryProcess]:
    tls = ("--tls-certificate", str(folder / "chain.pem"), "--tls-key", str(folder / "key.pem"))
    own = ("--command-config", str(folder / "admin.properties"), "--sasl-login", "SCRAM-SHA-256")
    with RegistryProcess(folder / "registry", kafka.bootstrap_servers, *own, *tls) as made:
        yield made


@pytest.fixture
def run(kafka: Kafka, folder: Path) -> Iterator[Run]:
    output: list[str] = []

    def command(*words: str, lines: str = "", registry: str) -> subprocess.CompletedProcess[str]:
        reached = ("-b", kafka.bootstrap_servers, "--command-config", str(folder / "alice.properties"))
        given = [str(PROGRAM), *words, *reached, "--registry", registry]
        done = subprocess.run(given, input=lines, capture_output=True, text=True, timeout=60, check=False)
        output.append(f"{given}{done.stdout}{done.stderr}")
        return done

    yield command
    check_secrets("".join(output).encode())


def check_secrets(data: bytes) -> None:
    for secret in (*PASSWORDS.values(), WRONG, TOKEN):
        assert [form for form, written in forms(secret).items() if written in data] == []


def test_a_command_logs_in_by_a_password_file_and_trusts_the_authorities_of_a_file(
    run: Run, registry: RegistryProcess, folder: Path
) -> None:
    login = ("--registry-user", "alice", "--registry-password-file", str(folder / "alice"))
    trust = ("--registry-ca", str(folder / "ca.pem"))
    url = registry.url
    written = run(
        "produce", "orders", "--avro", str(folder / "order.avsc"), *login, *trust, lines='{"id":7}\n', registry=url
    )
    assert (written.returncode, written.stderr) == (0, "")
    read = ("consume", "orders", "--from", "beginning", "--exit-at-end")
    assert run(*read, *login, *trust, registry=url).stdout == '{"id":7}\n'
    wrong = run(
        *read, "--registry-user", "alice", "--registry-password-file", str(folder / "wrong"), *trust, registry=url
    )
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "the cluster refuses the login" in wrong.stderr
    assert "(401)" in wrong.stderr
    assert "(401)" in run(*read, *trust, registry=url).stderr
    assert "(401)" in run(*read, "--registry-token-file", str(folder / "token"), *trust, registry=url).stderr
    distrusted = run(*read, *login, registry=url)
    assert distrusted.returncode == 1
    assert "certificate" in distrusted.stderr


def test_a_token_of_a_file_is_sent_as_bearer(run: Run, folder: Path) -> None:
    with ScriptedRegistry(lambda _: answer({"schema": ORDER})) as server:
        read = ("consume", "orders", "--from", "beginning", "--exit-at-end")
        done = run(*read, "--registry-token-file", str(folder / "token"), registry=server.url)
        assert (done.returncode, done.stdout) == (0, '{"id":7}\n')
        assert f"Authorization: Bearer {TOKEN}".lower() in [header.lower() for header in server.headers]


@pytest.mark.parametrize(
    ("user", "password", "token", "ca", "reason"),
    [
        ("alice", None, None, None, "--registry-user and --registry-password-file: give both or none"),
        (None, "alice", None, None, "--registry-user and --registry-password-file: give both or none"),
        ("alice", "alice", "token", None, "--registry-user and --registry-token-file: give one of them"),
        ("alice", "empty", None, None, "its first line is empty"),
        ("alice", "nowhere", None, None, "no such file"),
        ("a:b", "alice", None, None, "--registry-user: a user's name has no colon"),
        (None, None, None, "ca.pem", "--registry-ca needs a URL of https"),
    ],
)
def test_options_of_a_login_that_do_not_fit_are_refused(
    folder: Path, user: str | None, password: str | None, token: str | None, ca: str | None, reason: str
) -> None:
    files = [None if name is None else str(folder / name) for name in (password, token, ca)]
    with pytest.raises((click.UsageError, Failure), match=re.escape(reason)) as refused:
        RegistryOptions("http://127.0.0.1:1", user, *files).access()
    check_secrets(str(refused.value).encode())


def test_no_secret_is_in_the_log_or_in_the_arguments_of_a_registry(registry: RegistryProcess) -> None:
    arguments = Path(f"/proc/{registry.pid}/cmdline").read_bytes()
    environment = Path(f"/proc/{registry.pid}/environ").read_bytes()
    check_secrets(registry.output().encode() + arguments + environment)
    assert b"--sasl-login" in arguments
    assert "status=401" in registry.output()
