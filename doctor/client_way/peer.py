"""What listens at an address that does not answer as a broker should, decided from what it said. Pure."""

from __future__ import annotations

from sordini.doctor.faults import Fault
from sordini.system.named_tuple import NamedTuple

SHOWN_BYTES = 40


class PeerAnswers(NamedTuple):
    """What a peer answered to each protocol, on a connection of its own."""

    is_kafka: bool = False
    """It answered ApiVersions in plaintext."""
    is_tls: bool = False
    """It answered a TLS handshake, with a certificate or an alert."""
    http: bytes = b""
    """The beginning of its answer to an HTTP request; over TLS if it speaks that."""
    zookeeper: bytes = b""
    """The beginning of its answer to `srvr`."""
    banner: bytes = b""
    """What it said by itself."""
    is_silent: bool = False
    """It neither answered nor closed any of these."""


def fault_of(said: PeerAnswers, *, with_tls: bool) -> Fault:
    """What is wrong there, for a client that began with TLS or without."""
    if said.http.startswith(b"HTTP/"):
        return Fault.HTTP_SERVER
    if said.zookeeper.startswith((b"Zookeeper version", b"srvr is not executed", b"This ZooKeeper instance")):
        return Fault.ZOOKEEPER
    if said.is_tls and not with_tls:
        return Fault.TLS_SPOKEN_PLAIN
    if said.is_kafka and with_tls:
        return Fault.PLAIN_SPOKEN_TLS
    if any((said.http, said.zookeeper, said.banner)):
        return Fault.OTHER_PROTOCOL
    return Fault.SILENT if said.is_silent else Fault.CLOSED_UNANSWERED


def answer_shown(said: PeerAnswers) -> str:
    """The beginning of what it said, in quotes."""
    first = (said.http or said.banner or said.zookeeper).split(b"\n")[0].rstrip()[:SHOWN_BYTES]
    return repr(first.decode("ascii", "backslashreplace"))
