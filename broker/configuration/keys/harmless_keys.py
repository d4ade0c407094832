"""Keys of Apache Kafka about encryption, authentication and quotas that request no protection by themselves.

Each tunes something that only a key of `protection_keys.REFUSED` or a TLS or SASL listener enables, so that ignoring it
makes a configuration no less safe. The rule is for the type only: a value is parsed when it is changed at run time, as
in Apache Kafka.
"""

from __future__ import annotations

from sordini.broker.configuration.settings import ValueKind, ValueRule, boolean, integer, long, ratio, short, string
from sordini.system.named_tuple import NamedTuple

_ANY_NUMBER = ratio(float("-inf"), float("inf"))._replace(allowed="a number")
_LIST = string._replace(kind=ValueKind.LIST)
_CLASS = string._replace(kind=ValueKind.CLASS)
_PASSWORD = string._replace(kind=ValueKind.PASSWORD)


class Harmless(NamedTuple):
    """Keys that request no protection by themselves, for one reason."""

    why: str
    keys: dict[str, ValueRule]


HARMLESS = (
    Harmless(
        "They choose parts of Java's TLS; here it is OpenSSL's.",
        {
            "ssl.keymanager.algorithm": string,
            "ssl.protocol": string,
            "ssl.provider": string,
            "ssl.secure.random.implementation": string,
            "ssl.trustmanager.algorithm": string,
        },
    ),
    Harmless(
        "Container images derive the keys of TLS stores from them.",
        {
            "ssl.key.credentials": string,
            "ssl.keystore.credentials": string,
            "ssl.keystore.filename": string,
            "ssl.truststore.credentials": string,
            "ssl.truststore.filename": string,
        },
    ),
    Harmless(
        "They tune Kerberos, and logins of clients.",
        {
            "sasl.client.callback.handler.class": _CLASS,
            "sasl.kerberos.kinit.cmd": string,
            "sasl.kerberos.min.time.before.relogin": long(),
            "sasl.kerberos.principal.to.local.rules": _LIST,
            "sasl.kerberos.service.name": string,
            "sasl.kerberos.ticket.renew.jitter": _ANY_NUMBER,
            "sasl.kerberos.ticket.renew.window.factor": _ANY_NUMBER,
            "sasl.login.callback.handler.class": _CLASS,
            "sasl.login.class": _CLASS,
            "sasl.login.connect.timeout.ms": integer(),
            "sasl.login.read.timeout.ms": integer(),
            "sasl.login.refresh.buffer.seconds": short(),
            "sasl.login.refresh.min.period.seconds": short(),
            "sasl.login.refresh.window.factor": _ANY_NUMBER,
            "sasl.login.refresh.window.jitter": _ANY_NUMBER,
            "sasl.login.retry.backoff.max.ms": long(),
            "sasl.login.retry.backoff.ms": long(),
        },
    ),
    Harmless(
        "They configure how clients get OAuth tokens, or classes that are not loaded; a listener verifies every token.",
        {
            "sasl.oauthbearer.allow.unverified.audience": boolean,
            "sasl.oauthbearer.allow.unverified.issuer": boolean,
            "sasl.oauthbearer.assertion.algorithm": string,
            "sasl.oauthbearer.assertion.claim.aud": string,
            "sasl.oauthbearer.assertion.claim.exp.seconds": integer(),
            "sasl.oauthbearer.assertion.claim.iss": string,
            "sasl.oauthbearer.assertion.claim.jti.include": boolean,
            "sasl.oauthbearer.assertion.claim.nbf.seconds": integer(),
            "sasl.oauthbearer.assertion.claim.sub": string,
            "sasl.oauthbearer.assertion.file": string,
            "sasl.oauthbearer.assertion.private.key.file": string,
            "sasl.oauthbearer.assertion.private.key.passphrase": _PASSWORD,
            "sasl.oauthbearer.assertion.template.file": string,
            "sasl.oauthbearer.client.credentials.client.id": string,
            "sasl.oauthbearer.client.credentials.client.secret": _PASSWORD,
            "sasl.oauthbearer.header.urlencode": boolean,
            "sasl.oauthbearer.jwt.retriever.class": _CLASS,
            "sasl.oauthbearer.jwt.validator.class": _CLASS,
            "sasl.oauthbearer.scope": string,
            "sasl.oauthbearer.token.endpoint.url": string,
        },
    ),
    Harmless(
        "They time delegation tokens, and the key to create tokens is refused.",
        {
            "delegation.token.expiry.check.interval.ms": long(1),
            "delegation.token.expiry.time.ms": long(1),
            "delegation.token.max.lifetime.ms": long(1),
        },
    ),
    Harmless(
        "They configure a ZooKeeper for the authorizer alone; entries are in the coordination store here.",
        {
            "authorizer.zookeeper.connection.timeout.ms": integer(),
            "authorizer.zookeeper.max.in.flight.requests": integer(1),
            "authorizer.zookeeper.session.timeout.ms": integer(),
            "authorizer.zookeeper.url": string,
        },
    ),
    Harmless("No cryptography is done here.", {"security.providers": string}),
    Harmless(
        "They are windows of a quota that is refused.",
        {
            "alter.log.dirs.replication.quota.window.num": integer(1),
            "alter.log.dirs.replication.quota.window.size.seconds": integer(1),
        },
    ),
    Harmless(
        "It throttles moves of replicas between directories, which are not implemented yet.",
        {"replica.alter.log.dirs.io.max.bytes.per.second": long()},
    ),
)
