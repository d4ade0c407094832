"""Real clients that log in with tokens (OAUTHBEARER): what they write they read, and other tokens are refused."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import TopicAuthorizationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.compat import round_trips
from tests.outside.bearer_broker import JAAS, Make, Secured, alices
from tests.outside.tools import JavaTools
from tests.support.token_issuer import claims, jwk, key_set, token

DEADLINE_S = 60


class Provider(AbstractTokenProvider):
    """kafka-python's."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def token(self) -> str:
        return self._make()

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123", "tenant": "a b"}


class AioProvider(AioTokenProvider):
    """aiokafka's."""

    def __init__(self, make: Make) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("bearer"))
    with made.broker:
        made.prepare()
        yield made


def test_a_broker_without_tokens_loads_nothing_for_them() -> None:
    names = "{'jwt', 'http.client', 'urllib.request'}"
    script = f"import sys, sordini.broker.process.broker_process; print({names} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    assert done.stdout == "set()\n"


def test_kafka_python_reads_what_it_wrote(secured: Secured, topic: str) -> None:
    round_trips.by_kafka_python(topic, secured.python(Provider(alices)))


async def test_aiokafka_reads_what_it_wrote(secured: Secured, topic: str) -> None:
    await round_trips.by_aiokafka(topic, secured.python(AioProvider(alices)))


def test_confluent_kafka_reads_what_it_wrote(secured: Secured, topic: str) -> None:
    round_trips.by_librdkafka(topic, secured.librdkafka(alices))


def test_java_tools_read_what_they_wrote_with_the_token_of_a_file(
    secured: Secured, topic: str, tool: JavaTools
) -> None:
    properties = secured.properties(
        "java",
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={JAAS}.oauthbearer.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={secured.token_file('java', alices()).as_uri()}\n",
    )
    round_trips.by_java_tools(topic, tool, secured.bootstrap, str(properties))


def write_with_short_tokens(secured: Secured, topic: str, life_s: int) -> tuple[bool, list[Any], list[Any]]:
    """Write until a fourth token was made: whether it was, what was not delivered, and the client's errors."""
    made: list[int] = []

    def make(_: str) -> tuple[str, float]:
        made.append(int(time.time()) + life_s)
        return token(claims(time.time(), exp=made[-1])), made[-1]

    failures: list[Any] = []
    settings = secured.librdkafka(alices) | {"oauth_cb": make, "error_cb": failures.append, "log_level": 0}
    producer = Producer(settings)
    delivered: list[Any] = []
    deadline_s, sent = time.monotonic() + DEADLINE_S, 0
    while len(made) < 4 and time.monotonic() < deadline_s:
        producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: delivered.append(error))
        sent += 1
        producer.poll(0.1)
    left = producer.flush(30)
    assert len(delivered) + left == sent
    return len(made) >= 4, [None] * left + [error for error in delivered if error is not None], failures


def test_a_client_authenticates_again_with_a_new_token_before_the_former_ends(secured: Secured, topic: str) -> None:
    """KIP-368: no request fails while tokens of some seconds follow each other on one connection.

    librdkafka has the last tenth of a life for it. On a busy machine that may be too little of five seconds: then
    tokens live twice as long, and with the longest nothing may fail.
    """
    for life_s in (5, 10, 20):
        came, lost, failures = write_with_short_tokens(secured, topic, life_s)
        if came and not lost and not failures:
            break
    assert (came, lost, failures) == (True, [], [])


BAD = {
    "expired": lambda: alices(-5),
    "not yet valid": lambda: alices(nbf=int(time.time()) + 300),
    "of another issuer": lambda: alices(iss="https://evil.example"),
    "for another audience": lambda: alices(aud="other"),
    "without a name": lambda: alices(sub=None),
    "of a name with a line break": lambda: alices(sub="alice\nUser:admin"),
    "of an unknown key": lambda: alices(algorithm="ES384"),
    "altered": lambda: alices()[:-10] + "AAAAAAAAAA",
}


@pytest.mark.parametrize("kind", BAD)
def test_another_token_is_refused_and_the_client_says_so(secured: Secured, kind: str) -> None:
    said: list[str] = []
    settings = secured.librdkafka(BAD[kind]) | {"error_cb": lambda error: said.append(error.name()), "log_level": 0}
    producer = Producer(settings)
    deadline_s = time.monotonic() + DEADLINE_S
    while not said and time.monotonic() < deadline_s:
        producer.poll(0.1)
    assert said[0] == "_AUTHENTICATION"
    if kind == "expired":
        with pytest.raises(KafkaPythonError):
            KafkaProducer(**secured.python(Provider(BAD[kind])), bootstrap_timeout_ms=1000)
        assert "it expired" in secured.broker.output()


def test_a_topic_without_an_entry_is_refused_to_the_principal_of_the_token(secured: Secured) -> None:
    producer = KafkaProducer(**secured.python(Provider(alices)), max_block_ms=3000)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("secrets", b"a guess").get(timeout=10)
    producer.close()


def test_keys_of_a_file_that_changes_are_used_without_a_restart(secured: Secured, topic: str) -> None:
    make = lambda: alices(algorithm="ES256")  # noqa: E731
    new = secured.keys.with_suffix(".new")
    new.write_bytes(key_set(jwk("rsa"), jwk("p256")))
    new.replace(secured.keys)
    deadline_s = time.monotonic() + DEADLINE_S
    while secured.broker.output().count("OAUTHBEARER keys loaded") < 2:
        assert time.monotonic() < deadline_s
    round_trips.by_kafka_python(topic, secured.python(Provider(make)))


def test_our_commands_log_in_with_the_token_of_a_file(secured: Secured, topic: str) -> None:
    path = secured.token_file("alice", alices())
    jaas = f'{JAAS}.oauthbearer.OAuthBearerLoginModule required oauth.access.token.location="{path}";'
    for name, text in (
        ("url", f"sasl.oauthbearer.token.endpoint.url={path.as_uri()}\n"),
        ("jaas", f"sasl.jaas.config={jaas}\n"),
    ):
        properties = secured.properties(name, f"sasl.mechanism=OAUTHBEARER\n{text}")
        if name == "url":
            assert secured.command(properties, "topics", "create", topic).returncode == 0
        produced = secured.command(properties, "produce", topic, text="figs\n")
        assert produced.returncode == 0, produced.stderr
        listed = secured.command(properties, "topics", "list")
        assert (topic in listed.stdout, "secrets" in listed.stdout) == (True, False), listed
    consumed = secured.command(properties, "consume", topic, "--from", "beginning", "--exit-at-end")
    assert consumed.stdout == "figs\nfigs\n", consumed.stderr


def test_our_commands_say_that_a_token_is_refused_and_end(secured: Secured, topic: str) -> None:
    path = secured.token_file("expired", alices(-5))
    properties = secured.properties(
        "expired", f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={path.as_uri()}\n"
    )
    for words in (("topics", "list"), ("produce", topic), ("consume", topic, "--from", "beginning", "--exit-at-end")):
        done = secured.command(properties, *words)
        assert done.returncode != 0
        assert 'refuses the token (OAUTHBEARER): {"status":"invalid_token"}' in done.stderr, (words, done)
