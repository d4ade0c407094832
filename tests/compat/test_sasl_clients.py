"""Real clients that log in, by each mechanism: what they write they read, and what they may not do is refused."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import TopicAuthorizationFailedError

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.served_apis import APIS
from tests.compat import round_trips
from tests.outside.processes import SordiniProcess
from tests.outside.tools import JavaTools
from tests.support.wire_client import PATIENCE_S

PASSWORD = "let me in"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
LARGEST_BEFORE_LOGIN = 1000
CLASSES = {"PLAIN": "plain.PlainLoginModule"}
"""Others are SCRAM's."""


def login(mechanism: str, user: str, password: str = PASSWORD, users: str = "") -> str:
    name = CLASSES.get(mechanism, "scram.ScramLoginModule")
    return f'org.apache.kafka.common.security.{name} required username="{user}" password="{password}"{users};'


class Secured:
    """A broker where alice may do everything to topics that begin with `topic`, and admin everything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = SordiniProcess(
            directory / "broker",
            {
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": login(
                    "PLAIN", "admin", "secret", f' user_admin="secret" user_alice="{PASSWORD}"'
                ),
                "connection.failed.authentication.delay.ms": 0,
                "sasl.server.max.receive.size": LARGEST_BEFORE_LOGIN,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": "User:admin",
                "group.initial.rebalance.delay.ms": 0,
            },
        )
        self.bootstrap = self.broker.bootstrap
        self.broker.overrides["listeners"] = f"SASL_PLAINTEXT://{self.bootstrap}"

    def prepare(self) -> None:
        self.command("users", "set", "alice", "--password-file", "-", text=PASSWORD)
        self.command("acls", "add", "--topic", "topic", "--pattern", "prefixed", "--allow", "User:alice")
        self.command("acls", "add", "--group", "*", "--operation", "Read", "--allow", "User:alice")
        self.command("topics", "create", "secrets")

    def properties(self, mechanism: str = "PLAIN", user: str = "admin", password: str = "secret") -> str:
        """A file for Apache Kafka's tools and for our own commands."""
        path = self.directory / f"{mechanism}-{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={login(mechanism, user, password)}\n"
        )
        return str(path)

    def command(self, *arguments: str, text: str = "") -> str:
        program = Path(sys.prefix) / "bin" / "sordini"
        words = [str(program), *arguments, "--bootstrap", self.bootstrap, "--command-config", self.properties()]
        done = subprocess.run(words, capture_output=True, text=True, input=text, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """The settings of kafka-python and aiokafka."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": password,
        }

    def librdkafka(self, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("sasl"))
    with made.broker:
        made.prepare()
        yield made


EACH_MECHANISM = pytest.mark.parametrize("mechanism", MECHANISMS)


@EACH_MECHANISM
def test_kafka_python_reads_what_it_wrote(secured: Secured, topic: str, mechanism: str) -> None:
    round_trips.by_kafka_python(topic, secured.python(mechanism))


@EACH_MECHANISM
async def test_aiokafka_reads_what_it_wrote(secured: Secured, topic: str, mechanism: str) -> None:
    await round_trips.by_aiokafka(topic, secured.python(mechanism))


@EACH_MECHANISM
def test_librdkafka_reads_what_it_wrote(secured: Secured, topic: str, mechanism: str) -> None:
    round_trips.by_librdkafka(topic, secured.librdkafka(mechanism))


@EACH_MECHANISM
def test_kcat_reads_what_it_wrote(secured: Secured, topic: str, mechanism: str) -> None:
    round_trips.by_kcat(topic, secured.librdkafka(mechanism))


def test_java_tools_log_in_and_see_what_they_may(secured: Secured, topic: str, tool: JavaTools) -> None:
    properties = secured.properties("SCRAM-SHA-512", "alice", PASSWORD)
    round_trips.by_java_tools(topic, tool, secured.bootstrap, properties)
    listed = tool("TopicCommand", "--bootstrap-server", secured.bootstrap, "--command-config", properties, "--list")
    assert topic in listed.split()
    assert "secrets" not in listed.split()


@EACH_MECHANISM
def test_a_wrong_password_is_refused_and_the_client_says_so(secured: Secured, mechanism: str) -> None:
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**secured.python(mechanism, "wrong"), bootstrap_timeout_ms=3000)
    said: list[str] = []
    settings = secured.librdkafka(mechanism, "wrong") | {"error_cb": lambda error: said.append(error.name())}
    producer = Producer(settings | {"log_level": 0})
    for _ in range(20):
        producer.poll(1)
        if said:
            break
    assert said[0] == "_AUTHENTICATION"


def test_a_topic_without_an_entry_is_refused_to_those_who_are_logged_in(secured: Secured) -> None:
    producer = KafkaProducer(**secured.python("SCRAM-SHA-256"), max_block_ms=3000)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("secrets", b"a guess").get(timeout=10)
    producer.close()
    assert secured.command("consume", "secrets", "--from", "beginning", "--exit-at-end") == ""


def test_before_the_login_a_request_is_at_most_as_large_as_configured(secured: Secured, topic: str) -> None:
    with socket.create_connection(("127.0.0.1", secured.broker.port), timeout=PATIENCE_S) as stranger:
        frame = request_header(APIS[ApiKey.API_VERSIONS], 0, 1)
        stranger.sendall(struct.pack(">i", len(frame)) + frame)
        assert struct.unpack(">i", stranger.recv(4, socket.MSG_WAITALL))[0] > 0, "a small one is served"
        stranger.sendall(struct.pack(">i", LARGEST_BEFORE_LOGIN + 1))
        while stranger.recv(4096):
            pass  # The rest of the answer, and then the end.
    assert f"sasl.server.max.receive.size is {LARGEST_BEFORE_LOGIN}" in secured.broker.output()
    producer = KafkaProducer(**secured.python("PLAIN"))
    producer.send(topic, b"x" * 100 * LARGEST_BEFORE_LOGIN, partition=0).get(timeout=30)
    producer.close()
