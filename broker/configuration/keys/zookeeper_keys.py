"""The keys that protect the connection to ZooKeeper and the znodes: TLS, a login, and access control lists.

Names and defaults are Apache Kafka 3.9's (KIP-515), but for the login: Apache Kafka logs in by SASL, this broker by
ZooKeeper's own scheme `digest`, with a user and a file with the password. Keys that would have no effect refuse the
start: TLS keys without `zookeeper.ssl.client.enable`, a half of a login, and any of them without `zookeeper.connect`.
"""

# ruff: noqa: RUF009 - a `Password` is not changed, as the values of the other keys.

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

from sordini.broker.configuration.keys.security_keys import TLS_PROTOCOLS, cipher_suites, identification, store_type
from sordini.broker.configuration.protection.protection import check_start
from sordini.broker.configuration.settings import (
    ConfigError,
    Password,
    boolean,
    one_of,
    password,
    setting,
    settings_of,
    some_of,
    string,
)

NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
FILE_TYPES: Final = {".jks": "JKS", ".pem": "PEM", ".p12": "PKCS12"}
"""The type of a store whose type is not set, by the end of its name, as in ZooKeeper."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ZooKeeperSettings:
    """Settings of the protection of ZooKeeper."""

    zookeeper_set_acl: bool = setting(
        "zookeeper.set.acl",
        boolean,
        False,
        "Make znodes that only this login changes, and that others read unless they hold credentials. Needs a login: "
        "a key store (TLS), or `sordini.zookeeper.auth.user`.",
    )
    zookeeper_ssl_client_enable: bool = setting(
        "zookeeper.ssl.client.enable", boolean, False, "Connect to ZooKeeper by TLS."
    )
    zookeeper_client_cnxn_socket: str | None = setting(
        "zookeeper.clientCnxnSocket",
        one_of(NETTY, NIO),
        None,
        "The class that Apache Kafka connects with. No class is loaded here; with TLS, only Netty's name is allowed.",
    )
    zookeeper_ssl_keystore_location: str | None = setting(
        "zookeeper.ssl.keystore.location",
        string,
        None,
        "The file with this broker's key and certificates, which ZooKeeper takes for its login (`x509`).",
    )
    zookeeper_ssl_keystore_password: Password | None = setting(
        "zookeeper.ssl.keystore.password", password, None, "The password of the key store, and of its private key."
    )
    zookeeper_ssl_keystore_type: str | None = setting(
        "zookeeper.ssl.keystore.type",
        store_type,
        None,
        "The format of the key store; unset: by the end of its name, .pem, .p12 or .jks.",
    )
    zookeeper_ssl_truststore_location: str | None = setting(
        "zookeeper.ssl.truststore.location",
        string,
        None,
        "The file with the authorities that ZooKeeper's certificate is trusted by; without one, those of the system.",
    )
    zookeeper_ssl_truststore_password: Password | None = setting(
        "zookeeper.ssl.truststore.password", password, None, "The password of the trust store."
    )
    zookeeper_ssl_truststore_type: str | None = setting(
        "zookeeper.ssl.truststore.type",
        store_type,
        None,
        "The format of the trust store; unset: by the end of its name, .pem, .p12 or .jks.",
    )
    zookeeper_ssl_protocol: str = setting(
        "zookeeper.ssl.protocol",
        one_of(*TLS_PROTOCOLS),
        "TLSv1.2",
        "The version of TLS, where `zookeeper.ssl.enabled.protocols` is empty.",
    )
    zookeeper_ssl_enabled_protocols: str = setting(
        "zookeeper.ssl.enabled.protocols", some_of(*TLS_PROTOCOLS), "", "The versions of TLS."
    )
    zookeeper_ssl_cipher_suites: str = setting(
        "zookeeper.ssl.cipher.suites", cipher_suites, "", "The cipher suites; empty: those of OpenSSL's default."
    )
    zookeeper_ssl_endpoint_identification_algorithm: str = setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        identification,
        "HTTPS",
        "Whether ZooKeeper's certificate must be for the host that the broker connects to.",
    )
    zookeeper_auth_user: str | None = setting(
        "sordini.zookeeper.auth.user",
        string,
        None,
        "The user of a login by ZooKeeper's scheme `digest`.",
    )
    zookeeper_auth_password_file: str | None = setting(
        "sordini.zookeeper.auth.password.file",
        string,
        None,
        "The file with its password, which only its owner may read.",
    )

    @property
    def has_zookeeper_login(self) -> bool:
        """Whether ZooKeeper knows this broker by a certificate or a user."""
        has_certificate = self.zookeeper_ssl_client_enable and self.zookeeper_ssl_keystore_location is not None
        return has_certificate or self.zookeeper_auth_user is not None


KEYS: Final = settings_of(ZooKeeperSettings)
_OF_TLS: Final = [
    (key, field) for key, (field, _) in KEYS.items() if key.startswith("zookeeper.ssl.") and "client.enable" not in key
]
_DEFAULTS: Final = ZooKeeperSettings()


def read_zookeeper_settings(entries: Mapping[str, str]) -> ZooKeeperSettings:
    """The keys above among others, for commands that work on ZooKeeper without a broker. Raises ConfigError."""
    values: dict[str, Any] = {}
    for key, text in entries.items():
        if key in KEYS:
            field, declared = KEYS[key]
            values[field] = declared.rule.read(key, text)
        elif "zookeeper." in key.lower():
            check_start(key, text)
    settings = ZooKeeperSettings(**values)
    check_zookeeper(settings)
    return settings


def check_zookeeper(settings: ZooKeeperSettings, connect: str | None = None) -> None:
    """Raise ConfigError for protection that would not come about; `connect` is zookeeper.connect of a broker."""
    changed = [key for key, (field, _) in KEYS.items() if getattr(settings, field) != getattr(_DEFAULTS, field)]
    if connect == "" and changed:
        raise ConfigError(
            f"{changed[0]} asks for protection of ZooKeeper, and this broker has none; allowed is that only with "
            "zookeeper.connect"
        )
    if settings.zookeeper_ssl_client_enable:
        if settings.zookeeper_client_cnxn_socket == NIO:
            raise ConfigError(f"zookeeper.clientCnxnSocket={NIO} has no TLS: allowed is {NETTY}, or to leave it out")
        _check_store("keystore", settings.zookeeper_ssl_keystore_location, settings.zookeeper_ssl_keystore_type)
        _check_store("truststore", settings.zookeeper_ssl_truststore_location, settings.zookeeper_ssl_truststore_type)
    else:
        for key, field in _OF_TLS:
            if getattr(settings, field) != getattr(_DEFAULTS, field):
                raise ConfigError(f"{key} asks for TLS; allowed is that only with zookeeper.ssl.client.enable=true")
    if (settings.zookeeper_auth_user is None) != (settings.zookeeper_auth_password_file is None):
        raise ConfigError("sordini.zookeeper.auth.user and sordini.zookeeper.auth.password.file go together")
    if settings.zookeeper_auth_user is not None and not re.fullmatch("[^:]+", settings.zookeeper_auth_user):
        raise ConfigError("sordini.zookeeper.auth.user is not valid: allowed is a name without a colon")
    if settings.zookeeper_set_acl and not settings.has_zookeeper_login:
        raise ConfigError(
            "zookeeper.set.acl=true needs a login, which the znodes then belong to: zookeeper.ssl.client.enable=true "
            "with zookeeper.ssl.keystore.location, or sordini.zookeeper.auth.user"
        )


def store_kind(which: str, location: str, kind: str | None) -> str:
    """The type of a store, JKS, PEM or PKCS12. Raises ConfigError where neither its key nor its name says it."""
    found = kind or next((type_ for end, type_ in FILE_TYPES.items() if location.lower().endswith(end)), None)
    if found is None:
        raise ConfigError(
            f"zookeeper.ssl.{which}.location={location!r} does not say its type: allowed is a name that ends with "
            f"{', '.join(FILE_TYPES)}, or zookeeper.ssl.{which}.type"
        )
    return found


def _check_store(which: str, location: str | None, kind: str | None) -> None:
    if location is not None:
        store_kind(which, location, kind)
