"""Rules of advertised addresses: which of a broker's addresses a connection is answered with. Pure.

A rule is a further endpoint of the broker under a name of its own, and the conditions in which a connection of its
listener is answered with the endpoints of that name, of all brokers. The name is decided once for a connection.
Brokers register the endpoints of their rules under a key of their own, and each broker reads those of the others there;
for one without an endpoint of that name (Apache Kafka has no rules) the answer has that of the listener.

    connection ── listener, source address, address it connected to, server name (TLS) ──► the first rule that holds
                                                                                             │            │ none
                                                                                             ▼            ▼
                                                                                     the rule's name   the listener's
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from sordini.system.named_tuple import NamedTuple

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class ConnectedAddress(NamedTuple):
    """An address of this machine that clients connect to; without a port it is any port."""

    host: IpAddress
    port: int | None


class RuleConditions(NamedTuple):
    """What a connection must have; an empty field is no condition, and of each field one element is enough."""

    sources: tuple[IpNetwork, ...] = ()
    """Networks of the client's address."""
    connected: tuple[ConnectedAddress, ...] = ()
    """The address that it connected to, at this machine: behind a translation of addresses, the translated one."""
    server_names: tuple[str, ...] = ()
    """TLS server names (RFC 6066) in lower case; `*.` in front stands for one label."""


class ConnectionFacts(NamedTuple):
    """What rules ask of a connection. Addresses are text as sockets report them."""

    source: str
    connected: tuple[str, int]
    server_name: str | None = None


class AddressRule(NamedTuple):
    """One rule: the name of the endpoints, and when it holds."""

    name: str
    conditions: RuleConditions


def endpoint_name(rules: Iterable[AddressRule], facts: ConnectionFacts) -> str | None:
    """The name of the first rule that holds; None when none does."""
    source, connected = _address(facts.source), _address(facts.connected[0])
    for rule in rules:
        wanted = rule.conditions
        if (
            (not wanted.sources or any(_contains(network, source) for network in wanted.sources))
            and (not wanted.connected or any(_is_at(one, connected, facts.connected[1]) for one in wanted.connected))
            and (not wanted.server_names or any(_is_named(name, facts.server_name) for name in wanted.server_names))
        ):
            return rule.name
    return None


def _address(text: str) -> IpAddress | None:
    """An address of a socket, without the zone of a link-local one; None for what is none (simulated networks)."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _contains(network: IpNetwork, address: IpAddress | None) -> bool:
    return address is not None and address.version == network.version and address in network


def _is_at(wanted: ConnectedAddress, host: IpAddress | None, port: int) -> bool:
    return wanted.host == host and wanted.port in {None, port}


def _is_named(wanted: str, name: str | None) -> bool:
    if name is None:
        return False
    name = name.lower().rstrip(".")
    if wanted.startswith("*."):
        label, dot, rest = name.partition(".")
        return bool(label and dot) and rest == wanted[2:]
    return name == wanted
