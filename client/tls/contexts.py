"""OpenSSL contexts of servers and clients, from stores and the keys `ssl.*`.

Of TLS 1.2 only suites that authenticate and encrypt are known by name here, whatever OpenSSL's own words select. Python
sets the suites of TLS 1.3 only from version 3.15 on: naming some of them and not all is refused before.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Final

from sordini.client.tls.cipher_suites import OPENSSL_NAME, TLS13_SUITES, openssl_name
from sordini.client.tls.stores import KeyStore, StoreError, TrustStore
from sordini.system.files import MemoryFile
from sordini.system.named_tuple import NamedTuple

Context = ssl.SSLContext
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_REQUESTS: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_NO_RENEGOTIATION: Final = ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


class TlsMaterial(NamedTuple):
    """What makes a context."""

    protocols: tuple[str, ...]
    """TLSv1.2, TLSv1.3 or both."""
    cipher_suites: tuple[str, ...]
    """Names of Java or OpenSSL; empty: the default."""
    keys: KeyStore | None
    trust: TrustStore | None
    """None: the authorities that the system trusts."""


class ServerSession(ssl.SSLObject):
    """A connection at the server's end, which keeps what Python forgets: the server name that the client sent."""

    server_name: str | None = None


def server_context(material: TlsMaterial, client_auth: str) -> ssl.SSLContext:
    """For a listener; `client_auth` is none, requested or required. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, material)
    context.verify_mode = _REQUESTS[client_auth]
    if client_auth != "none":
        _trust(context, material.trust, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(material: TlsMaterial, *, checks_host: bool) -> ssl.SSLContext:
    """For connections to brokers. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host
    _configure(context, material)
    _trust(context, material.trust, ssl.Purpose.SERVER_AUTH)
    return context


def keep_server_names(context: ssl.SSLContext) -> None:
    """Keep the server name of each connection of a server's context. A name that is not ASCII fails its handshake."""
    context.sslobject_class = ServerSession
    context.sni_callback = _keep_server_name


def check_cipher_suites(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is no suite of this OpenSSL, or none that authenticates and encrypts."""
    for name in names:
        if name not in TLS13_SUITES and openssl_name(name) not in _known_suites():
            raise ValueError(f"{name} is no cipher suite here")


def _keep_server_name(session: ssl.SSLSocket | ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
    if isinstance(session, ServerSession):
        session.server_name = name


def _configure(context: ssl.SSLContext, material: TlsMaterial) -> None:
    context.options |= _NO_RENEGOTIATION
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # A trusted certificate need not be an authority's, as in Java.
    versions = _limit_suites(context, material)
    context.minimum_version, context.maximum_version = VERSIONS[versions[0]], VERSIONS[versions[-1]]
    if material.keys is not None:
        _load_keys(context, material.keys)


def _limit_suites(context: ssl.SSLContext, material: TlsMaterial) -> list[str]:
    """Set the cipher suites; the protocols that have one."""
    protocols = sorted(material.protocols)
    if not material.cipher_suites:
        return protocols
    newer = TLS13_SUITES & set(material.cipher_suites)
    older = [openssl_name(name) for name in material.cipher_suites if name not in TLS13_SUITES]
    if older:
        context.set_ciphers(":".join(older))
    has_suites = {"TLSv1.2": bool(older), "TLSv1.3": bool(newer)}
    left = [protocol for protocol in protocols if has_suites[protocol]]
    if not left:
        raise StoreError(f"ssl.cipher.suites has no suite of {' or '.join(protocols)} (ssl.enabled.protocols)")
    if "TLSv1.3" in left and newer != TLS13_SUITES:
        chooser = getattr(context, "set_ciphersuites", None)
        if chooser is None:
            raise StoreError(
                f"ssl.cipher.suites has some suites of TLSv1.3 only, which this version of Python cannot choose: name "
                f"all ({', '.join(sorted(TLS13_SUITES))}) or none of them"
            )
        chooser(":".join(sorted(newer)))
    return left


def _load_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    """Give OpenSSL the keys through a file: it takes them from nothing else. On Linux the file is in memory only."""
    file = MemoryFile("keys", keys.pem)
    try:
        context.load_cert_chain(file.path)
    except ssl.SSLError as error:
        raise StoreError(f"OpenSSL does not accept its key or certificate: {reason_of(error)}") from None
    finally:
        file.close()


def _trust(context: ssl.SSLContext, trust: TrustStore | None, purpose: ssl.Purpose) -> None:
    if trust is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trust.pem)
    except ssl.SSLError as error:
        raise StoreError(f"OpenSSL does not accept its certificates: {reason_of(error)}") from None


@cache
def _known_suites() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:!aNULL:!eNULL")
    return frozenset(one["name"] for one in context.get_ciphers() if re.fullmatch(OPENSSL_NAME, one["name"]))


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason as words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
