"""Listeners as text: `NAME://host:port`, their advertised addresses, and their security protocols."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable

from sordini.broker.configuration.settings import ConfigError
from sordini.system.named_tuple import NamedTuple

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OPEN_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound to.
"""Hosts that stand for all addresses of the machine."""
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")


class ListenerEndpoint(NamedTuple):
    """One listener: its name, its security protocol, and the address it binds or advertises."""

    name: str
    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        """Render as in server.properties."""
        return f"{self.name}://{self.address}"

    @property
    def address(self) -> str:
        """HOST:PORT as clients and our own commands take it; IPv6 addresses stand in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of(endpoints: Iterable[ListenerEndpoint]) -> str:
    """As they are pasted into options and clients' settings, with the name of each listener that is not PLAINTEXT."""
    return ", ".join(
        endpoint.address if endpoint.name == "PLAINTEXT" else f"{endpoint.address} ({endpoint.name})"
        for endpoint in endpoints
    )


def read_protocol_map(text: str) -> dict[str, str]:
    """Read listener.security.protocol.map; raises ConfigError."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        if not name or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map={entry!r} is not valid: "
                f"allowed is NAME:PROTOCOL with one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol
    return protocols


def read_endpoints(key: str, text: str, protocols: dict[str, str]) -> tuple[ListenerEndpoint, ...]:
    """Read a list of listeners; raises ConfigError on a malformed one, a name twice or a port twice."""
    endpoints = tuple(_read_endpoint(key, part.strip(), protocols) for part in text.split(",") if part.strip())
    if not endpoints:
        raise ConfigError(f"{key}={text!r} is not valid: allowed is at least one NAME://host:port")
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}={text!r} is not valid: each listener name is allowed once")
    addresses = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if key == "listeners" and len(set(addresses)) != len(addresses):
        raise ConfigError(f"{key}={text!r} is not valid: each address is allowed once")
    return endpoints


def _read_endpoint(key: str, entry: str, protocols: dict[str, str]) -> ListenerEndpoint:
    name, separator, address = entry.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not name or not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{key}={entry!r} is not valid: allowed is NAME://host:port with a port from 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    protocol = protocols.get(name.upper()) or (name.upper() if name.upper() in SECURITY_PROTOCOLS else None)
    if protocol is None:
        raise ConfigError(
            f"{key}={entry!r} is not valid: {name} needs an entry in listener.security.protocol.map "
            f"with one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    return ListenerEndpoint(name.upper(), protocol, host, int(port))


def advertised_endpoints(
    text: str | None, listeners: tuple[ListenerEndpoint, ...], protocols: dict[str, str], host: str | None = None
) -> tuple[ListenerEndpoint, ...]:
    """The advertised endpoints: `advertised.listeners`, or the listeners with `host` in place of all addresses.

    Without `host` (`sordini.advertised.host`) it is the machine's name, as with Apache Kafka.

    Raises ConfigError for an advertised name without a listener, for the address 0.0.0.0, and for an invalid host.
    """
    if host and not is_host(host):
        raise ConfigError(
            f"sordini.advertised.host={host!r} is not valid: allowed is a name or an address that clients can "
            "connect to, without a port"
        )
    if not text or not text.strip():
        default = host or os.uname().nodename
        return tuple(end._replace(host=default) if end.host in OPEN_HOSTS else end for end in listeners)
    advertised = read_endpoints("advertised.listeners", text, protocols)
    known = {endpoint.name for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.name not in known:
            raise ConfigError(
                f"advertised.listeners={endpoint!s} is not valid: allowed names are those of listeners "
                f"({', '.join(sorted(known))})"
            )
        if endpoint.host in OPEN_HOSTS:
            raise ConfigError(
                f"advertised.listeners={endpoint!s} is not valid: allowed is an address that clients can connect to"
            )
    return advertised


def is_host(text: str) -> bool:
    """Whether a text is a host name or an address, and does not stand for all addresses."""
    if text in OPEN_HOSTS:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True
