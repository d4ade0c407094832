"""Passwords that are set at run time, and kept encrypted."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig
from sordini.broker.configuration.edits import Edit, Operation, edit_broker
from sordini.broker.configuration.keys.password_encoder_keys import CIPHER, ITERATIONS_MAX, PASSWORDS_MAX
from sordini.broker.configuration.password_encoder import PasswordEncoder
from sordini.broker.configuration.settings import ConfigError
from sordini.protocol.errors import BrokerError, ErrorCode

KEY = "listener.name.in.ssl.keystore.password"
LISTENERS = {"listeners": "PLAINTEXT://:1,IN://:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SSL"}
OF_BROKER = ConfigSource.DYNAMIC_BROKER


def dynamic(**keys: str) -> DynamicConfig:
    """With short derivations."""
    encoder = {f"password.encoder.{key}": text for key, text in keys.items()}
    return DynamicConfig(build_config(LISTENERS | {"password.encoder.iterations": "1024"} | encoder)[0])


def encoder(**keys: str) -> PasswordEncoder:
    return dynamic(**keys).encoder


def fields_of(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split(","))


SECRETIVE = encoder(secret="s")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decrypting_undoes_encrypting(password: str) -> None:
    assert SECRETIVE.decode(SECRETIVE.encode(password)) == password


def test_a_password_is_in_the_format_of_apache_kafka() -> None:
    found = fields_of(
        encoder(
            secret="s", iterations="2048", **{"key.length": "256", "keyfactory.algorithm": "PBKDF2WithHmacSHA1"}
        ).encode("p\U0001f600")
    )
    assert {name: text for name, text in found.items() if len(text) < 24} == {
        "keyFactoryAlgorithm": "PBKDF2WithHmacSHA1",
        "cipherAlgorithm": CIPHER,
        "keyLength": "256",
        "iterations": "2048",
        "passwordLength": "3",
    }
    assert {name for name, text in found.items() if len(text) >= 24} == {
        "salt",
        "initializationVector",
        "encryptedPassword",
    }
    assert (
        fields_of(PasswordEncoder(build_config({"password.encoder.secret": "s"})[0]).encode("p"))["iterations"]
        == "4096"
    )
    assert SECRETIVE.encode("p") != SECRETIVE.encode("p"), "the salt and the vector are random"


def test_what_another_secret_has_encrypted_is_read_with_the_former_one_only() -> None:
    text = encoder(secret="former").encode("hush-hush")
    assert encoder(secret="new", **{"old.secret": "former"}).decode(text) == "hush-hush"
    assert encoder(**{"old.secret": "former"}).decode(text) == "hush-hush"
    assert not encoder(**{"old.secret": "former"}).can_encode
    for other in (encoder(secret="new"), encoder(secret="", **{"old.secret": "new"}), encoder()):
        with pytest.raises(ConfigError, match=r"^it (cannot be decrypted|is encrypted)") as refusal:
            other.decode(text)
        assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"keyFactoryAlgorithm": "PBKDF2WithHmacMD5"},
        {"cipherAlgorithm": "AES/ECB/PKCS5Padding"},
        {"cipherAlgorithm": "DES/CBC/PKCS5Padding"},
        {"keyLength": "64"},
        {"keyLength": "x"},
        {"iterations": "0"},
        {"iterations": str(ITERATIONS_MAX + 1)},
        {"salt": "?"},
        {"initializationVector": "AAAA"},
        {"encryptedPassword": "AAAA"},
        {"encryptedPassword": ""},
        {"passwordLength": "8"},
        {"passwordLength": ""},
    ],
)
def test_a_damaged_password_is_ignored_with_a_reason(changed: dict[str, str]) -> None:
    found = fields_of(SECRETIVE.encode("hush-hush"))
    good = ",".join(f"{name}:{text}" for name, text in found.items())
    assert SECRETIVE.decode(good) == "hush-hush"
    bad = ",".join(f"{name}:{text}" for name, text in (found | changed).items())
    for text in (bad, "", "hush-hush", ","):
        with pytest.raises(ConfigError, match=r"^it cannot be decrypted"):
            SECRETIVE.decode(text)


def test_what_only_the_former_secret_decrypts_is_renewed() -> None:
    both = encoder(secret="new", **{"old.secret": "former"})
    assert both.can_renew
    renewed = both.renew(encoder(secret="former").encode("hush-hush"))
    assert renewed is not None
    assert encoder(secret="new").decode(renewed) == "hush-hush"
    for text in (renewed, encoder(secret="another").encode("hush-hush"), "hush-hush", ""):
        assert both.renew(text) is None
    for other in (encoder(), encoder(secret="new"), encoder(**{"old.secret": "former"})):
        assert not other.can_renew


def test_what_neither_secret_decrypts_is_said_to_be_so() -> None:
    with pytest.raises(ConfigError, match=r"with password\.encoder\.secret, nor with password\.encoder\.old\.secret$"):
        encoder(secret="new", **{"old.secret": "former"}).decode(encoder(secret="another").encode("p"))


def test_a_key_that_takes_long_to_derive_is_not_derived() -> None:
    config = build_config({"password.encoder.secret": "s"})[0]
    slow = PasswordEncoder(dataclasses.replace(config, password_encoder_iterations=ITERATIONS_MAX + 1)).encode("p")
    with pytest.raises(ConfigError, match=r"^it cannot be decrypted"):
        SECRETIVE.decode(slow)


def test_a_password_that_is_set_at_run_time_is_stored_encrypted_and_has_effect() -> None:
    config = dynamic(secret="s")
    edits = [Edit(KEY, Operation.SET, "hush-hush"), Edit("message.max.bytes", Operation.SET, "99999")]
    stored = edit_broker({}, edits, is_default=False, encoder=config.encoder)
    assert "hush" not in repr(stored)
    assert stored["message.max.bytes"] == "99999"
    config.check(OF_BROKER, stored)
    assert config.set_layer(OF_BROKER, stored) == []
    password = config.config.listener("IN").keys.ssl_keystore_password
    assert password is not None
    assert password.text == "hush-hush"
    assert config.entries(OF_BROKER) == stored
    more = edit_broker(
        stored, [Edit("message.max.bytes", Operation.SET, "1")], is_default=False, encoder=config.encoder
    )
    assert more[KEY] == stored[KEY], "what another edit leaves is not encrypted twice"
    assert edit_broker(
        stored, [Edit(KEY, Operation.DELETE, None)], is_default=False, encoder=config.encoder
    ).keys() == {"message.max.bytes"}


def test_without_a_secret_or_for_all_brokers_a_password_is_refused() -> None:
    for config, code in ((dynamic(), ErrorCode.INVALID_CONFIG), (dynamic(secret=""), ErrorCode.INVALID_CONFIG)):
        with pytest.raises(BrokerError, match=r"password\.encoder\.secret is not set") as refusal:
            edit_broker({}, [Edit(KEY, Operation.SET, "hush-hush")], is_default=False, encoder=config.encoder)
        assert refusal.value.code == code
        assert "hush" not in str(refusal.value)
    with pytest.raises(BrokerError, match="for one broker only"):
        edit_broker({}, [Edit(KEY, Operation.SET, "hush-hush")], is_default=True, encoder=SECRETIVE)
    for never in ("password.encoder.secret", "delegation.token.master.key", "zookeeper.ssl.keystore.password"):
        with pytest.raises(BrokerError):
            edit_broker({}, [Edit(never, Operation.SET, "hush-hush")], is_default=False, encoder=SECRETIVE)


def test_a_password_in_plain_text_or_of_another_secret_in_the_store_is_ignored() -> None:
    config = dynamic(secret="s")
    for text in ("hush-hush", encoder(secret="other").encode("hush-hush")):
        (ignored,) = config.set_layer(OF_BROKER, {KEY: text})
        assert ignored == (KEY, "it cannot be decrypted with password.encoder.secret")
        assert config.config.listener("IN").keys.ssl_keystore_password is None


def test_a_broker_has_so_many_passwords() -> None:
    keys = [f"listener.name.l{number}.ssl.key.password" for number in range(PASSWORDS_MAX + 1)]
    text = SECRETIVE.encode("p")
    full = dict.fromkeys(keys[:-1], text)
    with pytest.raises(BrokerError, match=f"at most {PASSWORDS_MAX} passwords"):
        edit_broker(full, [Edit(keys[-1], Operation.SET, "p")], is_default=False, encoder=SECRETIVE)
    edit_broker(full, [Edit(keys[0], Operation.SET, "p")], is_default=False, encoder=SECRETIVE)
    (ignored,) = dynamic(secret="s").set_layer(OF_BROKER, full | {keys[-1]: text})
    assert f"more than {PASSWORDS_MAX}" in ignored.reason


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cipher.algorithm", "AES/GCM/NoPadding"),
        ("keyfactory.algorithm", "PBKDF2WithHmacMD5"),
        ("key.length", "100"),
        ("iterations", "1023"),
        ("iterations", str(ITERATIONS_MAX + 1)),
        ("secrets", "x"),
    ],
)
def test_another_way_to_encrypt_refuses_the_start(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"^password.encoder.{key}"):
        build_config({f"password.encoder.{key}": text})
