"""Certificates that a broker makes for itself: an authority, and what it issues for the broker's host names.

Pure but for the keys, which are random. Keys are elliptic (P-256), which every client of the last ten years knows, and
which cost a millisecond to make.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sordini.system.clock import utc_moment
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAY_MS: Final = 24 * 3600 * 1000
AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 730
COMMON_NAME_MAX: Final = 64
"""Characters of a common name (RFC 5280)."""
CLOCK_SKEW_DAYS: Final = 1
"""A certificate is valid this long before it was made, for clients whose clocks are late."""


class KeyAndCertificate(NamedTuple):
    """A private key and its certificate."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    def __repr__(self) -> str:
        return f"KeyAndCertificate({self.certificate.subject.rfc4514_string()!r})"

    @property
    def certificate_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key (PKCS#8, not encrypted)."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def pem(self) -> bytes:
        """The key, and the certificate."""
        return self.key_pem + self.certificate_pem

    @property
    def expires_ms(self) -> int:
        """Unix time from which on it is not valid."""
        return int(self.certificate.not_valid_after_utc.timestamp() * 1000)


def make_authority(name: str, now_ms: int) -> KeyAndCertificate:
    """An authority that may issue certificates of brokers and clients, and no further authority."""
    from cryptography import x509

    key = _new_key()
    builder = _builder(_name(name), _name(name), key, now_ms, now_ms + AUTHORITY_DAYS * DAY_MS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _signed(key, builder.add_extension(_usage(is_authority=True), critical=True), key)


def issue(
    authority: KeyAndCertificate, name: str, hosts: Iterable[str], now_ms: int, *, is_client: bool = False
) -> KeyAndCertificate:
    """A certificate for a broker with these hosts, or for a client; it is valid no longer than its authority."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = _new_key()
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
    until_ms = min(now_ms + CERTIFICATE_DAYS * DAY_MS, authority.expires_ms)
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_name(name), authority.certificate.subject, key, now_ms, until_ms)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(by, critical=False)
    )
    return _signed(key, builder, authority.key)


def read_pair(pem: bytes) -> KeyAndCertificate:
    """Read a key and its certificate. Raises ValueError, without a part of the text."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key, certificate = load_pem_private_key(pem, None), x509.load_pem_x509_certificate(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("it has no private key and certificate in PEM format") from None
    if not isinstance(key, EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        raise ValueError("its certificate is not that of its key")
    return KeyAndCertificate(key, certificate)


def is_issued_by(authority: KeyAndCertificate, certificate: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def hosts_of(certificate: x509.Certificate) -> frozenset[str]:
    """The host names and addresses that a certificate is for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset((*(name.lower() for name in names.get_values_for_type(x509.DNSName)), *addresses))


def normal_host(host: str) -> str:
    """A host as `hosts_of` has it."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def _name(text: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:COMMON_NAME_MAX])])


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now_ms: int, until_ms: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(utc_moment(now_ms - CLOCK_SKEW_DAYS * DAY_MS))
        .not_valid_after(utc_moment(until_ms))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    key: EllipticCurvePrivateKey, builder: x509.CertificateBuilder, by: EllipticCurvePrivateKey
) -> KeyAndCertificate:
    from cryptography.hazmat.primitives import hashes

    return KeyAndCertificate(key, builder.sign(by, hashes.SHA256()))
