"""Sends a listener a word of each protocol, on a connection of its own, and reads the beginning of the answer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from sordini.client.addresses import Address
from sordini.client.cluster import open_link
from sordini.client.cluster_core import Access
from sordini.client.errors import ClientError
from sordini.client.sockets import connect
from sordini.doctor.client_way.peer import PeerAnswers
from sordini.system.named_tuple import NamedTuple

ANSWER_S = 1.5
"""How long one word waits for its answer."""
BANNER_S = 0.3
"""How long a peer that speaks first may take."""
_BYTES = 256


class _Answer(NamedTuple):
    answer: bytes
    is_closed: bool


async def ask_peer(ip: str, port: int) -> PeerAnswers:
    """What a peer answers to Kafka, TLS, HTTP and ZooKeeper."""
    is_tls = await speaks_tls(ip, port)
    context = any_tls() if is_tls else None
    kafka, http, zookeeper, banner = await asyncio.gather(
        _speaks_kafka(ip, port),
        _exchange(ip, port, b"GET / HTTP/1.0\r\n\r\n", ANSWER_S, context),
        _exchange(ip, port, b"srvr", ANSWER_S),
        _exchange(ip, port, b"", BANNER_S),
    )
    return PeerAnswers(
        is_kafka=kafka,
        is_tls=is_tls,
        http=http.answer,
        zookeeper=b"" if is_tls else zookeeper.answer,
        banner=banner.answer,
        is_silent=not (http.is_closed or zookeeper.is_closed or banner.is_closed),
    )


async def speaks_tls(ip: str, port: int) -> bool:
    """Whether a peer answers a handshake as TLS does, if only with an alert."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(ip, port, ssl=any_tls())
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


async def _speaks_kafka(ip: str, port: int) -> bool:
    address = Address(ip, port)
    access = Access((address,), "sordini-doctor", connect_s=ANSWER_S)
    try:
        link = await open_link(address, access, connect)
    except ClientError:
        return False
    link.close()
    return True


async def _exchange(
    ip: str, port: int, word: bytes, timeout_s: float, context: ssl.SSLContext | None = None
) -> _Answer:
    """Send a word and read once; nothing, where the peer only waits or closes."""
    writer = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(ip, port, ssl=context)
            writer.write(word)
            answer = await reader.read(_BYTES)
            return _Answer(answer, is_closed=not answer)
    except TimeoutError:
        return _Answer(b"", is_closed=False)
    except OSError:
        return _Answer(b"", is_closed=True)
    finally:
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.transport.abort()


def any_tls() -> ssl.SSLContext:
    """A context for any version and any certificate: to find out what listens; nothing is entrusted to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    return context
