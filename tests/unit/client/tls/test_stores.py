"""Key stores and trust stores of both formats, inline and as files, and the errors of those that cannot be used."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sordini.client.tls.cipher_suites import TLS13_SUITES, openssl_name
from sordini.client.tls.contexts import TlsMaterial, check_cipher_suites, server_context
from sordini.client.tls.pem import pem_blocks
from sordini.client.tls.stores import StoreError, key_store_of, pem_key_store, pem_trust_store, trust_store_of
from tests.support.certificates import PASSWORD, Authority, one_line

AUTHORITY = Authority()
ISSUED = AUTHORITY.issue("broker")
OTHER = AUTHORITY.issue("other")


def test_pem_in_one_line_is_read_as_pem_in_lines() -> None:
    text = ISSUED.key_pem() + ISSUED.chain_pem
    expected = pem_blocks(text)
    assert [block.label for block in expected] == ["PRIVATE KEY", "CERTIFICATE"]
    assert pem_blocks(one_line(text)) == expected
    assert pem_blocks(text.replace("\n", "\\n")) == expected
    assert pem_blocks(text.replace("\n", "")) == expected


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_pkcs12_store_has_its_key_and_its_certificates_in_their_order(kind: str, tmp_path: Path) -> None:
    data = ISSUED.pkcs12_file(tmp_path / "key.p12").read_bytes()
    store = key_store_of(kind, data, PASSWORD, None)
    assert [one.subject for one in store.certificates] == [ISSUED.certificate.subject, AUTHORITY.certificate.subject]
    assert PASSWORD not in repr(store)
    trusted = trust_store_of(kind, AUTHORITY.pkcs12_file(tmp_path / "trust.p12").read_bytes(), PASSWORD)
    assert trusted.certificates == (AUTHORITY.certificate,)


def test_a_pem_file_has_both_also_with_an_encrypted_key(tmp_path: Path) -> None:
    for password in (None, PASSWORD):
        data = ISSUED.pem_file(tmp_path / "both.pem", password).read_bytes()
        assert key_store_of("PEM", data, None, password).certificate == ISSUED.certificate
    assert trust_store_of("PEM", AUTHORITY.pem.encode(), None).pem == AUTHORITY.pem


def test_a_store_that_cannot_be_used_says_why_and_no_secret(tmp_path: Path) -> None:
    pkcs12 = ISSUED.pkcs12_file(tmp_path / "key.p12").read_bytes()
    encrypted = ISSUED.key_pem(PASSWORD)
    cases = [
        (lambda: key_store_of("PKCS12", pkcs12, "wrong-secret", None), "no PKCS#12 file, or its password"),
        (lambda: key_store_of("PKCS12", b"x", PASSWORD, None), "no PKCS#12 file, or its password"),
        (lambda: key_store_of("JKS", b"\xfe\xed\xfe\xed123", PASSWORD, None), "keytool -importkeystore"),
        (lambda: trust_store_of("JKS", b"\xfe\xed\xfe\xed123", PASSWORD), "keytool -importkeystore"),
        (lambda: pem_key_store(ISSUED.key_pem(), OTHER.chain_pem, None), "no certificate for its private key"),
        (lambda: pem_key_store("", ISSUED.chain_pem, None), "0 private keys"),
        (lambda: pem_key_store(encrypted, ISSUED.chain_pem, None), "ssl.key.password is not set"),
        (lambda: pem_key_store(encrypted, ISSUED.chain_pem, "wrong-secret"), "is not its password"),
        (lambda: pem_trust_store("nothing"), "no certificate"),
        (lambda: pem_trust_store(AUTHORITY.pem.replace("MII", "MIJ", 1)), "cannot be read"),
    ]
    for read, why in cases:
        with pytest.raises(StoreError) as refusal:
            read()
        assert why in str(refusal.value)
        assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_a_cipher_suite_has_the_name_of_java_and_of_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    check_cipher_suites([java, openssl])


@pytest.mark.parametrize(
    "name", ["ALL", "eNULL", "HIGH:!aNULL", "TLS_NO_SUCH_WITH_SUITE", "NULL-SHA256", "ADH-AES128-SHA", ""]
)
def test_a_name_that_is_no_suite_or_one_that_protects_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no cipher suite"):
        check_cipher_suites([name])


def test_the_suites_that_are_named_limit_the_protocols() -> None:
    keys = pem_key_store(ISSUED.key_pem(), ISSUED.chain_pem, None)

    def context(*suites: str, protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")) -> ssl.SSLContext:
        return server_context(TlsMaterial(protocols, suites, keys, None), "none")

    older = "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert context(older).maximum_version is ssl.TLSVersion.TLSv1_2
    assert context(*TLS13_SUITES).minimum_version is ssl.TLSVersion.TLSv1_3
    both = context(older, *TLS13_SUITES)
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(StoreError, match="no suite of TLSv1"):
        context(older, protocols=("TLSv1.3",))
    if not hasattr(ssl.SSLContext, "set_ciphersuites"):
        with pytest.raises(StoreError, match="name all"):
            context("TLS_AES_128_GCM_SHA256")
