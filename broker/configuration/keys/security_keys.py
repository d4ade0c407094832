"""The keys of protection that are served: TLS of listeners, and of connections to other brokers.

Names and defaults are Apache Kafka's. Most can be set for one listener (`Prefix.LISTENER`, see `listener_keys.py`);
what applies to a listener is a `SecuritySettings` of its own. A password is a `Password`, which no error, log line or
description shows.
"""

# ruff: noqa: RUF009 - a `Password` is not changed, as the values of the other keys.

from __future__ import annotations

import dataclasses
from typing import Any, Final

from sordini.broker.configuration.keys.sasl_keys import SaslSettings
from sordini.broker.configuration.settings import (
    Change,
    Password,
    ValueKind,
    ValueRule,
    boolean,
    integer,
    listener_setting,
    matching,
    one_of,
    password,
    setting,
    some_of,
    string,
)

TLS_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("JKS", "PKCS12", "PEM")


def _parse_store_type(text: str) -> str:
    kind = text.upper()
    if kind not in STORE_TYPES:
        raise ValueError(text)
    return kind


def _mapping_rules(text: str) -> str:
    from sordini.broker.configuration.principal_mapping import PrincipalMapping  # Late: mostly the default.

    if text != "DEFAULT":
        PrincipalMapping(text)
    return text


def _parse_suites(text: str) -> str:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if names:
        from sordini.client.tls.contexts import check_cipher_suites  # Late: OpenSSL is loaded for TLS listeners only.

        check_cipher_suites(names)
    return ",".join(names)


_MAPPING_RULES = ValueRule(
    ValueKind.STRING, "RULE:pattern/replacement/[LU] or DEFAULT, comma-separated", _mapping_rules
)
cipher_suites = ValueRule(ValueKind.LIST, "names of cipher suites, Java's or OpenSSL's, comma-separated", _parse_suites)
store_type = ValueRule(ValueKind.STRING, "PEM or PKCS12; JKS for a PKCS#12 file, as Java has it", _parse_store_type)
identification = matching("(?i:https)?", "https, or empty to check no host name")


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class SecuritySettings(SaslSettings):
    """Settings of one listener, or of the broker where a listener has none."""

    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "PLAINTEXT",
        "The security protocol between brokers: their listener is the one of this name. Not with "
        "`inter.broker.listener.name`, which names a listener.",
    )
    ssl_client_auth: str = listener_setting(
        "ssl.client.auth",
        one_of("required", "requested", "none"),
        "none",
        "Whether a client of a TLS listener has to show a certificate; its name is the client's principal.",
        Change.BROKER,
    )
    ssl_enabled_protocols: str = listener_setting(
        "ssl.enabled.protocols",
        some_of(*TLS_PROTOCOLS),
        "TLSv1.2,TLSv1.3",
        "The versions of TLS; empty: both.",
        Change.BROKER,
    )
    ssl_cipher_suites: str = listener_setting(
        "ssl.cipher.suites", cipher_suites, "", "The cipher suites; empty: those of OpenSSL's default.", Change.BROKER
    )
    ssl_endpoint_identification_algorithm: str = listener_setting(
        "ssl.endpoint.identification.algorithm",
        identification,
        "https",
        "Whether another broker's certificate must be for the host that this one connects to.",
        Change.BROKER,
    )
    ssl_keystore_type: str = listener_setting(
        "ssl.keystore.type",
        store_type,
        "JKS",
        "The format of the key store.",
    )
    ssl_keystore_location: str | None = listener_setting(
        "ssl.keystore.location",
        string,
        None,
        "The file with the private key and its certificates.",
    )
    ssl_keystore_password: Password | None = listener_setting(
        "ssl.keystore.password",
        password,
        None,
        "The password of a PKCS#12 key store.",
    )
    ssl_keystore_key: Password | None = listener_setting(
        "ssl.keystore.key",
        password,
        None,
        "The private key as PEM text (PKCS#8), instead of a file.",
    )
    ssl_keystore_certificate_chain: Password | None = listener_setting(
        "ssl.keystore.certificate.chain",
        password,
        None,
        "The certificates of that key as PEM text, the broker's own first.",
    )
    ssl_key_password: Password | None = listener_setting(
        "ssl.key.password",
        password,
        None,
        "The password of an encrypted private key.",
    )
    ssl_truststore_type: str = listener_setting(
        "ssl.truststore.type",
        store_type,
        "JKS",
        "The format of the trust store.",
    )
    ssl_truststore_location: str | None = listener_setting(
        "ssl.truststore.location",
        string,
        None,
        "The file with the certificates of trusted authorities; without one, those of the system.",
    )
    ssl_truststore_password: Password | None = listener_setting(
        "ssl.truststore.password",
        password,
        None,
        "The password of a PKCS#12 trust store.",
    )
    ssl_truststore_certificates: Password | None = listener_setting(
        "ssl.truststore.certificates",
        password,
        None,
        "Trusted certificates as PEM text, instead of a file.",
    )
    ssl_principal_mapping_rules: str = listener_setting(
        "ssl.principal.mapping.rules",
        _MAPPING_RULES,
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes its principal: "
        "RULE:pattern/replacement/[LU] or DEFAULT, comma-separated; the first that matches.",
        Change.NOWHERE,
    )
    ssl_allow_dn_changes: bool = listener_setting(
        "ssl.allow.dn.changes",
        boolean,
        False,
        "Whether a key store may be replaced at run time by one of another distinguished name.",
        Change.NOWHERE,
    )
    ssl_allow_san_changes: bool = listener_setting(
        "ssl.allow.san.changes",
        boolean,
        False,
        "Whether a key store may be replaced at run time by one that lacks a host name of the former.",
        Change.NOWHERE,
    )
    tls_handshake_timeout_ms: int = setting(
        "sordini.tls.handshake.timeout.ms",
        integer(1),
        10000,
        "Time within which a new connection must complete its TLS handshake.",
    )
    tls_handshake_threads: int = setting(
        "sordini.tls.handshake.threads",
        integer(1, 64),
        1,
        "Threads that compute TLS handshakes, beside the event loop; the processor time that they may take.",
    )
    tls_handshakes_max: int = setting(
        "sordini.tls.handshakes.max",
        integer(1),
        1000,
        "Connections in a TLS handshake at the same time; further ones wait to be accepted.",
    )

    # As those of `Config`.
    def __init__(self, **values: Any) -> None:
        assert values.keys() <= _DEFAULTS.keys(), values.keys() - _DEFAULTS.keys()
        vars(self).update({**_DEFAULTS, **values})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecuritySettings) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


_DEFAULTS: Final = {field.name: field.default for field in dataclasses.fields(SecuritySettings)}
