"""Keys of the protection of ZooKeeper: which go together, and that none is passed over."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.environment import environment_entries
from sordini.broker.configuration.keys.zookeeper_keys import KEYS, NETTY, NIO, read_zookeeper_settings
from sordini.broker.configuration.settings import ConfigError

CONNECT = {"zookeeper.connect": "h:2182"}
TLS = {"zookeeper.ssl.client.enable": "true"}
USER = {"sordini.zookeeper.auth.user": "broker", "sordini.zookeeper.auth.password.file": "/p"}
EXAMPLES = {
    "zookeeper.ssl.keystore.location": "/k.pem",
    "zookeeper.ssl.keystore.password": "hush-hush",
    "zookeeper.ssl.keystore.type": "PEM",
    "zookeeper.ssl.truststore.location": "/t.pem",
    "zookeeper.ssl.truststore.password": "hush-hush",
    "zookeeper.ssl.truststore.type": "PEM",
    "zookeeper.ssl.protocol": "TLSv1.3",
    "zookeeper.ssl.enabled.protocols": "TLSv1.3",
    "zookeeper.ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256",
    "zookeeper.ssl.endpoint.identification.algorithm": "",
}


def test_defaults_are_apache_kafkas() -> None:
    config, _ = build_config({})
    assert (config.zookeeper_set_acl, config.zookeeper_ssl_client_enable) == (False, False)
    assert (config.zookeeper_ssl_protocol, config.zookeeper_ssl_enabled_protocols) == ("TLSv1.2", "")
    assert config.zookeeper_ssl_endpoint_identification_algorithm == "HTTPS"


@pytest.mark.parametrize("login", [USER, {**TLS, "zookeeper.ssl.keystore.location": "/k.pem"}])
def test_access_control_lists_need_a_login(login: dict[str, str]) -> None:
    entries = {**CONNECT, "zookeeper.set.acl": "true"}
    for without in ({}, TLS, {**TLS, "zookeeper.ssl.truststore.location": "/t.pem"}):
        with pytest.raises(ConfigError, match=r"^zookeeper.set.acl=true needs a login"):
            build_config({**entries, **without})
    assert build_config({**entries, **login})[0].zookeeper_set_acl


@pytest.mark.parametrize("key", EXAMPLES)
def test_a_key_of_tls_without_tls_refuses_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key} asks for TLS; .* zookeeper.ssl.client.enable=true$") as refusal:
        build_config({**CONNECT, key: EXAMPLES[key]})
    assert "hush" not in str(refusal.value)
    build_config({**CONNECT, **TLS, key: EXAMPLES[key]})


@pytest.mark.parametrize("entries", [TLS, USER, {"zookeeper.clientCnxnSocket": NETTY}])
def test_protection_of_a_zookeeper_that_is_not_there_refuses_the_start(entries: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"allowed is that only with zookeeper.connect$"):
        build_config(entries)
    build_config({**CONNECT, **entries})


def test_tls_is_nettys_and_a_class_of_ones_own_is_refused() -> None:
    key = "zookeeper.clientCnxnSocket"
    build_config({**CONNECT, **TLS, key: NETTY})
    build_config({**CONNECT, key: NIO})
    with pytest.raises(ConfigError, match=r"ClientCnxnSocketNIO has no TLS: allowed is .*Netty"):
        build_config({**CONNECT, **TLS, key: NIO})
    with pytest.raises(ConfigError, match=r"zookeeper.clientCnxnSocket='x.Y' is not valid"):
        build_config({**CONNECT, key: "x.Y"})
    for name in ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "KAFKA_ZOOKEEPER_CLIENT_CNXN_SOCKET"):
        assert environment_entries({name: NETTY}) == {key: NETTY}


@pytest.mark.parametrize("which", ["keystore", "truststore"])
def test_the_type_of_a_store_is_set_or_the_end_of_its_name(which: str) -> None:
    location, kind = f"zookeeper.ssl.{which}.location", f"zookeeper.ssl.{which}.type"
    for path in ("/s.pem", "/S.P12", "/s.jks"):
        build_config({**CONNECT, **TLS, location: path})
    build_config({**CONNECT, **TLS, location: "/s", kind: "pkcs12"})
    with pytest.raises(ConfigError, match=rf"^{location}='/s' does not say its type"):
        build_config({**CONNECT, **TLS, location: "/s"})


def test_a_user_has_a_password_and_no_colon() -> None:
    for key, value in USER.items():
        with pytest.raises(ConfigError, match=r"go together$"):
            build_config({**CONNECT, key: value})
    for user in ("", "a:b"):
        with pytest.raises(ConfigError, match=r"^sordini.zookeeper.auth.user is not valid"):
            build_config({**CONNECT, **USER, "sordini.zookeeper.auth.user": user})


@pytest.mark.parametrize(
    "key",
    [
        "ZooKeeper.Set.Acl",
        "zookeeper.set.acls",
        "zookeeper.clientCnxnSockets",
        "sordini.zookeeper.auth.pasword.file",
        "zookeeper.ssl.key.password",
        "listener.name.client.zookeeper.ssl.client.enable",
        "listener.name.client.zookeeper.set.acl",
    ],
)
def test_a_misspelt_key_refuses_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=r"is not known: a key that may ask for protection"):
        build_config({**CONNECT, key: "true"})


def test_commands_read_the_same_keys_among_others_and_need_no_connect() -> None:
    settings = read_zookeeper_settings({"broker.id": "wrong", **TLS, **USER, "zookeeper.set.acl": "true"})
    assert (settings.zookeeper_set_acl, settings.zookeeper_auth_user) == (True, "broker")
    for wrong in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable", "zookeeper.set.acls"):
        with pytest.raises(ConfigError, match=wrong):
            read_zookeeper_settings({wrong: "true"})
    with pytest.raises(ConfigError, match=r"needs a login"):
        read_zookeeper_settings({"zookeeper.set.acl": "true"})
    assert read_zookeeper_settings({"zookeeper.connect": "h:1", "zookeeper.session.timeout.ms": "9"}) is not None


def test_no_key_is_changed_while_the_broker_runs() -> None:
    assert {declared.is_dynamic for _, declared in KEYS.values()} == {False}
