"""A TLS handshake as a client does it, and the certificate that the peer has shown, whether or not it is trusted."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from typing import TYPE_CHECKING, Final

from sordini.client.tls.contexts import reason_of
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

EXPIRED: Final = 10
"""OpenSSL's numbers for why a certificate is refused (X509_V_ERR_...)."""
NOT_YET_VALID: Final = 9
WRONG_NAME: Final = frozenset({62, 64})
_VERSION_WORDS: Final = ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "VERSION_TOO_LOW", "WRONG_SSL_VERSION")


class Certificate(NamedTuple):
    """What a peer showed of itself."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    since: dt.datetime
    until: dt.datetime


class Handshake(NamedTuple):
    """How a handshake ended."""

    is_done: bool
    verify_code: int = 0
    """Why the certificate was refused."""
    reason: str = ""
    is_tls: bool = True
    """Whether the peer's bytes were TLS at all."""
    is_of_versions: bool = False
    """Whether the two have no version in common."""
    version: str = ""


async def shake_hands(ip: str, port: int, context: ssl.SSLContext, host: str, timeout_s: float) -> Handshake:
    """Connect and do the handshake; the connection is closed again."""
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(ip, port, ssl=context, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        return Handshake(is_done=False, verify_code=error.verify_code, reason=error.verify_message)
    except ssl.SSLError as error:
        word = error.reason or ""
        is_alert, of_versions = "ALERT" in word, any(part in word for part in _VERSION_WORDS)
        return Handshake(
            is_done=False, reason=reason_of(error), is_tls=is_alert or of_versions, is_of_versions=of_versions
        )
    except TimeoutError:
        return Handshake(is_done=False, reason=f"no answer within {timeout_s:g} s", is_tls=False)
    except OSError:
        return Handshake(is_done=False, reason="the connection was closed", is_tls=False)
    version = writer.get_extra_info("ssl_object").version()
    writer.transport.abort()
    return Handshake(is_done=True, version=version)


async def shown_certificate(ip: str, port: int, host: str, timeout_s: float) -> Certificate | None:
    """The certificate that a peer shows to a client that accepts any; None where the handshake fails all the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(ip, port, ssl=context, server_hostname=host)
    except (OSError, TimeoutError):
        return None
    encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return None if encoded is None else _read(encoded)


def _read(encoded: bytes) -> Certificate:
    from cryptography import x509  # Late: a tenth of a second, and only where there is TLS.

    found = x509.load_der_x509_certificate(encoded)
    return certificate_of(found)


def certificate_of(found: x509.Certificate) -> Certificate:
    """What the texts name of a certificate."""
    return Certificate(
        found.subject.rfc4514_string(),
        found.issuer.rfc4514_string(),
        names_of(found),
        found.not_valid_before_utc,
        found.not_valid_after_utc,
    )


def names_of(found: x509.Certificate) -> tuple[str, ...]:
    """The host names and addresses in a certificate's subject alternative names."""
    from cryptography import x509

    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))
