"""Keys that request protection: where it is not implemented the start is refused, wherever the key is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.broker.administration.described_settings import describe_entry
from sordini.broker.configuration.config import SETTINGS, Config, build_config
from sordini.broker.configuration.dynamic import ConfigSource, DynamicConfig, Synonym
from sordini.broker.configuration.edits import Edit, Operation, edit_broker
from sordini.broker.configuration.keys.harmless_keys import HARMLESS
from sordini.broker.configuration.keys.ignored_keys import WITHOUT_EFFECT
from sordini.broker.configuration.keys.protection_keys import (
    BY_LISTENER,
    CLIENTS_KEYS,
    REFUSED,
    SERVED,
    TABLE,
    KeyTreatment,
)
from sordini.broker.configuration.protection.protection_defaults import DEFAULTS
from sordini.broker.configuration.settings import Change, ConfigError, ValueKind, ValueRule
from sordini.broker.process.config_loading import load_config, read_entries
from sordini.protocol.errors import BrokerError, ErrorCode
from tests.test_documents import names_in

ROOT = Path(__file__).resolve().parents[5]

REFUSED_KEYS = {key: rule for group in REFUSED for key, rule in group.keys.items()}
BY_LISTENER_KEYS = {f"listener.name.client.{key}": rule for key, rule in BY_LISTENER.keys.items()}
PREFIXES = ("", "listener.name.client.", "listener.name.sasl_ssl.scram-sha-512.")

EXAMPLES = {
    "ssl.engine.factory.class": ["com.example.Engines"],
    "security.protocol": ["SSL"],
    "connections.max.reauth.ms": ["1", "3600000", "soon"],
    "quota.producer.default": ["0", "1048576"],
}
"""Of other keys one value is as good as another."""


def asking(key: str, rule: ValueRule) -> list[str]:
    return EXAMPLES.get(key, ["true"] if rule.kind is ValueKind.BOOLEAN else ["7"])


def asks_nothing(key: str, rule: ValueRule) -> list[str]:
    """The value that is named as allowed, and no value."""
    word = rule.allowed.split(" (")[0]
    return ["", " ", *([] if word == "no value" else [word])]


def cases(key: str) -> list[tuple[str, str]]:
    """A key with and without a listener's name, and the values of it that ask for protection."""
    if key in BY_LISTENER_KEYS:
        return [(key, "7")]
    return [(prefix + key, text) for prefix in PREFIXES for text in asking(key, REFUSED_KEYS[key])]


