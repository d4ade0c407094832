"""Keys of Apache Kafka about encryption, authentication, authorization, quotas and policies, and their verdicts.

Three verdicts, as data; `protection.py` applies them, docs/configuration.md prints them, and a test compares the names
and types with those that Apache Kafka's own jars declare.

    served     the key works (it is declared with the other keys, in `SETTINGS`)
    refused    a value that requests protection refuses the start: this broker would serve every client regardless
    harmless   the key requests no protection by itself: it tunes something that only a refused key enables

A key requests protection if it rejects peers without credentials, encrypts, limits requests, or applies a policy to
requests. A Kerberos command does not: without the mechanism GSSAPI Apache Kafka ignores it, too, and that mechanism
refuses the start. Served keys that protect are declared in `security_keys.py`, `sasl_keys.py` and
`zookeeper_keys.py`.
"""

from __future__ import annotations

import re
from enum import Enum

from sordini.broker.configuration.keys.harmless_keys import HARMLESS
from sordini.broker.configuration.settings import (
    INT32_MAX,
    INT64_MAX,
    Change,
    ValueKind,
    ValueRule,
    matching,
)
from sordini.system.named_tuple import NamedTuple

OAUTHBEARER_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""Apache Kafka's class that verifies tokens by a key set; its own default accepts unsigned tokens."""
DEFAULT_PRINCIPALS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


def _nothing(kind: ValueKind) -> ValueRule:
    return matching("", "no value", kind)


def _word(word: str, kind: ValueKind = ValueKind.STRING) -> ValueRule:
    return matching(re.escape(word), word, kind)


def _only(number: int, kind: ValueKind, allowed: str) -> ValueRule:
    return matching(rf"\+?0*{number}", allowed, kind)


_NO_CLASS, _NO_TEXT = _nothing(ValueKind.CLASS), _nothing(ValueKind.STRING)
_NO_LIST, _NO_PASSWORD = _nothing(ValueKind.LIST), _nothing(ValueKind.PASSWORD)
_FALSE = matching("(?i:false)", "false", ValueKind.BOOLEAN)
_VALIDATOR = matching(
    r"|org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerValidatorCallbackHandler",
    f"{OAUTHBEARER_VALIDATOR} (what OAUTHBEARER does here)",
    ValueKind.CLASS,
)
_UNLIMITED_INT = _only(INT32_MAX, ValueKind.INT, f"{INT32_MAX} (no limit)")
_UNLIMITED_LONG = _only(INT64_MAX, ValueKind.LONG, f"{INT64_MAX} (no limit)")


class KeyTreatment(Enum):
    """What happens to a key here."""

    SERVED = "served"
    REFUSED = "refused"
    HARMLESS = "harmless"


class Protection(NamedTuple):
    """One key. `rule` accepts, for a refused key, values that request nothing; for a harmless one, valid values."""

    key: str
    treatment: KeyTreatment
    rule: ValueRule
    why: str
    change: Change


class RefusedKeys(NamedTuple):
    """Keys that request one kind of protection."""

    request: str
    keys: dict[str, ValueRule]


SERVED = (
    "allow.everyone.if.no.acl.found",
    "authorizer.class.name",
    "connection.failed.authentication.delay.ms",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "controller.quota.window.num",
    "controller.quota.window.size.seconds",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "quota.window.num",
    "quota.window.size.seconds",
    "replication.quota.window.num",
    "replication.quota.window.size.seconds",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.max.receive.size",
    "security.inter.broker.protocol",
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "super.users",
    "zookeeper.clientCnxnSocket",
    "zookeeper.set.acl",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
)

REFUSED = (
    RefusedKeys("a class that makes TLS engines: no class is loaded here", {"ssl.engine.factory.class": _NO_CLASS}),
    RefusedKeys(
        "delegation tokens: this broker has none",
        {"delegation.token.master.key": _NO_PASSWORD, "delegation.token.secret.key": _NO_PASSWORD},
    ),
    RefusedKeys(
        "SASL of another kind: this broker serves PLAIN, SCRAM and signed tokens (OAUTHBEARER), and loads no classes",
        {
            "sasl.mechanism": _NO_TEXT,
            "sasl.mechanism.controller.protocol": _NO_TEXT,
            "sasl.server.callback.handler.class": _VALIDATOR,
        },
    ),
    RefusedKeys(
        "principals of another kind: a login or a certificate names a client here, and no class is loaded",
        {"principal.builder.class": _word(DEFAULT_PRINCIPALS, ValueKind.CLASS)},
    ),
    RefusedKeys(
        "encryption or authentication of a client: a broker has listeners and security.inter.broker.protocol",
        {"security.protocol": _word("PLAINTEXT")},
    ),
    RefusedKeys(
        "a listener for the controller's requests alone: brokers' requests come in on inter.broker.listener.name here",
        {"control.plane.listener.name": _NO_TEXT},
    ),
    RefusedKeys(
        "quotas of clients: they are set by AlterClientQuotas and `sordini quotas`, and no class is loaded",
        {
            "client.quota.callback.class": _NO_CLASS,
            "quota.consumer.default": _UNLIMITED_LONG,
            "quota.producer.default": _UNLIMITED_LONG,
        },
    ),
    RefusedKeys(
        "a policy: no class is loaded that could vet requests",
        {"alter.config.policy.class.name": _NO_CLASS, "create.topic.policy.class.name": _NO_CLASS},
    ),
    RefusedKeys(
        "revocation of ZooKeeper's certificates: this broker does not check it",
        {
            "zookeeper.ssl.crl.enable": _FALSE,
            "zookeeper.ssl.ocsp.enable": _FALSE,
        },
    ),
)

BY_LISTENER = RefusedKeys(
    "limits of an address on a single listener: the key without `listener.name.` limits it on all of them together",
    {
        "max.connections.per.ip": _UNLIMITED_INT,
        "max.connections.per.ip.overrides": _NO_TEXT,
    },
)
"""Keys that are served, but not with a listener prefix; nor does Apache Kafka serve them with one."""

CLIENTS_KEYS = frozenset({"sasl.mechanism", "security.protocol"})
"""Client applications read them from variables named KAFKA_..., too; such a variable is not taken for a broker's."""

_ANYWHERE = frozenset({"replica.alter.log.dirs.io.max.bytes.per.second"})
_BROKER = frozenset(
    {
        "principal.builder.class",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        *(key for group in HARMLESS for key in group.keys if key.startswith("sasl.kerberos.")),
        *(key for group in HARMLESS for key in group.keys if key.startswith("sasl.login.refresh.")),
    }
)


def _change(key: str) -> Change:
    for change, keys in ((Change.ANYWHERE, _ANYWHERE), (Change.BROKER, _BROKER)):
        if key in keys:
            return change
    return Change.NOWHERE


TABLE: dict[str, Protection] = {
    key: Protection(key, treatment, rule, why, _change(key))
    for treatment, groups in (
        (KeyTreatment.REFUSED, [(group.request, group.keys) for group in REFUSED]),
        (KeyTreatment.HARMLESS, [(group.why, group.keys) for group in HARMLESS]),
    )
    for why, keys in groups
    for key, rule in keys.items()
}
"""The refused and the harmless keys, by name."""
