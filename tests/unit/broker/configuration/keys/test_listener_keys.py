"""Keys of one listener precede those of the broker, statically and at run time; a password is shown nowhere."""

from __future__ import annotations

import pytest

from sordini.broker.administration.described_settings import describe_entry
from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig, Synonym
from sordini.broker.configuration.edits import Edit, Operation, edit_broker
from sordini.broker.configuration.keys.listener_keys import find_listener_key
from sordini.broker.configuration.keys.security_keys import SecuritySettings
from sordini.broker.configuration.settings import Change, ConfigError, Prefix, ValueKind, settings_of
from sordini.broker.process.config_loading import read_entries
from sordini.protocol.errors import BrokerError, ErrorCode

OF_BROKER, OF_ALL = ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER
TWO = {"listeners": "PLAINTEXT://:1,In://:2", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SSL"}
WITH_SASL = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SASL_SSL", "sasl.enabled.mechanisms": "PLAIN"}
JAAS_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
PREFIXED = {key: row for key, (_, row) in settings_of(SecuritySettings).items() if row.prefix is not Prefix.NONE}
PASSWORDS = sorted(key for key, row in PREFIXED.items() if row.rule.kind is ValueKind.PASSWORD)
CLIENT_AUTH = "listener.name.in.ssl.client.auth"


def a_config(**entries: str) -> Config:
    return build_config(TWO | {key.replace("__", "."): text for key, text in entries.items()})[0]


def test_a_key_of_one_listener_precedes_the_brokers_for_this_listener_only() -> None:
    config = build_config(TWO | {"ssl.client.auth": "requested", CLIENT_AUTH: "required"})[0]
    assert config.listener("IN").keys.ssl_client_auth == "required"
    assert config.listener("PLAINTEXT").keys.ssl_client_auth == "requested"
    assert config.ssl_client_auth == "requested"


def test_names_of_listeners_are_not_case_sensitive() -> None:
    for key in ("listener.name.IN.ssl.client.auth", "LISTENER.NAME.In.SSL.client.auth"):
        config, unknown = build_config({**TWO, key: "required"})
        assert config.listener("IN").keys.ssl_client_auth == "required"
        assert unknown == []
    assert read_entries(None, [], {"KAFKA_LISTENER_NAME_IN_SSL_CLIENT_AUTH": "required"}) == {CLIENT_AUTH: "required"}


def test_the_longest_key_that_ends_a_name_is_meant() -> None:
    known = find_listener_key("listener.name.a.b.ssl.key.password")
    assert known is not None
    assert (known.listener, known.mechanism, known.setting.key) == ("A.B", None, "ssl.key.password")
    assert find_listener_key("listener.name.client.zookeeper.ssl.cipher.suites") is None
    assert find_listener_key("listener.name.ssl.client.auth") is None
    assert find_listener_key("ssl.client.auth") is None


def test_a_key_of_a_listener_that_does_not_exist_is_accepted_and_reported() -> None:
    config, unknown = build_config(TWO | {"listener.name.out.ssl.client.auth": "required", CLIENT_AUTH: "none"})
    assert config.keys_of_unknown_listeners == ["listener.name.out.ssl.client.auth"]
    assert unknown == []


@pytest.mark.parametrize("prefix", ["", "listener.name.in.", "listener.name.nowhere."])
def test_a_wrong_value_refuses_the_start_with_key_value_and_what_is_allowed(prefix: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build_config(TWO | {f"{prefix}ssl.client.auth": "Required"})
    assert str(refusal.value) == (
        f"{prefix}ssl.client.auth='Required' is not valid: allowed is one of required, requested, none"
    )


@pytest.mark.parametrize("key", ["security.inter.broker.protocol", "sordini.tls.handshakes.max"])
def test_a_key_of_the_broker_has_no_listener_prefix(key: str) -> None:
    _, unknown = build_config({**TWO, key: SETTINGS[key][1].default_text or ""})
    assert unknown == []
    assert find_listener_key(f"listener.name.in.{key}") is None


def test_the_brokers_listener_is_named_or_follows_from_the_protocol_between_brokers() -> None:
    assert a_config().inter_broker_listener == "PLAINTEXT"
    assert a_config(inter__broker__listener__name="In").inter_broker_listener == "IN"
    assert a_config(security__inter__broker__protocol="PLAINTEXT").inter_broker_listener == "PLAINTEXT"
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol='SSL' is not valid: .*PLAINTEXT, IN"):
        a_config(security__inter__broker__protocol="SSL")
    with pytest.raises(ConfigError, match="only one of"):
        a_config(security__inter__broker__protocol="PLAINTEXT", inter__broker__listener__name="IN")


@pytest.mark.parametrize("key", PASSWORDS)
def test_a_password_is_shown_nowhere(key: str) -> None:
    prefixed = f"listener.name.in.{key}"
    is_jaas = key == "sasl.jaas.config"
    one, two = ((JAAS_LINE if is_jaas else "{}").format(word) for word in ("hush-hush", "hush-now"))
    config = build_config({**TWO, **(WITH_SASL if is_jaas else {}), key: one, prefixed: two})[0]
    dynamic = DynamicConfig(config, frozenset({key}))
    assert "hush" not in repr(config)
    assert "hush" not in repr(config.listener("IN"))
    assert "hush" not in repr(dynamic.synonyms((key,)))
    assert "hush" not in repr(dynamic.static_overrides)
    for name in (key, prefixed):
        described = describe_entry(name, [Synonym(name, "x", OF_BROKER)])
        assert described.kind is ValueKind.PASSWORD
        with pytest.raises(BrokerError) as refusal:
            edit_broker({}, [Edit(name, Operation.SET, "hush-hush")], is_default=False)
        assert "hush" not in str(refusal.value)
    assert refusal.value.code == ErrorCode.INVALID_CONFIG
    (ignored,) = DynamicConfig(config).set_layer(OF_BROKER, {prefixed: "encrypted-hush"})
    assert ignored.reason == "it is encrypted, and password.encoder.secret is not set"


@pytest.mark.parametrize("key", sorted(PREFIXED))
def test_a_key_changes_at_run_time_where_apache_kafka_changes_it(key: str) -> None:
    row = PREFIXED[key]
    if row.rule.kind is ValueKind.PASSWORD:
        return
    text = "/a/file" if row.default_text is None else row.default_text
    taken = {
        (name, is_default)
        for name in (key, f"listener.name.in.{key}")
        for is_default in (False, True)
        if _is_taken(name, text, is_default=is_default)
    }
    prefixed = (f"listener.name.in.{key}", False)
    expected = {Change.NOWHERE: set(), Change.LISTENER: {prefixed}, Change.BROKER: {prefixed, (key, False)}}
    assert taken == expected[row.change]


def _is_taken(key: str, text: str, *, is_default: bool) -> bool:
    try:
        return edit_broker({}, [Edit(key, Operation.SET, text)], is_default=is_default) == {key: text}
    except BrokerError as refusal:
        return refusal.code != ErrorCode.INVALID_REQUEST


def test_a_wrong_value_is_refused_at_run_time() -> None:
    with pytest.raises(BrokerError, match="allowed is one of required") as refusal:
        edit_broker({}, [Edit(CLIENT_AUTH, Operation.SET, "perhaps")], is_default=False)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_a_listeners_key_that_changes_precedes_the_static_one_until_it_is_deleted() -> None:
    dynamic = DynamicConfig(build_config(TWO | {CLIENT_AUTH: "requested"})[0])
    seen: list[str] = []
    dynamic.on_change(lambda config: seen.append(config.listener("IN").keys.ssl_client_auth))
    assert dynamic.set_layer(OF_BROKER, {CLIENT_AUTH: "required", "ssl.client.auth": "none"}) == []
    assert dynamic.config.listener("PLAINTEXT").keys.ssl_client_auth == "none"
    dynamic.set_layer(OF_BROKER, {})
    assert seen == ["required", "requested"]


def test_a_key_of_one_broker_among_the_defaults_of_all_is_ignored_and_reported() -> None:
    dynamic = DynamicConfig(a_config())
    (ignored,) = dynamic.set_layer(OF_ALL, {CLIENT_AUTH: "required"})
    assert ignored.key == CLIENT_AUTH
    assert dynamic.config.listener("IN").keys.ssl_client_auth == "none"


def test_a_change_is_refused_when_what_uses_the_value_refuses_it() -> None:
    dynamic = DynamicConfig(a_config())

    def refuse(config: Config) -> None:
        if config.listener("IN").keys.ssl_client_auth == "required":
            raise ConfigError("no certificate")

    dynamic.on_check(refuse)
    dynamic.check(OF_BROKER, {CLIENT_AUTH: "requested"})
    with pytest.raises(ConfigError, match="no certificate"):
        dynamic.check(OF_BROKER, {CLIENT_AUTH: "required"})
    assert dynamic.config == a_config()
