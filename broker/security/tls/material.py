"""From the keys of a listener to TLS contexts: reads the stores that they name.

Every error names the listener, the key and the file, and no secret.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from sordini.broker.configuration.keys.listener_keys import ListenerSecurity
from sordini.broker.configuration.keys.security_keys import TLS_PROTOCOLS, SecuritySettings
from sordini.broker.configuration.settings import ConfigError, Password
from sordini.client.tls.contexts import TlsMaterial, client_context, server_context
from sordini.client.tls.stores import (
    KeyStore,
    StoreError,
    TrustStore,
    key_store_of,
    pem_key_store,
    pem_trust_store,
    trust_store_of,
)
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

ReadFile = Callable[[str], bytes]
"""The bytes of a file; raises OSError."""


class ListenerContexts(NamedTuple):
    """What a listener's keys make."""

    server: ssl.SSLContext
    client: ssl.SSLContext | None
    """For connections to other brokers, of the listener between brokers."""
    certificate: x509.Certificate
    """The listener's own."""

    @property
    def expires_at_s(self) -> int:
        """Unix time."""
        return int(self.certificate.not_valid_after_utc.timestamp())


def contexts_of(security: ListenerSecurity, read: ReadFile, *, is_inter_broker: bool) -> ListenerContexts:
    """Read the stores of a listener. Raises ConfigError."""
    keys = security.keys
    try:
        key_store = _key_store(keys, read)
        if key_store is None:
            raise ConfigError("a TLS listener needs a key: ssl.keystore.location, or ssl.keystore.key as PEM text")
        material = _material(keys, key_store, read)
        checks_host = bool(keys.ssl_endpoint_identification_algorithm)
        # A context without a trust store loads the system's authorities, which takes a tenth of a second.
        client = client_context(material, checks_host=checks_host) if is_inter_broker else None
        return ListenerContexts(server_context(material, keys.ssl_client_auth), client, key_store.certificate)
    except (ConfigError, StoreError) as error:
        raise ConfigError(f"listener {security.name}: {error}") from None


def client_context_of(keys: SecuritySettings, read: ReadFile) -> ssl.SSLContext:
    """The context of a client with these keys. Raises ConfigError."""
    try:
        material = _material(keys, _key_store(keys, read), read)
        return client_context(material, checks_host=bool(keys.ssl_endpoint_identification_algorithm))
    except StoreError as error:
        raise ConfigError(str(error)) from None


def _material(keys: SecuritySettings, key_store: KeyStore | None, read: ReadFile) -> TlsMaterial:
    return TlsMaterial(
        tuple(keys.ssl_enabled_protocols.split(",")) if keys.ssl_enabled_protocols else TLS_PROTOCOLS,
        tuple(part.strip() for part in keys.ssl_cipher_suites.split(",") if part.strip()),
        key_store,
        _trust_store(keys, read),
    )


def store_files(keys: SecuritySettings) -> tuple[str, ...]:
    """The files that the stores are read from."""
    inline = {
        keys.ssl_keystore_location: keys.ssl_keystore_key,
        keys.ssl_truststore_location: keys.ssl_truststore_certificates,
    }
    return tuple(path for path, instead in inline.items() if path and not _text(instead))


def _key_store(keys: SecuritySettings, read: ReadFile) -> KeyStore | None:
    key, chain, location = keys.ssl_keystore_key, keys.ssl_keystore_certificate_chain, keys.ssl_keystore_location
    try:
        if _text(key) or _text(chain):
            if not (_text(key) and _text(chain)) or keys.ssl_keystore_type != "PEM" or location:
                raise StoreError(
                    "ssl.keystore.key and ssl.keystore.certificate.chain go together, with ssl.keystore.type=PEM and "
                    "without ssl.keystore.location"
                )
            return pem_key_store(_text(key), _text(chain), _text(keys.ssl_key_password) or None)
        if not location:
            return None
        data = read(location)
        store_password, key_password = _text(keys.ssl_keystore_password), _text(keys.ssl_key_password)
        return key_store_of(keys.ssl_keystore_type, data, store_password or None, key_password or None)
    except StoreError as error:
        where = f"ssl.keystore.location={location!r}: " if location else ""
        raise ConfigError(f"{where}{error}") from None
    except OSError as error:
        raise ConfigError(f"ssl.keystore.location={location!r}: {error.strerror}") from None


def _trust_store(keys: SecuritySettings, read: ReadFile) -> TrustStore | None:
    text, location = _text(keys.ssl_truststore_certificates), keys.ssl_truststore_location
    try:
        if text:
            if keys.ssl_truststore_type != "PEM" or location:
                raise StoreError(
                    "ssl.truststore.certificates goes with ssl.truststore.type=PEM and without ssl.truststore.location"
                )
            return pem_trust_store(text)
        if not location:
            return None
        return trust_store_of(keys.ssl_truststore_type, read(location), _text(keys.ssl_truststore_password) or None)
    except StoreError as error:
        where = f"ssl.truststore.location={location!r}: " if location else ""
        raise ConfigError(f"{where}{error}") from None
    except OSError as error:
        raise ConfigError(f"ssl.truststore.location={location!r}: {error.strerror}") from None


def _text(value: Password | None) -> str:
    return "" if value is None else value.text
