"""Clusters of the kit with TLS and logins, and with several listeners."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import KafkaError, Producer

from sordini.testing import Kafka, Sasl, make_kafka


def sent(kafka: Kafka, settings: dict[str, object], topic: str) -> int | None:
    """The code of the error of one record; None when it was sent."""
    codes: list[int | None] = []
    one = Producer({**settings, "message.timeout.ms": 1_000, "log_level": 0})
    one.produce(topic, b"one", on_delivery=lambda error, _: codes.append(None if error is None else error.code()))
    one.flush(20)
    return codes[0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in_over_tls_and_a_wrong_password_is_refused(mechanism: str) -> None:
    with make_kafka(tls=True, sasl=Sasl({"alice": "secret"}, [mechanism])) as kafka:
        orders = kafka.topic()
        settings = kafka.client_settings("alice")
        assert settings["security.protocol"] == "sasl_ssl"
        assert settings["sasl.mechanism"] == mechanism
        assert sent(kafka, settings, orders) is None
        assert sent(kafka, settings | {"sasl.password": "guess"}, orders) == KafkaError._MSG_TIMED_OUT
        kafka.assert_produced(orders, ["one"])


async def test_aiokafka_trusts_the_authority_by_its_file() -> None:
    with make_kafka(tls=True, topics=["orders"]) as kafka:
        context = create_ssl_context(cafile=kafka.ca_file)
        async with AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap_servers, security_protocol="SSL", ssl_context=context
        ) as producer:
            await producer.send_and_wait("orders", b"one")
        kafka.assert_produced("orders", ["one"])


def test_with_mutual_tls_a_client_without_a_certificate_is_refused() -> None:
    with make_kafka(tls="mutual", topics=["orders"]) as kafka:
        settings = kafka.client_settings()
        assert sent(kafka, settings, "orders") is None
        bare = {key: value for key, value in settings.items() if not key.startswith(("ssl.key", "ssl.certificate"))}
        assert sent(kafka, bare, "orders") == KafkaError._MSG_TIMED_OUT


def test_each_listener_has_its_own_protocol() -> None:
    listeners = {"INSIDE": "PLAINTEXT", "OUTSIDE": "SASL_SSL"}
    with make_kafka(3, listeners=listeners, tls=True, sasl={"alice": "secret"}, topics=["orders"]) as kafka:
        assert kafka.bootstrap_servers == kafka.bootstrap_of("INSIDE")
        assert sent(kafka, {"bootstrap.servers": kafka.bootstrap_servers}, "orders") is None
        assert sent(kafka, kafka.client_settings("alice", listener="OUTSIDE"), "orders") is None
        with kafka.on("Produce", times=1).fail("INVALID_RECORD"):
            assert sent(kafka, kafka.client_settings("alice", listener="OUTSIDE"), "orders") is not None
        with pytest.raises(ValueError, match="listener 'ASIDE': allowed are INSIDE, OUTSIDE"):
            kafka.bootstrap_of("ASIDE")


def test_the_authoritys_file_is_gone_with_the_cluster() -> None:
    with make_kafka(tls=True) as kafka:
        path = kafka.ca_file
        assert ssl.create_default_context(cafile=path).get_ca_certs()
    assert not Path(path).exists()


def test_wrong_settings_of_security_are_refused() -> None:
    with pytest.raises(ValueError, match="tls='maybe': allowed is one of True, False, 'mutual'"):
        make_kafka(tls="maybe")
    with pytest.raises(ValueError, match="mechanisms='GSSAPI': allowed are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        make_kafka(sasl=Sasl({"alice": "secret"}, ["GSSAPI"]))
    with pytest.raises(ValueError, match=r"listeners\['X'\]='TLS': allowed are PLAINTEXT, SSL"):
        make_kafka(listeners={"X": "TLS"})
    with make_kafka() as kafka, pytest.raises(ValueError, match=r"no TLS listener: make_kafka\(tls=True\)"):
        _ = kafka.ca_file
