"""How options become settings, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials
from sordini.pipeline.source.client import BadSetting, ClientSettings
from sordini.pipeline.source.client.settings import Pem, parse_servers

SERVERS = {"kafka.bootstrap.servers": "one:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="secret";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="secret";'


def read(**options: str) -> ClientSettings:
    return ClientSettings.from_options(SERVERS | {f"kafka.{key.replace('_', '.')}": options[key] for key in options})


def refusal(**options: str) -> str:
    with pytest.raises(BadSetting) as caught:
        read(**options)
    return str(caught.value)


def test_brokers_are_given_as_host_and_port() -> None:
    assert parse_servers(" one:1, PLAINTEXT://two:2,[::1]:3 ,four") == [
        Address("one", 1),
        Address("two", 2),
        Address("::1", 3),
        Address("four", 9092),
    ]


@pytest.mark.parametrize("servers", ["", " , ", "one:0", "one:65536", "one:x", ":9092"])
def test_what_is_no_address_is_refused(servers: str) -> None:
    with pytest.raises(BadSetting, match="bootstrap"):
        ClientSettings.from_options({"kafka.bootstrap.servers": servers})


def test_names_are_read_in_any_case_and_only_those_of_kafka() -> None:
    settings = ClientSettings.from_options({"Kafka.Bootstrap.Servers": "one", "subscribe": "t", "KAFKA.CLIENT.ID": "x"})
    assert settings.client_id == "x"


def test_settings_survive_the_way_to_a_worker() -> None:
    settings = read(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="ann", sasl_password="secret")
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_no_secret_is_printed() -> None:
    settings = read(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="ann",
        sasl_password="hidden",
        ssl_keystore_key="hidden",
        ssl_keystore_certificate_chain="hidden",
        ssl_key_password="hidden",
    )
    assert "hidden" not in repr(settings)


def test_limits_are_taken_from_the_consumers_options() -> None:
    limits = read(
        request_timeout_ms="70000", max_partition_fetch_bytes="100", fetch_max_bytes="50", fetch_max_wait_ms="0"
    ).limits
    assert (limits.request_ms, limits.api_ms, limits.fetch_bytes, limits.fetch_wait_ms) == (70_000, 70_000, 50, 0)


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "2147483648", ""])
def test_a_number_that_is_none_is_refused(value: str) -> None:
    assert "kafka.max.partition.fetch.bytes" in refusal(max_partition_fetch_bytes=value)


def test_an_unknown_option_is_refused_with_the_one_that_may_be_meant() -> None:
    assert refusal(fetch_max_byte="1") == (
        "kafka.fetch.max.byte: no Kafka client has such an option (did you mean kafka.fetch.max.bytes?)"
    )
    assert refusal(colour="1") == "kafka.colour: no Kafka client has such an option"


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "key.deserializer", "transactional.id"])
def test_options_that_are_the_sources_own_are_refused_with_the_reason(name: str) -> None:
    assert "no Kafka client" not in refusal(**{name: "x"})


def test_options_without_effect_are_accepted_and_listed() -> None:
    assert read(max_poll_records="5000", session_timeout_ms="1").ignored == ("max.poll.records", "session.timeout.ms")


@pytest.mark.parametrize(("mechanism", "line"), [("PLAIN", PLAIN), ("SCRAM-SHA-512", SCRAM)])
def test_a_login_is_read_from_a_jaas_line(mechanism: str, line: str) -> None:
    settings = read(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=line)
    assert settings.sasl == SaslCredentials(mechanism, "ann", "secret")
    assert settings.tls is None


def test_a_jaas_line_keeps_what_is_quoted() -> None:
    line = PLAIN.replace('"secret"', r'"a;b \"c\" \\ = d"').replace('"ann"', "'ann'") + "\n"
    settings = read(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=line)
    assert settings.sasl == SaslCredentials("PLAIN", "ann", r'a;b "c" \ = d')


@pytest.mark.parametrize(
    "line",
    [
        PLAIN.removesuffix(";"),
        PLAIN.replace("required", ""),
        PLAIN.replace("required", "perhaps"),
        PLAIN.replace("PlainLoginModule", "Krb5LoginModule"),
        PLAIN.replace('username="ann"', ""),
        PLAIN.replace('password="secret"', ""),
        PLAIN.replace('username="ann"', 'username="ann'),
        PLAIN.replace('username="ann"', "ann"),
    ],
)
def test_a_jaas_line_that_cannot_be_read_is_refused_and_not_repeated(line: str) -> None:
    text = refusal(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=line)
    assert "kafka.sasl.jaas.config" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "it needs kafka.sasl.jaas.config"),
        ({"sasl_username": "ann"}, "kafka.sasl.mechanism is ''"),
        ({"sasl_username": "ann", "sasl_mechanism": "GSSAPI"}, "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl_jaas_config": SCRAM, "sasl_mechanism": "PLAIN"}, "is SCRAM's"),
        ({"sasl_jaas_config": SCRAM}, "'SCRAM'"),
        ({"sasl_jaas_config": PLAIN, "sasl_username": "ann"}, "goes without"),
        ({"security_protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ],
)
def test_a_login_that_is_incomplete_or_contradicts_itself_is_refused(options: dict[str, str], text: str) -> None:
    assert text in refusal(**({"security_protocol": "SASL_SSL"} | options))


def test_certificates_are_pem_as_text_or_in_files() -> None:
    tls = read(
        security_protocol="ssl",
        ssl_truststore_type="PEM",
        ssl_truststore_location="ca.pem",
        ssl_keystore_certificate_chain="CHAIN",
        ssl_keystore_key="KEY",
        ssl_endpoint_identification_algorithm="",
    ).tls
    assert tls is not None
    assert (tls.authorities, tls.certificate, tls.key) == (Pem(path="ca.pem"), Pem(text="CHAIN"), Pem(text="KEY"))
    assert not tls.checks_host
    names = {"ssl_ca_location": "a", "ssl_certificate_location": "b", "ssl_key_location": "c"}
    tls = read(security_protocol="SSL", **names).tls
    assert tls is not None
    assert (tls.authorities.path, tls.certificate.path, tls.key.path, tls.checks_host) == ("a", "b", "c", True)


def test_javas_key_stores_are_refused_with_the_way_to_pem() -> None:
    for options in ({"ssl_truststore_type": "JKS"}, {"ssl_truststore_location": "trust.jks"}):
        assert "keytool" in refusal(security_protocol="SSL", **options)


def test_two_sources_of_one_certificate_are_refused() -> None:
    text = refusal(ssl_truststore_location="a", ssl_truststore_certificates="b")
    assert text == "only one of these can be given: kafka.ssl.truststore.certificates, kafka.ssl.truststore.location"
