"""Connecting to one broker, with or without TLS, and error texts that name the option to set.

What `connect` returns is a port: tests put fake brokers behind it. Every wait is bounded by the caller.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from sordini.client.addresses import Address
from sordini.client.blocking import SocketTransport, open_socket, start_tls
from sordini.client.errors import (
    ClientError,
    InvalidLength,
    NotABroker,
    Unauthorized,
    Unreachable,
    reason_of,
    with_text,
)
from sordini.client.ports import Transport
from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source.client.settings import ClientSettings, Pem, Tls

_OTHER_PROTOCOLS: Final = {b"HTTP": "HTTP", b"SSH-": "SSH", b"\x15\x03": "TLS"}


class ClientPorts(NamedTuple):
    """The ports through which a client reaches the network and the clock."""

    connect: Callable[[Address, ClientSettings], Transport]
    monotonic: Callable[[], float]
    """Seconds."""
    sleep: Callable[[float], None]
    """Seconds."""


def connect(address: Address, settings: ClientSettings) -> Transport:
    """Connect, with the TLS handshake if there is TLS.

    Raises Unreachable, NotABroker when the peer does not speak TLS, Unauthorized when one side does not trust the
    other, and BadSetting for certificates that cannot be read.
    """
    seconds = settings.limits.connect_ms / 1000
    context = None if settings.tls is None else tls_context(settings.tls)
    connected = open_socket(address, seconds)
    if context is not None:
        try:
            connected = start_tls(connected, context, address.host)
        except OSError as error:
            raise tls_error(address, error) from None
    return SocketTransport(connected)


def explain(address: Address, error: ClientError) -> ClientError:
    """What ended the negotiation or the login on a new connection, with the option to set."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return tls_error(address, cause)
    if isinstance(error, InvalidLength):
        return NotABroker(_other_protocol(address, error.first_bytes))
    if isinstance(error, Unreachable):  # A listener for something else often just closes the connection.
        return with_text(error, f"{error}: is kafka.security.protocol right?")
    return error


def _other_protocol(address: Address, first: bytes) -> str:
    name = _OTHER_PROTOCOLS.get(first) or _OTHER_PROTOCOLS.get(first[:2])
    spoken = f"speaks {name}" if name else "does not answer as a broker does"
    advice = "is kafka.security.protocol right?" if name == "TLS" else "is this a Kafka listener?"
    return f"{address} {spoken}: {advice}"


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The settings as an OpenSSL context. Raises BadSetting for what OpenSSL cannot read."""
    context = ssl.create_default_context() if not tls.authorities else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.checks_host
    option = "ssl.truststore"
    try:
        if tls.authorities.path:
            context.load_verify_locations(cafile=tls.authorities.path)
        elif tls.authorities.text:
            context.load_verify_locations(cadata=tls.authorities.text)
        option = "ssl.keystore"
        if tls.certificate:
            with _file_of(tls.certificate) as certificate, _file_of(tls.key) as key:
                context.load_cert_chain(certificate, key or None, password=lambda: tls.key_password)
        elif tls.key:
            raise BadSetting("kafka.ssl.keystore.key goes with kafka.ssl.keystore.certificate.chain, which is missing")
    except OSError as error:  # ssl.SSLError is one, too.
        raise BadSetting(f"kafka.{option}.*: this is not read as PEM: {reason_of(error)}") from None
    return context


@contextmanager
def _file_of(pem: Pem) -> Iterator[str]:
    """The path of a file that holds it; OpenSSL takes keys from files only. A temporary file is its owner's alone."""
    if not pem.text:
        yield pem.path
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")  # Mode 0600.
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(pem.text)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def tls_error(address: Address, error: OSError) -> Unreachable | Unauthorized:
    """What went wrong in or after a TLS handshake, with the option to set."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unauthorized(
            f"{address} shows a certificate that is not trusted here: {error.verify_message} "
            "(kafka.ssl.truststore.location or .certificates says whom to trust)"
        )
    if not isinstance(error, ssl.SSLError):
        return Unreachable(f"{address} broke off the TLS handshake: {reason_of(error)} (does this listener speak TLS?)")
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "handshake failure" in reason or "unknown ca" in reason):
        return Unauthorized(
            f"{address} does not accept our certificate, or requires one: {reason} "
            "(kafka.ssl.keystore.certificate.chain and .key, or kafka.ssl.keystore.location)"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Unreachable(f"{address} closed the connection (does this listener speak TLS?)")
    return NotABroker(f"{address} does not speak TLS as we do: {reason} (is kafka.security.protocol right?)")


SYSTEM = ClientPorts(connect, time.monotonic, time.sleep)
