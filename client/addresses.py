"""Where brokers listen. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_PORT: Final = "9092"


class Address(NamedTuple):
    """The host and port of a broker's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(bootstrap: str, *, allows_scheme: bool = False) -> list[Address]:
    """Read `HOST:PORT,HOST:PORT`, also `[::1]:9092`; the port may be left out (9092).

    With `allows_scheme`, `PLAINTEXT://HOST:PORT` is read, too, and the scheme ignored. Raises ValueError.
    """
    found = []
    for part in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, DEFAULT_PORT
        if allows_scheme:
            host = host.rpartition("://")[2]
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not HOST:PORT")
        found.append(Address(host, int(port)))
    if not found:
        raise ValueError("no address is given")
    return found
