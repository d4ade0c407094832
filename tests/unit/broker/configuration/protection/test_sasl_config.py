"""Keys of SASL: which go together, and JAAS lines."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import Config, build_config
from sordini.broker.configuration.protection.oauthbearer_config import oauthbearer_settings
from sordini.broker.configuration.protection.sasl_config import mechanisms_of, own_login
from sordini.broker.configuration.settings import ConfigError
from sordini.client.file_urls import file_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LINE = f'{PLAIN} required username="broker" password="broker-pw" user_alice="alice-pw" user_broker="broker-pw";'
LISTENERS = {"listeners": "PLAINTEXT://:9092,CLIENT://:9093", "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT"}
LISTENERS["listener.security.protocol.map"] += ",PLAINTEXT:PLAINTEXT"
BASE = LISTENERS | {"sasl.enabled.mechanisms": "PLAIN", "listener.name.client.plain.sasl.jaas.config": LINE}


def built(**changes: str | None) -> Config:
    entries = BASE | {key: text for key, text in changes.items() if text is not None}
    return build_config({key: text for key, text in entries.items() if changes.get(key, "") is not None})[0]


def test_a_listener_has_its_mechanisms_and_its_lines() -> None:
    config = built(**{"listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"})
    assert mechanisms_of(config.listener("CLIENT")) == ["SCRAM-SHA-512", "PLAIN"]
    assert own_login(config) is None, "the brokers' listener is PLAINTEXT"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sasl.enabled.mechanisms": ""}, "not valid for the listener CLIENT"),
        ({"sasl.enabled.mechanisms": "PLAIN,X"}, "a comma-separated list of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, r"Kerberos \(GSSAPI\) is not served"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, r"Kerberos \(GSSAPI\) is not served"),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "allowed is one of PLAIN, SCRAM-SHA-256"),
        ({"delegation.token.master.key": "x-pw"}, "asks for delegation tokens: this broker has none"),
        ({"delegation.token.secret.key": "x-pw"}, "asks for delegation tokens: this broker has none"),
        ({"listener.name.client.plain.sasl.jaas.config": None}, "takes PLAIN and knows no users"),
        ({"listener.name.client.plain.sasl.jaas.config": f"{PLAIN} required;"}, "takes PLAIN and knows no users"),
        ({"listener.name.client.plain.sasl.jaas.config": f"{SCRAM} required;"}, f"is not valid for PLAIN: .*{PLAIN}"),
        ({"listener.name.client.plain.sasl.jaas.config": "com.sun.JndiLoginModule required;"}, "not valid for PLAIN"),
        ({"inter.broker.listener.name": "CLIENT"}, "sasl.mechanism.inter.broker.protocol='' is not valid"),
        (
            {"inter.broker.listener.name": "CLIENT", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"},
            r"allowed is a mechanism of the listener CLIENT \(PLAIN\)",
        ),
        ({"listeners": "PLAINTEXT://:9092"}, "allowed is that only with a listener of SASL_PLAINTEXT or SASL_SSL"),
    ],
)
def test_keys_that_do_not_go_together_refuse_the_start_without_showing_a_password(
    changes: dict[str, str | None], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        built(**changes)
    assert "-pw" not in str(refused.value)


def test_a_broker_logs_in_to_others_by_the_line_of_their_listener() -> None:
    config = built(**{"inter.broker.listener.name": "CLIENT", "sasl.mechanism.inter.broker.protocol": "PLAIN"})
    login = own_login(config)
    assert login == ("PLAIN", "broker", "broker-pw")
    assert "broker-pw" not in repr(login)


JWKS = "sasl.oauthbearer.jwks.endpoint.url"
BEARER = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
URL = "https://issuer.example/keys"
ALLOWED = {"sordini.oauthbearer.allowed.urls": f"http://other.example/keys, {URL}"}
VALIDATOR = "org.apache.kafka.common.security.oauthbearer"


@pytest.mark.parametrize("prefix", ["", "listener.name.client.", "listener.name.client.oauthbearer."])
@pytest.mark.parametrize(
    "url", ["file:///etc/keys.json", "file:/etc/keys.json", "file://localhost/a%20b", URL, "http://other.example/keys"]
)
def test_a_key_set_is_in_a_file_or_at_a_url_that_is_allowed(prefix: str, url: str) -> None:
    config = built(**BEARER, **ALLOWED, **{prefix + JWKS: url})
    security = config.listener("CLIENT")
    assert mechanisms_of(security) == ["PLAIN", "OAUTHBEARER"]
    assert oauthbearer_settings(security).oauthbearer_jwks_endpoint_url == url
    if "%20" in url:
        assert file_of(url) == "/a b"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "the listener CLIENT takes OAUTHBEARER and has no keys to verify tokens with"),
        ({JWKS: ""}, "has no keys to verify tokens with"),
        ({"listener.name.client.plain." + JWKS: "file:///keys"}, "has no keys to verify tokens with"),
        ({"listener.name.plaintext." + JWKS: "file:///keys"}, "has no keys to verify tokens with"),
        ({JWKS: URL}, r"allowed is a URL of sordini\.oauthbearer\.allowed\.urls \(\)"),
        ({JWKS: URL + "/", **ALLOWED}, r"allowed is a URL of sordini\.oauthbearer\.allowed\.urls"),
        ({JWKS: URL[:-1], **ALLOWED}, r"allowed is a URL of sordini\.oauthbearer\.allowed\.urls"),
        ({JWKS: URL.upper(), **ALLOWED}, r"allowed is a URL of sordini\.oauthbearer\.allowed\.urls"),
        ({JWKS: "file://other.example/keys"}, "file:///path with an absolute path"),
        ({JWKS: "file:keys.json"}, "file:///path with an absolute path"),
        ({JWKS: "file:///keys%00"}, "file:///path with an absolute path"),
        ({JWKS: "/etc/keys.json"}, "file:///path, or an https or http URL"),
        ({JWKS: "ftp://h/keys", "sordini.oauthbearer.allowed.urls": "ftp://h/keys"}, "an https or http URL"),
        ({JWKS: "https://u:x-pw@h/k", "sordini.oauthbearer.allowed.urls": "https://u:x-pw@h/k"}, "without a user name"),
        ({JWKS: "https:///k", "sordini.oauthbearer.allowed.urls": "https:///k"}, "an https or http URL"),
        ({JWKS: "https://[::1/k"}, "is not valid"),
        ({JWKS: "file:///k", "sasl.oauthbearer.clock.skew.seconds": "-1"}, "a whole number of at least 0"),
        ({JWKS: "file:///k", "sasl.oauthbearer.sub.claim.name": ""}, "the name of a claim"),
        ({JWKS: "file:///k", "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "a whole number of at least 1"),
        ({JWKS: "file:///k", "listener.name.client.oauthbearer.sasl.jaas.config": LINE}, "not valid for OAUTHBEARER"),
        (
            {JWKS: "file:///k", "sasl.server.callback.handler.class": f"{VALIDATOR}.OAuthBearerUnsecuredX"},
            "allowed is org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        ),
    ],
)
def test_a_listener_that_takes_tokens_without_keys_to_verify_them_refuses_the_start(
    changes: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        built(**(BEARER | changes))


@pytest.mark.parametrize("package", ["", ".secured"])
def test_what_a_file_of_apache_kafka_has_for_tokens_starts_a_broker(package: str) -> None:
    of_mechanism = "listener.name.client.oauthbearer.sasl."
    built(
        **BEARER,
        **{
            JWKS: "file:///keys",
            f"{of_mechanism}jaas.config": f"{VALIDATOR}.OAuthBearerLoginModule required;",
            f"{of_mechanism}server.callback.handler.class": f"{VALIDATOR}{package}.OAuthBearerValidatorCallbackHandler",
        },
    )
