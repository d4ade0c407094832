"""A program: one client that meets a planted fault, with all that it prints.

    python client_program.py kafka-python|librdkafka|Java '{"bootstrap": ..., "properties": {...}, "act": "produce"}'

It writes one record to the topic `orders`, or reads that topic as a member of a group, for some `SECONDS`. Warnings
and errors of its log go to standard error as by default; what it raises in the end is the last line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SECONDS = 6
TOPIC, GROUP = "orders", "doctor-clients"
Properties = Mapping[str, str]


def say(text: str) -> None:
    """A line of its own, in one piece."""
    sys.stdout.write(f"{text}\n")


def token_of(properties: Properties) -> str:
    return Path(properties["sasl.oauthbearer.token.endpoint.url"].removeprefix("file://")).read_text().strip()


def login_of(properties: Properties) -> tuple[str, str]:
    found = re.findall(r'(?:username|password)="([^"]*)"', properties["sasl.jaas.config"])
    return found[0], found[1]


def kafka_python(bootstrap: str, properties: Properties, act: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s:%(name)s:%(message)s")
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "request_timeout_ms": 4_000}
    settings["bootstrap_timeout_ms"] = 8_000
    protocol = properties.get("security.protocol", "PLAINTEXT")
    settings["security_protocol"] = protocol
    if "SSL" in protocol:
        settings["ssl_cafile"] = properties["ssl.truststore.location"]
        if "ssl.keystore.location" in properties:
            settings["ssl_certfile"] = settings["ssl_keyfile"] = properties["ssl.keystore.location"]
        if properties.get("ssl.enabled.protocols") == "TLSv1.2":
            import ssl

            context = ssl.create_default_context(cafile=properties["ssl.truststore.location"])
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            settings["ssl_context"] = context
    if "SASL" in protocol:
        settings["sasl_mechanism"] = properties["sasl.mechanism"]
        if properties["sasl.mechanism"] == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _provider(token_of(properties))
        else:
            settings["sasl_plain_username"], settings["sasl_plain_password"] = login_of(properties)
    if act == "produce":
        producer = KafkaProducer(**settings, max_block_ms=SECONDS * 1000, linger_ms=0, delivery_timeout_ms=5_000)
        producer.send(TOPIC, b"x").get(timeout=SECONDS)
        return
    consumer = KafkaConsumer(
        TOPIC, **settings | {"request_timeout_ms": 11_000}, group_id=GROUP, consumer_timeout_ms=SECONDS * 1000
    )
    say(f"read {len(list(consumer))} records")


def _provider(token: str) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return token

    return Provider()


def librdkafka(bootstrap: str, properties: Properties, act: str) -> None:
    from confluent_kafka import Consumer, Producer

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "error_cb": lambda error: say(f"ERROR {error.str()}")}
    protocol = properties.get("security.protocol", "PLAINTEXT")
    settings["security.protocol"] = protocol
    if "SSL" in protocol:
        settings["ssl.ca.location"] = properties["ssl.truststore.location"]
        if "ssl.keystore.location" in properties:
            settings["ssl.certificate.location"] = properties["ssl.keystore.location"]
            settings["ssl.key.location"] = properties["ssl.keystore.location"]
        if properties.get("ssl.enabled.protocols") == "TLSv1.2":
            # It has no key for the newest version; OpenSSL's configuration of the process does it.
            settings["ssl.cipher.suites"] = "ECDHE-ECDSA-AES128-GCM-SHA256"
    if "SASL" in protocol:
        settings["sasl.mechanism"] = properties["sasl.mechanism"]
        if properties["sasl.mechanism"] == "OAUTHBEARER":
            token = token_of(properties)
            settings["oauth_cb"] = lambda _: (token, time.time() + 600)
        else:
            settings["sasl.username"], settings["sasl.password"] = login_of(properties)
    if act == "produce":
        producer = Producer(settings | {"message.timeout.ms": 5_000})
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: say(f"DELIVERY {error}"))
        say(f"left {producer.flush(SECONDS)}")
        return
    consumer = Consumer(settings | {"group.id": GROUP})
    consumer.subscribe([TOPIC])
    message = consumer.poll(SECONDS)
    say(f"POLL {message.error() if message is not None else None}")


def java(bootstrap: str, properties: Properties, act: str, jars: list[str], log4j: str) -> None:
    import jpype

    jpype.startJVM(
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Dlog4j.configuration=file:{log4j}",
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + properties.get("sasl.oauthbearer.token.endpoint.url", ""),
        classpath=jars,
    )
    settings = jpype.JClass("java.util.Properties")()
    text = "org.apache.kafka.common.serialization.String"
    both = {
        "bootstrap.servers": bootstrap,
        "request.timeout.ms": "2500",
        "socket.connection.setup.timeout.ms": "2000",
        "key.serializer": f"{text}Serializer",
        "value.serializer": f"{text}Serializer",
        "key.deserializer": f"{text}Deserializer",
        "value.deserializer": f"{text}Deserializer",
        "max.block.ms": "4000",
        "delivery.timeout.ms": "4000",
        "linger.ms": "0",
        "group.id": GROUP,
    }
    if properties.get("sasl.mechanism") == "OAUTHBEARER":
        module = "org.apache.kafka.common.security.oauthbearer"
        both["sasl.login.callback.handler.class"] = f"{module}.OAuthBearerLoginCallbackHandler"
        both["sasl.jaas.config"] = f"{module}.OAuthBearerLoginModule required;"
    for key, value in (both | dict(properties)).items():
        settings.setProperty(key, value)
    try:
        if act == "produce":
            producer = jpype.JClass("org.apache.kafka.clients.producer.KafkaProducer")(settings)
            record = jpype.JClass("org.apache.kafka.clients.producer.ProducerRecord")(TOPIC, "x")
            producer.send(record).get()
            return
        settings.remove("delivery.timeout.ms")
        consumer = jpype.JClass("org.apache.kafka.clients.consumer.KafkaConsumer")(settings)
        consumer.subscribe(jpype.JClass("java.util.List").of(TOPIC))
        duration = jpype.JClass("java.time.Duration")
        say(f"POLL {consumer.poll(duration.ofSeconds(SECONDS)).count()}")
    except jpype.JException as error:
        say(f"RAISED {error.toString()}")
        cause = error.getCause()
        while cause is not None:
            say(f"CAUSED BY {cause.toString()}")
            cause = cause.getCause()


def main() -> None:
    client, given = sys.argv[1], json.loads(sys.argv[2])
    programs: dict[str, Callable[..., None]] = {"kafka-python": kafka_python, "librdkafka": librdkafka, "Java": java}
    try:
        programs[client](**given)
    except Exception as error:  # noqa: BLE001 - whatever the client raises is what is collected.
        say(f"RAISED {type(error).__name__}: {error}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    # Threads of clients may wait for what never comes.
    import os

    os._exit(0)
