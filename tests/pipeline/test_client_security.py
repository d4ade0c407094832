"""The client, and Spark with it, over TLS and after a login, against an Apache Kafka that insists on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sordini.pipeline.source.client import Client, ClientSettings, Unauthorized, Unreachable
from sordini.protocol.types import TopicPartition
from tests.outside.java import ApacheKafkaProcess
from tests.outside.ports import free_port
from tests.pipeline.batches import Batches
from tests.pipeline.certificates import Certificates, make_certificates
from tests.pipeline.sent import KEEP, fill, rows, values, without_headers
from tests.pipeline.test_client import read
from tests.pipeline.topics import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

USER, PASSWORD = "a,n=n", 'pa"ss,wörd='  # Apache Kafka takes names of ASCII only.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured(ApacheKafkaProcess):
    """A broker with a plain listener for the tests' own tools, and one for each kind of security."""

    def __init__(self, directory: Path, zookeeper: str, certificates: Certificates) -> None:
        names = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
        self.ports = {name: free_port() for name in names}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        kafka = "org.apache.kafka.common.security"
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.server_store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.authority,
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            login = f'{kafka}.plain.PlainLoginModule required user_{"ann"}="secret";'
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = login
            for mechanism in MECHANISMS[1:]:
                key = f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"
                settings[key] = f"{kafka}.scram.ScramLoginModule required;"
        settings["listener.name.sasl_plaintext.connections.max.reauth.ms"] = 2_000
        super().__init__(directory, zookeeper, settings)
        self.settings["listeners"] = f"PLAINTEXT://{self.bootstrap},{listeners}"

    def settings_for(self, protocol: str, **options: object) -> ClientSettings:
        given = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in options.items()}
        given["kafka.bootstrap.servers"] = f"127.0.0.1:{self.ports[protocol]}"
        given["kafka.security.protocol"] = protocol
        return ClientSettings.from_options(given)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(zookeeper: str, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    with Secured(directory, f"{zookeeper}/{uuid4().hex}", certificates) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        wanted = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in admin.alter_user_scram_credentials(wanted).values():
            future.result(timeout=30)
        yield process


@pytest.fixture(scope="module")
def topic(secured: Secured) -> str:
    name = Place(secured.bootstrap).make_topic(configs=KEEP)
    fill(secured.bootstrap, name, 1_000, partitions=1)
    return name


def read_all(settings: ClientSettings, topic: str) -> int:
    with Client(settings) as client:
        return len(read(client, topic))


def jaas(username: str, password: str, module: str = "scram.Scram") -> str:
    quoted = [word.replace("\\", "\\\\").replace('"', '\\"') for word in (username, password)]
    return (
        f'org.apache.kafka.common.security.{module}LoginModule required username="{quoted[0]}" password="{quoted[1]}";'
    )


def test_tls_with_a_certificate_of_our_own_reads_everything(
    secured: Secured, topic: str, certificates: Certificates
) -> None:
    in_files = secured.settings_for(
        "SSL",
        ssl_truststore_location=certificates.authority,
        ssl_truststore_type="PEM",
        ssl_keystore_location=certificates.client_store,
        ssl_keystore_type="PEM",
    )
    as_text = secured.settings_for(
        "SSL",
        ssl_truststore_certificates=certificates.authority.read_text(),
        ssl_keystore_certificate_chain=certificates.client_certificate.read_text(),
        ssl_keystore_key=certificates.client_key.read_text(),
    )
    assert read_all(in_files, topic) == read_all(as_text, topic) == 1_000


def test_a_certificate_that_is_missing_or_a_strangers_is_reported(secured: Secured, certificates: Certificates) -> None:
    for store in (None, certificates.stranger_store):
        options = {} if store is None else {"ssl_keystore_location": store}
        settings = secured.settings_for("SSL", ssl_truststore_location=certificates.authority, **options)
        with Client(settings) as client, pytest.raises(Unauthorized, match="does not accept our certificate"):
            client.topics()


def test_a_broker_whose_certificate_is_not_trusted_is_reported(secured: Secured) -> None:
    with Client(secured.settings_for("SSL")) as client, pytest.raises(Unauthorized, match="not trusted here"):
        client.topics()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_logs_in_over_tls(
    secured: Secured, topic: str, certificates: Certificates, mechanism: str
) -> None:
    login = jaas("ann", "secret", "plain.Plain") if mechanism == "PLAIN" else jaas(USER, PASSWORD)
    settings = secured.settings_for(
        "SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_jaas_config=login,
        ssl_truststore_location=certificates.authority,
    )
    assert read_all(settings, topic) == 1_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_reported_at_once(secured: Secured, mechanism: str) -> None:
    settings = secured.settings_for(
        "SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_username="ann", sasl_password="guessed"
    )
    with Client(settings) as client, pytest.raises(Unauthorized, match=f"refuses 'ann' .{mechanism}"):
        client.topics()


def test_a_reading_outlives_its_login(secured: Secured, topic: str) -> None:
    settings = secured.settings_for(
        "SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username=USER,
        sasl_password=PASSWORD,
        max_partition_fetch_bytes=2_000,
    )
    with Client(settings) as client:
        fetches = client.read(TopicPartition(topic, 0), 0, 1_000)
        next(fetches)
        began = monotonic()
        while monotonic() < began + 3:  # The broker lets a login live for two seconds.
            assert topic in client.topics()
        rest = list(fetches)
        assert rest[-1].next_offset == 1_000


def test_a_listener_that_wants_a_login_or_tls_differs_from_one_that_is_down(secured: Secured) -> None:
    def plain(protocol: str) -> ClientSettings:
        return ClientSettings.from_options({"kafka.bootstrap.servers": f"127.0.0.1:{secured.ports[protocol]}"})

    with Client(plain("SASL_PLAINTEXT")) as client, pytest.raises(Unauthorized, match="it may require authentication"):
        client.topics()
    with Client(plain("SSL")) as client, pytest.raises(Unreachable, match=r"is kafka.security.protocol right\?"):
        client.check()


def test_tls_to_a_plain_listener_is_reported(secured: Secured, certificates: Certificates) -> None:
    secured.ports["PLAIN"] = secured.port
    options = {
        "kafka.bootstrap.servers": secured.bootstrap,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(certificates.authority),
    }
    with Client(ClientSettings.from_options(options)) as client, pytest.raises(Unreachable, match="TLS"):
        client.check()


@pytest.fixture
def spark_options(secured: Secured, certificates: Certificates) -> dict[str, str]:
    """What a job says to get in, in the words of Apache Kafka's Java clients."""
    return {
        "kafka.bootstrap.servers": f"127.0.0.1:{secured.ports['SASL_SSL']}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas(USER, PASSWORD),
        "kafka.ssl.truststore.location": str(certificates.authority),
    }


def test_spark_reads_streams_and_writes_over_tls_after_a_login(
    spark: SparkSession, secured: Secured, spark_options: dict[str, str], tmp_path: Path
) -> None:
    place = Place(secured.bootstrap)
    source, target = place.make_topic(2, configs=KEEP), place.make_topic(2)
    sent = without_headers(fill(secured.bootstrap, source, 60))
    read = spark.read.format("sordini").options(**spark_options, subscribe=source).load()
    assert rows(read) == sent
    streamed = Batches(tmp_path / "checkpoint")
    options = spark_options | {"subscribe": source, "startingOffsets": "earliest"}
    streamed.drain(spark.readStream.format("sordini").options(**options).load())
    assert streamed.everything == sent
    writer = read.select("key", "value").write.format("sordini").mode("append")
    writer.options(**spark_options, topic=target).save()
    assert values(secured.bootstrap, target) == sorted(row.value or "" for row in sent)


def test_spark_tells_of_a_wrong_password(spark: SparkSession, spark_options: dict[str, str]) -> None:
    from pyspark.errors import PySparkException

    options = spark_options | {"kafka.sasl.jaas.config": jaas(USER, "guessed"), "subscribe": "any"}
    with pytest.raises(PySparkException, match=f"refuses '{USER}' .SCRAM-SHA-512"):
        spark.read.format("sordini").options(**options).load().count()
