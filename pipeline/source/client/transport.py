"""Bytes to and from one broker: a TCP connection, with or without TLS, and how long each step may take.

What `connect` returns is a port: tests put brokers behind it that are not there. Every wait is bounded by the caller.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from sordini.pipeline.errors import BadSetting, Unauthorized, Unreachable
from sordini.pipeline.source.client.settings import Address, ClientSettings, Pem, Tls

_FIRST_BYTES_MAX: Final = 1024 * 1024
"""Memory that is taken on the word of a length; what is longer grows with the bytes that come."""


class Lost(Unreachable):
    """A connection could not be made, broke, or gave no answer in time: another attempt may do better."""


class Transport(Protocol):
    """An open connection. All methods raise Lost, and Unauthorized when TLS tells so late."""

    def send(self, data: bytes, seconds: float) -> None:
        """Send all of it, within so many seconds."""

    def receive(self, size: int, seconds: float) -> memoryview:
        """Receive exactly so many bytes, within so many seconds."""

    def close(self) -> None:
        """Hang up. May be called again."""


class Outside(NamedTuple):
    """The ports through which a client reaches the world."""

    connect: Callable[[Address, ClientSettings], Transport]
    monotonic: Callable[[], float]
    """Seconds."""
    pause: Callable[[float], None]
    """For so many seconds."""


def connect(address: Address, settings: ClientSettings) -> Transport:
    """Connect, and shake hands if there is TLS.

    Raises Lost; Unreachable when the other side does not speak TLS; Unauthorized when one side does not trust the
    other; BadSetting for certificates that cannot be read.
    """
    seconds = settings.limits.connect_ms / 1000
    context = None if settings.tls is None else tls_context(settings.tls)
    try:
        plain = socket.create_connection(address, timeout=seconds)
    except TimeoutError:
        raise Lost(f"cannot reach {address}: no answer within {seconds:g} s") from None
    except OSError as error:
        raise Lost(f"cannot reach {address}: {_reason(error)}") from None
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if context is None:
        return SocketTransport(plain, address)
    try:
        return SocketTransport(context.wrap_socket(plain, server_hostname=address.host), address)
    except OSError as error:
        plain.close()
        raise tls_error(address, error) from None


class SocketTransport:
    """A connected socket, plain or TLS."""

    def __init__(self, connected: socket.socket, address: Address) -> None:
        self._socket = connected
        self._address = address

    def send(self, data: bytes, seconds: float) -> None:
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error, seconds) from None

    def receive(self, size: int, seconds: float) -> memoryview:
        # The length is the other side's word; memory for much more than has come is not taken on it.
        buffer = bytearray(min(size, _FIRST_BYTES_MAX))
        deadline = time.monotonic() + seconds
        filled = 0
        try:
            while filled < size:
                if filled == len(buffer):
                    buffer += bytes(min(size - filled, 3 * filled))
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                with memoryview(buffer) as view:
                    count = self._socket.recv_into(view[filled:])
                if not count:
                    raise Lost(f"{self._address} closed the connection")
                filled += count
        except OSError as error:
            raise self._lost(error, seconds) from None
        return memoryview(buffer)

    def close(self) -> None:
        self._socket.close()

    def _lost(self, error: OSError, seconds: float) -> Unreachable | Unauthorized:
        if isinstance(error, TimeoutError):
            return Lost(f"{self._address} gave no answer within {seconds:g} s")
        if isinstance(error, ssl.SSLError):
            return tls_error(self._address, error)
        return Lost(f"the connection to {self._address} broke: {_reason(error)}")


def tls_context(tls: Tls) -> ssl.SSLContext:
    """The settings in the shape OpenSSL takes them. Raises BadSetting for what it cannot read."""
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
        raise BadSetting(f"kafka.{option}.*: this is not read as PEM: {_reason(error)}") from None
    return context


@contextmanager
def _file_of(pem: Pem) -> Iterator[str]:
    """The path of a file that holds it; OpenSSL takes keys from files only. Ours is gone at once, and nobody else's."""
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
    """What went wrong in or after a TLS handshake, in words that lead to the option to set."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unauthorized(
            f"{address} shows a certificate that is not trusted here: {error.verify_message} "
            "(kafka.ssl.truststore.location or .certificates says whom to trust)"
        )
    if not isinstance(error, ssl.SSLError):
        return Lost(f"{address} broke off the TLS handshake: {_reason(error)} (does this listener speak TLS?)")
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "handshake failure" in reason or "unknown ca" in reason):
        return Unauthorized(
            f"{address} does not accept our certificate, or wants one: {reason} "
            "(kafka.ssl.keystore.certificate.chain and .key, or kafka.ssl.keystore.location)"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Lost(f"{address} closed the connection (does this listener speak TLS?)")
    return Unreachable(f"{address} does not speak TLS as we do: {reason} (is kafka.security.protocol right?)")


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


OUTSIDE: Final = Outside(connect, time.monotonic, time.sleep)
