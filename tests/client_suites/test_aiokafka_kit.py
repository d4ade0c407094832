"""The fixtures that aiokafka's own suite is given, in a run of pytest as that suite's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_suites.aiokafka_kit import FAILING, RACING, SKIPPED

SUITE = """
import unittest

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.helpers import create_ssl_context


@pytest.mark.usefixtures("setup_test_class")
class TestWithBroker(unittest.TestCase):
    def send(self, port, topic, **settings):
        async def sent():
            producer = AIOKafkaProducer(bootstrap_servers=f"{self.kafka_host}:{port}", **settings)
            try:
                await producer.start()
                return (await producer.send_and_wait(topic, b"a value", partition=1)).offset
            finally:
                await producer.stop()

        return self.loop.run_until_complete(sent())

    def test_each_listener_serves_its_clients(self):
        names = {"cafile": "ca.crt", "certfile": "client.crt", "keyfile": "client.key"}
        files = {option: str(self.ssl_folder / name) for option, name in names.items()}
        tls = {"ssl_context": create_ssl_context(**files)}
        login = {"sasl_plain_username": "test", "sasl_plain_password": "test", "sasl_mechanism": "PLAIN"}
        assert self.hosts == [f"{self.kafka_host}:{self.kafka_port}"]
        assert self.send(self.kafka_port, "plain") == 0
        assert self.send(self.kafka_ssl_port, "tls", security_protocol="SSL", **tls) == 0
        assert self.send(self.kafka_sasl_plain_port, "login", security_protocol="SASL_PLAINTEXT", **login) == 0
        assert self.send(self.kafka_sasl_ssl_port, "both", security_protocol="SASL_SSL", **login, **tls) == 0

    def test_entries_of_access_control_are_in_force_until_they_are_removed(self):
        self.acl_manager.add_acl(allow_principal="test2", operation="All", topic="guarded")
        self.acl_manager.add_acl(deny_principal="test", operation="WRITE", topic="guarded")
        assert len(self.acl_manager.list_acl()) == 2
        with pytest.raises(TopicAuthorizationFailedError):
            self.send_as("test", "test", "guarded")
        assert self.send_as("test2", "test2", "guarded") == 0
        self.acl_manager.cleanup()
        assert self.acl_manager.list_acl() == []
        assert self.send_as("test", "test", "guarded") == 1

    def test_users_of_scram_are_made(self):
        self.kafka_config.add_scram_user("new", "its password")
        assert self.send_as("new", "its password", "scram", "SCRAM-SHA-512") == 0

    def send_as(self, name, password, topic, mechanism="PLAIN"):
        login = {"sasl_plain_username": name, "sasl_plain_password": password, "sasl_mechanism": mechanism}
        return self.send(self.kafka_sasl_plain_port, topic, security_protocol="SASL_PLAINTEXT", **login)
"""


def run(directory: Path, *arguments: str) -> tuple[int, str]:
    """A run of pytest in a directory that is laid out as the suite's."""
    (directory / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["tests"]\nxfail_strict = false\n'
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "aiokafka_kit", "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def write_listed(directory: Path) -> None:
    """The tests that the plugin lists, all of which pass; those that it skips would not."""
    for name in (*SKIPPED, *FAILING, *RACING):
        path, of_class, test = name.split("::")
        file = directory / path
        text = file.read_text() if file.exists() else f"class {of_class}:\n"
        file.write_text(f"{text}    def {test}(self): assert {name not in SKIPPED}\n")


def test_the_classes_of_the_suite_get_what_its_own_fixtures_would_give_them(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_with_broker.py").write_text(SUITE)
    write_listed(tmp_path)
    code, output = run(tmp_path)
    assert code == 1
    assert sum(line.startswith("[XPASS(strict)]") for line in output.splitlines()) == len(FAILING), output
    assert f"{len(FAILING)} failed, 3 passed, {len(SKIPPED)} skipped, {len(RACING)} xpassed" in output


def test_a_listed_test_that_the_suite_no_longer_has_is_reported(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    write_listed(tmp_path)
    (tmp_path / "tests" / "test_sasl.py").unlink()
    code, output = run(tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert all(name in output for name in SKIPPED)