@pytest.mark.parametrize("asked", [*REFUSED_KEYS, *BY_LISTENER_KEYS])
def test_a_value_that_asks_for_protection_refuses_the_start_from_file_override_and_environment(
    asked: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    for key, text in cases(asked):
        file.write_text(f"{key}={text}\n")
        name = key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        ways: list[tuple[str | None, list[str], dict[str, str]]] = [(str(file), [], {}), (None, [f"{key}={text}"], {})]
        if key not in CLIENTS_KEYS:
            ways += [(None, [], {f"{prefix}_{name}": text}) for prefix in ("KAFKA", "SORDINI")]
        for properties, overrides, environment in ways:
            with pytest.raises(ConfigError) as refusal:
                load_config(read_entries(properties, overrides, environment))
            said = str(refusal.value)
            assert said.startswith(f"{key}=")
            assert "; allowed is " in said
            assert "or to leave it out" in said


def said_of(entries: dict[str, str]) -> str:
    try:
        build_config(entries)
    except ConfigError as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("key", [key for key, row in TABLE.items() if row.rule.kind is ValueKind.PASSWORD])
def test_a_secret_is_never_shown(key: str) -> None:
    for prefix in PREFIXES:
        assert "hush-hush" not in said_of({prefix + key: "hush-hush"})
        for is_default in (False, True):
            with pytest.raises(BrokerError) as refused:
                edit_broker({}, [Edit(prefix + key, Operation.SET, "hush-hush")], is_default=is_default)
            assert "hush-hush" not in str(refused.value)


def test_a_value_that_asks_for_nothing_starts_a_broker_like_any_other() -> None:
    for keys in (REFUSED_KEYS, BY_LISTENER_KEYS):
        for key, rule in keys.items():
            for text in asks_nothing(key, rule):
                assert build_config({key: text}) == (Config(), []), (key, text)
    assert build_config({"zookeeper.set.acl": "False"}) == (Config(), [])
    assert build_config({"allow.everyone.if.no.acl.found": "TRUE"})[1] == []


def test_keys_of_an_authorizer_need_an_authorizer() -> None:
    authorizer = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    for entry in ({"super.users": "User:root"}, {"allow.everyone.if.no.acl.found": "false"}):
        with pytest.raises(ConfigError, match="asks for authorization"):
            build_config(entry)
        assert build_config({**authorizer, **entry})[1] == []
    with pytest.raises(ConfigError, match=r"authorizer.class.name='x.Y' is not valid: allowed is empty, or one of"):
        build_config({"authorizer.class.name": "x.Y"})
    with pytest.raises(ConfigError, match=r"super.users='root' is not valid: allowed is principals such as User:admin"):
        build_config({**authorizer, "super.users": "root"})


def test_a_key_that_only_tunes_starts_a_broker_whatever_its_value() -> None:
    keys = [key for group in HARMLESS for key in group.keys]
    entries = {prefix + key: "anything" for key in keys for prefix in PREFIXES}
    assert build_config(entries) == (Config(), [])
    assert load_config(entries).without_effect == sorted(entries)


def test_a_whole_file_of_a_cluster_with_plaintext_listeners_starts_a_broker() -> None:
    named = {key for key in DEFAULTS if key.startswith("sasl.") and TABLE[key].treatment is KeyTreatment.REFUSED}
    defaults = {key: text for key, text in DEFAULTS.items() if key not in named}
    assert len(defaults) > 20
    assert build_config(defaults) == (Config(), [])


@pytest.mark.parametrize(
    "key",
    [
        "ssl.client.auht",
        "SSL.CLIENT.AUTH",
        "super.user",
        "allow.everyone.if.no.acls.found",
        "sasl.enabled.mechanism",
        "listener.name.client.sasl.enabled.mechanism",
        "listener.name.client.plain.sasl.jaas.configs",
        "quota.producer.defaults",
        "authorizer.class",
        "my.topic.policy.class.name",
        "zookeeper.ssl.client.enabled",
        "delegation.token.secrets",
    ],
)
def test_a_misspelt_key_of_protection_refuses_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        build_config({key: "required"})


@pytest.mark.parametrize("key", ["metric.reporters", "vendor.reporter.ssl.keystore.location", "listener.name.a.some"])
def test_an_unknown_key_that_asks_for_no_protection_is_only_reported(key: str) -> None:
    assert build_config({key: "x"}) == (Config(), [key])


def test_a_variable_of_another_convention_is_not_passed_over_when_it_asks_for_protection() -> None:
    with pytest.raises(ConfigError, match="KAFKA_CFG_AUTHORIZER_CLASS_NAME"):
        read_entries(None, [], {"KAFKA_CFG_AUTHORIZER_CLASS_NAME": "x.Y"})
    assert read_entries(None, [], {"KAFKA_CFG_AUTHORIZER_CLASS_NAME": "", "KAFKA_CFG_LISTENERS": "x"}) == {}


def test_what_client_applications_read_from_the_environment_says_nothing_about_a_broker() -> None:
    environment = {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_PASSWORD": "x"}
    assert read_entries(None, [], environment) == {}


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'
UNSERVED = {
    "ssl.client.auth": ["required", "requested"],
    "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-512,SCRAM-SHA-256"],
    "sasl.jaas.config": [JAAS],
    "sasl.mechanism.inter.broker.protocol": ["PLAIN"],
    "connections.max.reauth.ms": ["1", "3600000"],
}
WITHOUT_PREFIX = {"sasl.mechanism.inter.broker.protocol"}


@pytest.mark.parametrize("key", UNSERVED)
def test_protection_that_no_listener_has_refuses_the_start(key: str) -> None:
    for text in UNSERVED[key]:
        for prefix in ("", *(() if key in WITHOUT_PREFIX else ("listener.name.plaintext.",))):
            with pytest.raises(ConfigError, match=r"asks for .*; allowed is that only with a listener") as refusal:
                build_config({prefix + key: text})
            assert str(refusal.value).startswith(f"{prefix}{key}=")
            assert JAAS not in str(refusal.value)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL", "SSL"])
def test_a_key_of_one_listener_needs_that_protection_of_this_listener(protocol: str) -> None:
    listeners = {
        "listeners": "PLAINTEXT://:1,IN://:2",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,IN:{protocol}",
    }
    if protocol != "SSL":
        listeners |= {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": JAAS}
    for key, texts in UNSERVED.items():
        if key in WITHOUT_PREFIX:
            continue
        has_it = "SSL" in protocol.split("_") if key == "ssl.client.auth" else protocol != "SSL"
        for text in ("PLAIN" if "SCRAM" in text else text for text in texts):
            refused = said_of({**listeners, f"listener.name.in.{key}": text})
            assert bool(refused) is not has_it, refused
            assert said_of({**listeners, f"listener.name.plaintext.{key}": text}).startswith("listener.name.plaintext.")


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_of_sasl_without_mechanisms_refuses_the_start(protocol: str) -> None:
    listener = {"listeners": f"{protocol}://:9092", "security.inter.broker.protocol": protocol}
    assert said_of(listener).startswith("sasl.enabled.mechanisms=''")
    assert said_of({"advertised.listeners": f"{protocol}://h:9092"}).startswith("advertised.listeners=")


def test_keys_of_security_in_the_store_that_no_listener_has_are_ignored_and_named() -> None:
    dynamic = DynamicConfig(Config())
    entries = {"ssl.client.auth": "required", "min.insync.replicas": "2"}
    (ignored,) = dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, entries)
    assert ignored.key == "ssl.client.auth"
    assert "asks for certificates" in ignored.reason
    assert (dynamic.config.min_insync_replicas, dynamic.config.ssl_client_auth) == (2, "none")


CHANGEABLE = {key for key, row in TABLE.items() if row.change is Change.BROKER}

SASL_CONFIG = "unit/broker/configuration/protection/test_sasl_config"
SASL_CLIENTS = "compat/test_sasl_clients"
LOGIN = "unit/broker/security/sasl/test_login"
CLAIMS = "unit/broker/security/sasl/oauthbearer/test_claims"
KEY_SOURCE = "unit/broker/security/sasl/oauthbearer/test_key_source"
LISTENER_KEYS = "unit/broker/configuration/keys/test_listener_keys"
LISTENER_TLS = "unit/broker/security/tls/test_listener_tls"
MAPPING = "unit/broker/configuration/test_principal_mapping"
STORES = "unit/client/tls/test_stores"
ENCODER = "unit/broker/configuration/test_password_encoder"
ZOOKEEPER = "process/test_secure_zookeeper"
ZOOKEEPER_KEYS = "unit/broker/configuration/keys/test_zookeeper_keys"
ZOOKEEPER_STORES = "unit/broker/security/tls/test_zookeeper_material"
SHOWN = {
    "allow.everyone.if.no.acl.found": ("unit/broker/security/test_authorizer", "test_a_resource_without_entries"),
    "authorizer.class.name": ("unit/broker/security/acls/test_acls_handler", "test_only_whom_the_cluster_allows"),
    "connections.max.idle.ms": ("network/test_connections", "test_an_idle_connection_is_closed"),
    "follower.replication.throttled.rate": (
        "unit/replication/fetching/test_replica_fetcher",
        "test_a_throttled_replica_that",
    ),
    "leader.replication.throttled.rate": ("unit/broker/records/test_replica_fetch", "test_a_throttled_follower_that"),
    "controller.quota.window.num": ("unit/broker/requests/quotas/test_windows", "test_windows_are_those"),
    "controller.quota.window.size.seconds": ("unit/broker/requests/quotas/test_windows", "test_windows_are_those"),
    "quota.window.num": ("unit/broker/requests/quotas/test_windows", "test_windows_are_those"),
    "quota.window.size.seconds": ("unit/broker/requests/quotas/test_windows", "test_windows_are_those"),
    "max.connection.creation.rate": ("network/test_quotas", "test_connections_above_the_brokers_rate"),
    "max.connections": ("network/test_connections", "test_at_max_connections_peers_wait"),
    "max.connections.per.ip": ("network/test_connections", "test_past_max_connections_per_ip_a_connection"),
    "max.connections.per.ip.overrides": ("process/test_limits", "test_an_address_has_so_many_connections"),
    "replication.quota.window.num": ("unit/broker/configuration/test_replica_quotas", "test_"),
    "replication.quota.window.size.seconds": ("unit/broker/configuration/test_replica_quotas", "test_"),
    "connection.failed.authentication.delay.ms": (LOGIN, "test_a_refused_login_is_answered_after_a_delay"),
    "connections.max.reauth.ms": (LOGIN, "test_a_session_ends_unless"),
    "password.encoder.cipher.algorithm": (ENCODER, "test_a_password_is_in_the_format_of_apache_kafka"),
    "password.encoder.iterations": (ENCODER, "test_a_password_is_in_the_format_of_apache_kafka"),
    "password.encoder.key.length": (ENCODER, "test_a_password_is_in_the_format_of_apache_kafka"),
    "password.encoder.keyfactory.algorithm": (ENCODER, "test_a_password_is_in_the_format_of_apache_kafka"),
    "password.encoder.old.secret": (ENCODER, "test_what_another_secret_has_encrypted"),
    "password.encoder.secret": (ENCODER, "test_a_password_that_is_set_at_run_time"),
    "sasl.enabled.mechanisms": (LOGIN, "test_a_mechanism_that_is_not_enabled_is_refused"),
    "sasl.jaas.config": ("unit/client/test_jaas", "test_options_of_a_jaas_line_are_read"),
    "sasl.mechanism.inter.broker.protocol": (SASL_CONFIG, "test_a_broker_logs_in_to_others"),
    "sasl.oauthbearer.clock.skew.seconds": (CLAIMS, "test_a_token_is_accepted_from_its_begin_until_its_end"),
    "sasl.oauthbearer.expected.audience": (CLAIMS, "test_one_audience_of_a_token_is_an_expected_one"),
    "sasl.oauthbearer.expected.issuer": (CLAIMS, "test_the_issuer_is_the_expected_one_exactly"),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": (KEY_SOURCE, "test_keys_are_fetched_at_once_and_then_when"),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (KEY_SOURCE, "test_the_wait_after_a_failure_is_doubled"),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (KEY_SOURCE, "test_the_wait_after_a_failure_is_doubled"),
    "sasl.oauthbearer.jwks.endpoint.url": (SASL_CONFIG, "test_a_key_set_is_in_a_file_or_at_a_url_that_is_allowed"),
    "sasl.oauthbearer.scope.claim.name": (CLAIMS, "test_a_scope_of_another_form_is_refused"),
    "sasl.oauthbearer.sub.claim.name": (CLAIMS, "test_the_principal_has_a_bounded_size_and_may_be"),
    "sasl.server.max.receive.size": (SASL_CLIENTS, "test_before_the_login_a_request_is_at_most_as_large"),
    "super.users": ("unit/broker/security/test_authorizer", "test_principals_hosts_and_super_users"),
    "security.inter.broker.protocol": (LISTENER_KEYS, "test_the_brokers_listener_is_named_or_follows"),
    "ssl.allow.dn.changes": (LISTENER_TLS, "test_a_certificate_for_another_name_needs_permission"),
    "ssl.allow.san.changes": (LISTENER_TLS, "test_a_certificate_for_another_name_needs_permission"),
    "ssl.cipher.suites": (STORES, "test_the_suites_that_are_named_limit_the_protocols"),
    "ssl.client.auth": ("network/test_tls", "test_a_client_without_a_trusted_certificate_is_refused"),
    "ssl.enabled.protocols": (STORES, "test_the_suites_that_are_named_limit_the_protocols"),
    "ssl.endpoint.identification.algorithm": (LISTENER_TLS, "test_the_brokers_listener_must_trust_its_own"),
    "ssl.key.password": (STORES, "test_a_pem_file_has_both_also_with_an_encrypted_key"),
    "ssl.keystore.certificate.chain": (STORES, "test_pem_in_one_line_is_read"),
    "ssl.keystore.key": (STORES, "test_pem_in_one_line_is_read"),
    "ssl.keystore.location": (LISTENER_TLS, "test_a_file_that_changes_is_read_again"),
    "ssl.keystore.password": (STORES, "test_a_pkcs12_store_has_its_key"),
    "ssl.keystore.type": (STORES, "test_a_pkcs12_store_has_its_key"),
    "ssl.principal.mapping.rules": (MAPPING, "test_the_first_rule_that_matches_the_whole_name"),
    "ssl.truststore.certificates": (LISTENER_TLS, "test_the_brokers_listener_must_trust_its_own"),
    "ssl.truststore.location": ("compat/test_tls_clients", "test_librdkafka_without_a_trusted_certificate"),
    "ssl.truststore.password": (STORES, "test_a_pkcs12_store_has_its_key"),
    "ssl.truststore.type": (STORES, "test_a_pkcs12_store_has_its_key"),
    "zookeeper.clientCnxnSocket": (ZOOKEEPER_KEYS, "test_tls_is_nettys"),
    "zookeeper.set.acl": (ZOOKEEPER, "test_the_lists_are_those_that_apache_kafka_makes"),
    "zookeeper.ssl.cipher.suites": (ZOOKEEPER_STORES, "test_versions_suites_and_the_check_of_hosts"),
    "zookeeper.ssl.client.enable": (ZOOKEEPER, "test_a_client_without_a_login_reads_no_credential"),
    "zookeeper.ssl.enabled.protocols": (ZOOKEEPER_STORES, "test_versions_suites_and_the_check_of_hosts"),
    "zookeeper.ssl.endpoint.identification.algorithm": (ZOOKEEPER, "test_the_certificate_is_for_the_host_unless"),
    "zookeeper.ssl.keystore.location": (ZOOKEEPER, "test_the_lists_are_those_that_apache_kafka_makes"),
    "zookeeper.ssl.keystore.password": (ZOOKEEPER, "test_the_lists_are_those_that_apache_kafka_makes"),
    "zookeeper.ssl.keystore.type": (ZOOKEEPER_KEYS, "test_the_type_of_a_store_is_set"),
    "zookeeper.ssl.protocol": (ZOOKEEPER_STORES, "test_versions_suites_and_the_check_of_hosts"),
    "zookeeper.ssl.truststore.location": (ZOOKEEPER, "test_a_certificate_that_the_trust_store_does_not_know"),
    "zookeeper.ssl.truststore.password": (ZOOKEEPER_STORES, "test_stores_in_pem_and_pkcs12_are_read"),
    "zookeeper.ssl.truststore.type": (ZOOKEEPER_KEYS, "test_the_type_of_a_store_is_set"),
}


def test_every_served_key_is_declared_and_a_test_shows_that_it_works() -> None:
    assert set(SERVED) == set(SHOWN)
    assert set(SERVED) <= SETTINGS.keys()
    for path, begin in SHOWN.values():
        assert [name for name in names_in(ROOT / "tests" / f"{path}.py") if name.startswith(begin)], (path, begin)


def test_a_key_has_one_verdict() -> None:
    assert not TABLE.keys() & SETTINGS.keys()
    assert not TABLE.keys() & WITHOUT_EFFECT
    assert len(TABLE) == sum(len(group.keys) for group in (*REFUSED, *HARMLESS))
    assert {row.treatment for row in TABLE.values()} == {KeyTreatment.REFUSED, KeyTreatment.HARMLESS}
    assert DEFAULTS.keys() <= TABLE.keys()


@pytest.mark.parametrize("asked", [*REFUSED_KEYS, *BY_LISTENER_KEYS])
def test_a_value_that_asks_for_protection_is_not_taken_over_the_wire(asked: str) -> None:
    for key, text in cases(asked):
        for is_default in (False, True):
            with pytest.raises(BrokerError) as refusal:
                edit_broker({}, [Edit(key, Operation.SET, text)], is_default=is_default)
            assert refusal.value.code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
            assert key in str(refusal.value)


@pytest.mark.parametrize("key", sorted(CHANGEABLE))
def test_what_apache_kafka_changes_of_one_broker_is_taken_of_one_broker_unless_it_asks_for_protection(key: str) -> None:
    row = TABLE[key]
    text = (
        DEFAULTS.get(key, "text")
        if row.treatment is KeyTreatment.HARMLESS
        else row.rule.allowed.replace("no value", "")
    )
    edit = Edit(key, Operation.SET, text)
    if row.rule.kind is ValueKind.PASSWORD:
        with pytest.raises(BrokerError) as refusal:
            edit_broker({}, [edit], is_default=False)
        assert refusal.value.code == ErrorCode.INVALID_CONFIG
        return
    assert edit_broker({}, [edit], is_default=False) == {key: text}
    with pytest.raises(BrokerError) as refusal:
        edit_broker({}, [edit], is_default=True)
    assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_a_value_of_the_wrong_type_is_refused_of_a_key_without_effect() -> None:
    wrong = {
        "sasl.kerberos.min.time.before.relogin": "soon",
        "sasl.login.refresh.buffer.seconds": "40000",
        "sasl.kerberos.ticket.renew.jitter": "x",
    }
    for key, text in wrong.items():
        with pytest.raises(BrokerError) as refusal:
            edit_broker({}, [Edit(key, Operation.SET, text)], is_default=False)
        assert refusal.value.code == ErrorCode.INVALID_REQUEST
        assert f"{key}=" in str(refusal.value)


def test_what_apache_kafka_does_not_change_is_refused() -> None:
    for key, row in TABLE.items():
        if row.change is Change.NOWHERE:
            with pytest.raises(BrokerError) as refusal:
                edit_broker({}, [Edit(key, Operation.SET, "")], is_default=False)
            assert refusal.value.code == ErrorCode.INVALID_REQUEST


def test_a_list_without_effect_is_appended_to_from_its_default() -> None:
    key = "sasl.kerberos.principal.to.local.rules"
    edited = edit_broker({}, [Edit(key, Operation.APPEND, "RULE:[1:$1]")], is_default=False)
    assert edited == {key: "DEFAULT,RULE:[1:$1]"}


def test_what_others_wrote_into_the_store_is_named_when_it_asks_for_protection_and_silent_when_not() -> None:
    dynamic = DynamicConfig(Config())
    entries = {
        "quota.producer.default": "20",
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "sasl.kerberos.min.time.before.relogin": "5",
    }
    reported = {row.key: row.reason for row in dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, entries)}
    assert reported.keys() == {"quota.producer.default"}
    assert all(reason.startswith("it asks for ") for reason in reported.values())
    assert dynamic.config.keys_of_unknown_listeners == ["listener.name.client.sasl.enabled.mechanisms"]
    dynamic.set_layer(ConfigSource.DYNAMIC_BROKER, {})
    assert dynamic.config == Config()


def test_an_entry_without_effect_is_described_with_its_type_and_a_secret_one_as_secret() -> None:
    def described(key: str, text: str) -> tuple[ValueKind, bool, int]:
        row = describe_entry(key, [Synonym(key, text, ConfigSource.DYNAMIC_BROKER)])
        return row.kind, row.is_read_only, len(row.synonyms)

    assert described("sasl.kerberos.min.time.before.relogin", "5") == (ValueKind.LONG, False, 2)
    assert described("listener.name.a.plain.sasl.jaas.config", "x")[0] is ValueKind.PASSWORD
