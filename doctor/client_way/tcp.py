"""Names to addresses, and a connection to each of them."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket

from sordini.client.addresses import Address
from sordini.client.errors import reason_of
from sordini.system.named_tuple import NamedTuple

ADDRESSES_MAX = 8
"""Of one name; more are not tried."""


class Tried(NamedTuple):
    """One address of a name, and what came of a connection to it."""

    ip: str
    error: str = ""
    """Empty: it was accepted."""
    is_timeout: bool = False
    is_same_machine: bool = False
    """Whether both ends of the connection have one address, or the loopback's."""


async def resolve(address: Address, timeout_s: float) -> list[str]:
    """The IP addresses of a host, in the order in which the system tries them. Raises OSError and UnicodeError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        found = await loop.getaddrinfo(*address, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))[:ADDRESSES_MAX]


async def try_all(ips: list[str], port: int, timeout_s: float) -> list[Tried]:
    """Connect to all addresses at once; each connection is closed again."""
    return list(await asyncio.gather(*(_try(ip, port, timeout_s) for ip in ips)))


async def _try(ip: str, port: int, timeout_s: float) -> Tried:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(ip, port)
    except TimeoutError:
        return Tried(ip, f"no answer within {timeout_s:g} s", is_timeout=True)
    except OSError as error:
        return Tried(ip, _reason(error))
    own, peer = writer.get_extra_info("sockname")[0], writer.get_extra_info("peername")[0]
    writer.transport.abort()
    return Tried(ip, is_same_machine=own == peer or is_loopback(peer))


def _reason(error: OSError) -> str:
    """The system's words, without asyncio's."""
    if error.errno is not None and "Connect call failed" in str(error):
        text = os.strerror(error.errno)
        return text[:1].lower() + text[1:]
    return reason_of(error)


def is_loopback(ip: str) -> bool:
    """Whether an address is the machine's own loopback."""
    return ipaddress.ip_address(ip.partition("%")[0]).is_loopback
