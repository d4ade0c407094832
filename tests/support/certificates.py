"""Certificates that tests make: an authority, and what it issues, as PEM text, as files and as PKCS#12."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
HOSTS = ("localhost", "127.0.0.1", "::1")
PASSWORD = "store-secret-7"


class Issued(NamedTuple):
    """A certificate with its key."""

    key: Key
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pem_file(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def pkcs12_file(self, path: Path, password: str = PASSWORD) -> Path:
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"key", self.key, self.certificate, [self.authority], encryption)
        )
        return path

    def inline(self, prefix: str = "") -> dict[str, str]:
        """The keys of a listener with this certificate as PEM text in one line."""
        return {
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.key": one_line(self.key_pem()),
            f"{prefix}ssl.keystore.certificate.chain": one_line(self.chain_pem),
        }


class Authority:
    """A certificate authority of one test."""

    def __init__(
        self, name: str = "Test Authority", *, rsa_bits: int | None = None, identifies_keys: bool = True
    ) -> None:
        """Without `identifies_keys` as simple tools make them: its certificates do not say by which key it signed."""
        self._key = _new_key(rsa_bits)
        self._identifies_keys = identifies_keys
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key(), 3650)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if identifies_keys:
            own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
            builder = builder.add_extension(own, critical=False).add_extension(_signs_certificates(), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def pem_file(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def inline(self, prefix: str = "") -> dict[str, str]:
        return {f"{prefix}ssl.truststore.type": "PEM", f"{prefix}ssl.truststore.certificates": one_line(self.pem)}

    def pkcs12_file(self, path: Path, password: str = PASSWORD) -> Path:
        """A trust store as Java makes it."""
        encryption = BestAvailableEncryption(password.encode())
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        path.write_bytes(pkcs12.serialize_java_truststore([trusted], encryption))
        return path

    def issue(
        self,
        name: str | x509.Name,
        hosts: tuple[str, ...] = HOSTS,
        *,
        days: float = 365,
        rsa_bits: int | None = None,
        serial_number: int | None = None,
        since_days: float = -400,
    ) -> Issued:
        """A certificate for a common name and host names, valid from `since_days` to `days` from now."""
        key = _new_key(rsa_bits)
        subject = (
            name if isinstance(name, x509.Name) else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        )
        builder = _builder(subject, self._name, key.public_key(), days, serial_number, since_days)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), False)
        if self._identifies_keys:
            by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(by, critical=False)
        return Issued(key, builder.sign(self._key, hashes.SHA256()), self.certificate)


def java_store_settings(keys: Path, trust: Path) -> dict[str, object]:
    """The keys of server.properties for PKCS#12 files with PASSWORD."""
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": keys,
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": trust,
        "ssl.truststore.password": PASSWORD,
    }


def _new_key(rsa_bits: int | None) -> Key:
    """An elliptic key, or an RSA key: slower, but keys and signatures of one length."""
    return rsa.generate_private_key(65537, rsa_bits) if rsa_bits else ec.generate_private_key(ec.SECP256R1())


def one_line(text: str) -> str:
    """PEM text as a value of server.properties."""
    return text.replace("\n", " ").strip()


def _signs_certificates() -> x509.KeyUsage:
    usages = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    return x509.KeyUsage(**usages, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    days: float,
    serial_number: int | None = None,
    since_days: float = -400,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial_number or x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days=since_days))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
