"""Where brokers listen. Pure."""

from __future__ import annotations

from typing import Final

from sordini.system.named_tuple import NamedTuple

DEFAULT_PORT: Final = "9092"
WEB: Final = frozenset({"http", "https"})
"""Words before `://` that are no listener's name."""


class Address(NamedTuple):
    """The host and port of a broker's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """Read `HOST:PORT,HOST:PORT`, also `[::1]:9092`; the port may be left out (9092).

    A listener's name before it, as brokers print it (`PLAINTEXT://HOST:PORT`), is skipped. Raises ValueError.
    """
    found = []
    for part in _parts(bootstrap):
        scheme, _, address = part.rpartition("://")
        if scheme.lower() in WEB:
            raise ValueError(f"{part!r} is not HOST:PORT: brokers do not speak HTTP, leave {scheme}:// out")
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, DEFAULT_PORT
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not HOST:PORT")
        found.append(Address(host, int(port)))
    if not found:
        raise ValueError("no address is given")
    return found


def listener_names(bootstrap: str) -> list[str]:
    """The listener names that stand before the addresses, in upper case."""
    return [part.partition("://")[0].upper() for part in _parts(bootstrap) if "://" in part]


def _parts(bootstrap: str) -> list[str]:
    return [part for part in (part.strip() for part in bootstrap.split(",")) if part]
