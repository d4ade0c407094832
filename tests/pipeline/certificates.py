"""Certificates for tests, made by openssl: an authority, one certificate for 127.0.0.1, and one for a client."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.outside.needs import need_program


class Certificates(NamedTuple):
    """Files in PEM; a key store is a key and the certificate that goes with it in one file, as Kafka reads them."""

    authority: Path
    server_store: Path
    client_store: Path
    client_key: Path
    client_certificate: Path
    stranger_store: Path
    """A client's that another authority has signed."""


def make_certificates(directory: Path) -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    authority, stranger = _authority(directory, "authority"), _authority(directory, "stranger")
    server = _signed(directory, "server", authority, "subjectAltName=IP:127.0.0.1")
    client = _signed(directory, "client", authority, "extendedKeyUsage=clientAuth")
    other = _signed(directory, "other", stranger, "extendedKeyUsage=clientAuth")
    stores = [_store(directory, name) for name in ("server", "client", "other")]
    assert server.exists()
    assert other.exists()
    return Certificates(authority, stores[0], stores[1], directory / "client.key", client, stores[2])


def _authority(directory: Path, name: str) -> Path:
    path = directory / f"{name}.pem"
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"),
        *("-subj", f"/CN={name}", "-keyout", directory / f"{name}.key", "-out", path),
    )
    return path


def _signed(directory: Path, name: str, authority: Path, extension: str) -> Path:
    request, extensions, path = directory / f"{name}.csr", directory / f"{name}.ext", directory / f"{name}.crt"
    extensions.write_text(extension, encoding="utf-8")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", directory / f"{name}.key", "-out", request),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority.with_suffix(".key")),
        *("-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", path),
    )
    return path


def _store(directory: Path, name: str) -> Path:
    store = directory / f"{name}-store.pem"
    store.write_bytes((directory / f"{name}.key").read_bytes() + (directory / f"{name}.crt").read_bytes())
    return store


def _openssl(*words: str | Path) -> None:
    command = [need_program("openssl", "openssl"), *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
