"""Key stores and trust stores: PEM and PKCS#12, read with the library `cryptography`.

Whatever the format, OpenSSL is given PEM. A store of type JKS may be a PKCS#12 file, as Java writes and reads them
since version 9; one in Java's own former format is refused with the command that converts it. Errors name no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordini.client.tls.pem import CERTIFICATES, pem_blocks
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


class StoreError(ValueError):
    """A store that cannot be used; the text says why, and no secret."""


class KeyStore(NamedTuple):
    """A private key and its certificates, the key's own first."""

    key_pem: bytes
    """PKCS#8, not encrypted: only memory holds it."""
    certificates: tuple[x509.Certificate, ...]

    def __repr__(self) -> str:
        return f"KeyStore({self.certificates[0].subject.rfc4514_string()!r})"

    @property
    def certificate(self) -> x509.Certificate:
        """The key's own."""
        return self.certificates[0]

    @property
    def pem(self) -> bytes:
        """Key and certificates, as OpenSSL reads them."""
        return self.key_pem + b"".join(map(_certificate_pem, self.certificates))


class TrustStore(NamedTuple):
    """Certificates that are trusted, and those that they have issued."""

    certificates: tuple[x509.Certificate, ...]

    @property
    def pem(self) -> str:
        return b"".join(map(_certificate_pem, self.certificates)).decode("ascii")


def key_store_of(kind: str, data: bytes, store_password: str | None, key_password: str | None) -> KeyStore:
    """Read a key store of type JKS, PKCS12 or PEM. Raises StoreError."""
    if kind == "PEM":
        return pem_key_store(data.decode("utf-8", "replace"), data.decode("utf-8", "replace"), key_password)
    from cryptography.hazmat.primitives.serialization import pkcs12

    _refuse_jks(data)
    secret = None if store_password is None else store_password.encode()
    try:
        loaded = pkcs12.load_pkcs12(data, secret)
    except ValueError:
        raise StoreError("it is no PKCS#12 file, or its password is another one") from None
    if loaded.key is None or loaded.cert is None:
        raise StoreError("it has no private key with a certificate")
    others = [one.certificate for one in loaded.additional_certs]
    return _checked(loaded.key, [loaded.cert.certificate, *others])


def pem_key_store(key_text: str, chain_text: str, key_password: str | None) -> KeyStore:
    """Read a private key and its certificates from PEM text. Raises StoreError."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    keys = [block for block in pem_blocks(key_text) if block.is_key]
    if len(keys) != 1:
        raise StoreError(f"it has {len(keys)} private keys in PEM format; allowed is one")
    is_encrypted = keys[0].label == "ENCRYPTED PRIVATE KEY"
    if is_encrypted and key_password is None:
        raise StoreError("its private key is encrypted, and ssl.key.password is not set")
    try:
        key = load_pem_private_key(
            keys[0].text.encode(), key_password.encode() if is_encrypted and key_password is not None else None
        )
    except (ValueError, TypeError):
        why = "or ssl.key.password is not its password" if is_encrypted else "in PKCS#8"
        raise StoreError(f"its private key cannot be read: it is damaged, {why}") from None
    return _checked(key, _certificates(chain_text))


def trust_store_of(kind: str, data: bytes, password: str | None) -> TrustStore:
    """Read a trust store of type JKS, PKCS12 or PEM. Raises StoreError."""
    if kind == "PEM":
        return pem_trust_store(data.decode("utf-8", "replace"))
    from cryptography.hazmat.primitives.serialization import pkcs12

    _refuse_jks(data)
    try:
        loaded = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise StoreError("it is no PKCS#12 file, or its password is another one") from None
    found = [one.certificate for one in loaded.additional_certs]
    if loaded.cert is not None:
        found.append(loaded.cert.certificate)
    return _trusted(found)


def pem_trust_store(text: str) -> TrustStore:
    """Read trusted certificates from PEM text. Raises StoreError."""
    return _trusted(_certificates(text))


def _trusted(found: list[x509.Certificate]) -> TrustStore:
    if not found:
        raise StoreError("it has no certificate")
    return TrustStore(tuple(found))


def _certificates(text: str) -> list[x509.Certificate]:
    from cryptography import x509

    blocks = [block for block in pem_blocks(text) if block.label in CERTIFICATES]
    try:
        return [x509.load_pem_x509_certificate(block.text.encode()) for block in blocks]
    except ValueError:
        raise StoreError("it has a certificate that cannot be read") from None


def _checked(key: object, certificates: list[x509.Certificate]) -> KeyStore:
    """The key with its own certificate first and the others in the order in which each is issued by the next."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    def public(of: object) -> bytes:
        encoded: bytes = of.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]
        return encoded

    own = [one for one in certificates if public(one) == public(key)]
    if not own:
        raise StoreError("it has no certificate for its private key")
    chain = [own[0]]
    others = [one for one in certificates if one is not own[0]]
    while (following := next((one for one in others if one.subject == chain[-1].issuer), None)) is not None:
        chain.append(following)
        others.remove(following)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return KeyStore(pem, tuple(chain))


def _refuse_jks(data: bytes) -> None:
    if data.startswith(_JKS_MAGIC):
        raise StoreError(
            "it is in Java's own format, which only Java reads; convert it: keytool -importkeystore -srckeystore FILE "
            "-destkeystore FILE.p12 -deststoretype PKCS12"
        )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
