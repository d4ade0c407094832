"""Real clients over TLS, with a certificate and without: what they write they read, and strangers are refused."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from tests.compat import round_trips
from tests.outside.ports import free_port
from tests.outside.processes import SordiniProcess
from tests.outside.tools import JavaTools
from tests.support.certificates import PASSWORD, Authority

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class Secured:
    """A broker with two TLS listeners, the second one for clients with certificates, and the clients' files."""

    def __init__(self, directory: Path) -> None:
        authority, stranger = Authority(), Authority("Stranger")
        server, alice, mallory = authority.issue("broker"), authority.issue("alice"), stranger.issue("mallory")
        self.directory = directory
        self.ca = str(authority.pem_file(directory / "ca.pem"))
        self.files = {}
        for name, issued in (("alice", alice), ("mallory", mallory)):
            (directory / f"{name}.crt").write_text(issued.chain_pem)
            (directory / f"{name}.key").write_text(issued.key_pem())
            self.files[name] = (str(directory / f"{name}.crt"), str(directory / f"{name}.key"))
            issued.pkcs12_file(directory / f"{name}.p12")
        authority.pkcs12_file(directory / "trust.p12")
        server.pkcs12_file(directory / "broker.p12")
        self.broker = SordiniProcess(
            directory / "broker",
            {
                "group.initial.rebalance.delay.ms": 0,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": directory / "broker.p12",
                "ssl.keystore.password": PASSWORD,
                "ssl.truststore.location": directory / "trust.p12",
                "ssl.truststore.password": PASSWORD,
                "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL",
                "security.inter.broker.protocol": "SSL",
                "listener.name.mutual.ssl.client.auth": "required",
            },
        )
        self.bootstrap, self.mutual = self.broker.bootstrap, f"127.0.0.1:{free_port()}"
        self.broker.overrides["listeners"] = f"SSL://{self.bootstrap},MUTUAL://{self.mutual}"

    def context(self, who: str | None = None, version: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if who is not None:
            context.load_cert_chain(*self.files[who])
        if version is not None:
            context.minimum_version = context.maximum_version = VERSIONS[version]
        return context

    def python(self, who: str | None, version: str | None = None) -> dict[str, Any]:
        """The settings of kafka-python and aiokafka."""
        return {
            "bootstrap_servers": address(self, who),
            "security_protocol": "SSL",
            "ssl_context": self.context(who, version),
        }

    def librdkafka(self, bootstrap: str, who: str | None = None) -> dict[str, Any]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": "ssl", "ssl.ca.location": self.ca}
        if who is not None:
            settings |= {"ssl.certificate.location": self.files[who][0], "ssl.key.location": self.files[who][1]}
        return settings

    def properties(self, who: str | None = None, **others: str) -> str:
        """A file for Apache Kafka's tools and for our own commands."""
        entries = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.directory / "trust.p12"),
            "ssl.truststore.password": PASSWORD,
        }
        if who is not None:
            entries |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.directory / f"{who}.p12"),
                "ssl.keystore.password": PASSWORD,
                "ssl.key.password": PASSWORD,
            }
        entries |= {key.replace("_", "."): text for key, text in others.items()}
        path = self.directory / f"{who}-{'-'.join(others.values())}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in entries.items()))
        return str(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    with made.broker:
        yield made


def address(secured: Secured, who: str | None) -> str:
    return secured.bootstrap if who is None else secured.mutual


WHO = pytest.mark.parametrize("who", [None, "alice"])
STRANGERS = pytest.mark.parametrize("who", [None, "mallory"])


@WHO
@pytest.mark.parametrize("version", VERSIONS)
def test_kafka_python_reads_what_it_wrote(secured: Secured, topic: str, who: str | None, version: str) -> None:
    round_trips.by_kafka_python(topic, secured.python(who, version))


@WHO
async def test_aiokafka_reads_what_it_wrote(secured: Secured, topic: str, who: str | None) -> None:
    await round_trips.by_aiokafka(topic, secured.python(who))


@WHO
def test_librdkafka_reads_what_it_wrote(secured: Secured, topic: str, who: str | None) -> None:
    round_trips.by_librdkafka(topic, secured.librdkafka(address(secured, who), who))


@WHO
def test_kcat_reads_what_it_wrote(secured: Secured, topic: str, who: str | None) -> None:
    round_trips.by_kcat(topic, secured.librdkafka(address(secured, who), who))


def test_java_tools_write_and_read(secured: Secured, topic: str, tool: JavaTools) -> None:
    round_trips.by_java_tools(topic, tool, secured.mutual, secured.properties("alice"))
    older = secured.properties("alice", ssl_enabled_protocols="TLSv1.2")
    described = tool("TopicCommand", "--bootstrap-server", secured.mutual, "--command-config", older, "--list")
    assert topic in described.split()


@STRANGERS
def test_kafka_python_without_a_trusted_certificate_is_refused(secured: Secured, who: str | None) -> None:
    context = secured.context(who)
    with pytest.raises((KafkaPythonError, OSError)):
        KafkaProducer(
            bootstrap_servers=secured.mutual, security_protocol="SSL", ssl_context=context, bootstrap_timeout_ms=3000
        )


@STRANGERS
def test_librdkafka_without_a_trusted_certificate_is_refused(secured: Secured, who: str | None) -> None:
    admin = AdminClient(secured.librdkafka(secured.mutual, who) | {"log_level": 0})
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
        admin.list_topics(timeout=2)


def test_a_client_that_does_not_trust_the_broker_says_so(secured: Secured) -> None:
    context = ssl.create_default_context(cadata=Authority("Stranger").pem)
    with pytest.raises((KafkaPythonError, OSError)):
        KafkaProducer(
            bootstrap_servers=secured.bootstrap, security_protocol="SSL", ssl_context=context, bootstrap_timeout_ms=3000
        )


def sordini(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = Path(sys.prefix) / "bin" / "sordini"
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, input=text, check=False, timeout=60
    )


def test_our_own_commands_take_the_same_file(secured: Secured, topic: str) -> None:
    options = ["--bootstrap", secured.mutual, "--command-config", secured.properties("alice")]
    done = sordini("topics", "create", topic, *options)
    assert done.returncode == 0, done.stderr
    assert sordini("produce", topic, *options, text="one\ntwo\n").returncode == 0
    read = sordini("consume", topic, "--from", "beginning", "--exit-at-end", *options)
    assert read.stdout == "one\ntwo\n", read.stderr
    refused = sordini("ping", "--bootstrap", secured.mutual, "--command-config", secured.properties())
    assert refused.returncode == 1
    assert "certificate required" in refused.stderr
    plain = sordini("ping", "--bootstrap", secured.bootstrap)
    assert "is this a plaintext Kafka listener?" in plain.stderr
