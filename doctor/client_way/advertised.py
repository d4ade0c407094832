"""The addresses that a cluster sends clients to, each tried from here as a client tries it."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Final

from sordini.client.addresses import Address
from sordini.client.cluster import Link
from sordini.client.errors import ClientError, Disconnected
from sordini.client.routing import metadata_request
from sordini.doctor.client_way.endpoint import Reached, reach
from sordini.doctor.client_way.means import Means
from sordini.doctor.client_way.tcp import is_loopback
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.system.named_tuple import NamedTuple

AT_ONCE = 16
BROKERS_MAX = 200
"""Of a larger cluster the first are tried; a fault of advertised addresses is mostly one of all."""
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")
_CONTAINER_NETWORKS = tuple(map(ipaddress.ip_network, ("172.16.0.0/12", "10.0.0.0/8", "192.168.0.0/16", "fc00::/7")))
_OTHER_LISTENERS: Final[Mapping[Fault, str]] = {
    Fault.TLS_SPOKEN_PLAIN: "it is a listener with TLS",
    Fault.PLAIN_SPOKEN_TLS: "it is a listener without TLS",
    Fault.HTTP_SERVER: "it is a web server",
    Fault.ZOOKEEPER: "it is a ZooKeeper",
    Fault.OTHER_PROTOCOL: "it is no Kafka broker",
    Fault.CLOSED_UNANSWERED: "it closes the connection before it answers",
    Fault.SILENT: "it accepts the connection and does not answer",
    Fault.SASL_NOT_ENABLED: "it has no logins",
    Fault.SASL_MECHANISM: "it has other mechanisms for logins",
}
"""What is there, where the client's own settings are right, as the bootstrap address has shown."""
_UNREACHED = (Fault.CONNECTION_REFUSED, Fault.CONNECTION_TIMEOUT)


class Bootstrap(NamedTuple):
    """The listener that named the addresses."""

    address: Address
    ip: str
    cluster_id: str
    is_same_machine: bool
    is_alone: bool
    """Whether the cluster has one broker, whose listener this then is."""


class Advertised(NamedTuple):
    """One broker's address, and what came of it."""

    broker: int
    address: Address
    result: str
    finding: Finding | None = None
    notes: tuple[Finding, ...] = ()


async def try_advertised(found: MetadataResponse, bootstrap: Bootstrap, means: Means) -> list[Advertised]:
    """Go the way to every broker, some at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(broker: int, address: Address) -> Advertised:
        async with slots:
            return await _try(broker, address, bootstrap, means)

    brokers = sorted(found.brokers, key=lambda broker: broker.node_id)[:BROKERS_MAX]
    return list(await asyncio.gather(*(one(each.node_id, Address(each.host, each.port)) for each in brokers)))


async def _try(broker: int, address: Address, bootstrap: Bootstrap, means: Means) -> Advertised:
    reached = await reach(address, means)
    try:
        facts = _facts(broker, address, bootstrap, means)
        finding = judged(reached, bootstrap, facts)
        if finding is None and reached.link is not None:
            finding = await _other_cluster(reached.link, bootstrap, address, facts)
    finally:
        if reached.link is not None:
            reached.link.close()
    if finding is None:
        return Advertised(broker, address, "reached from here", notes=_notes(reached, bootstrap))
    if finding.is_note:
        return Advertised(broker, address, "reached from here", notes=(finding,))
    return Advertised(broker, address, _result(reached, finding), finding)


def _result(reached: Reached, finding: Finding) -> str:
    check = next((check for check in reached.checks if not check.is_ok), None)
    return check.result if check is not None else finding.fault.value.replace("-", " ")


def judged(reached: Reached, bootstrap: Bootstrap, facts: Mapping[str, str]) -> Finding | None:
    """What is wrong with an advertised address, from how far the way to it led.

    The first that holds:

    1. only loopback addresses, and the broker is on another machine: no way can lead to it from here
    2. only loopback addresses, reached from another address of the same machine: others cannot reach it
    3. nothing went wrong
    4. the name does not resolve
    5. no connection, to a container's address where the bootstrap is a published port, or to any other
    6. something else listens there than at the bootstrap address
    7. what went wrong, as at the bootstrap address
    """
    at, address = str(reached.address), reached.address
    ips = [tried.ip for tried in reached.ips]
    if ips and all(map(is_loopback, ips)):
        if not bootstrap.is_same_machine:
            return Finding(Fault.ADVERTISED_LOOPBACK, at, facts)
        if not is_loopback(bootstrap.ip) and reached.link is not None:
            return Finding(Fault.ADVERTISED_LOOPBACK_LOCAL, at, facts)
    failed = next((finding for finding in reached.findings if not finding.is_note), None)
    if failed is None:
        return None
    if failed.fault is Fault.NAME_UNRESOLVED:
        return Finding(Fault.ADVERTISED_UNRESOLVED, at, {**facts, "reason": reached.reason, "hint": _hint(address)})
    if failed.fault in _UNREACHED:
        fault = Fault.ADVERTISED_CONTAINER if _is_container(bootstrap, ips) else Fault.ADVERTISED_UNREACHABLE
        return Finding(fault, at, {**facts, "reason": reached.reason})
    if failed.fault in _OTHER_LISTENERS and reached.address != bootstrap.address:
        return Finding(Fault.ADVERTISED_OTHER_LISTENER, at, {**facts, "what": _OTHER_LISTENERS[failed.fault]})
    return failed


def _is_container(bootstrap: Bootstrap, ips: Sequence[str]) -> bool:
    """Whether addresses look as those of a container of this machine. A name that resolves has at least one."""
    return is_loopback(bootstrap.ip) and not is_loopback(ips[0]) and is_of_containers(ips)


def is_of_containers(ips: Sequence[str]) -> bool:
    """Whether addresses are of the private networks from which container engines take theirs."""
    addresses = [ipaddress.ip_address(ip.partition("%")[0]) for ip in ips]
    return all(any(one.version == net.version and one in net for net in _CONTAINER_NETWORKS) for one in addresses)


def _hint(address: Address) -> str:
    if _CONTAINER_ID.fullmatch(address.host):
        return "The name is the id of a container, which is its host name: advertised.listeners is not set at all."
    if "." not in address.host:
        return (
            "A name without a dot is mostly that of a service in Docker Compose or Kubernetes, which only containers "
            "of that network resolve."
        )
    return "The name is known only where the broker is, or advertised.listeners is misspelt."


def _notes(reached: Reached, bootstrap: Bootstrap) -> tuple[Finding, ...]:
    """What the bootstrap address has shown already is not said again."""
    return () if reached.address == bootstrap.address else tuple(reached.findings)


async def _other_cluster(
    link: Link, bootstrap: Bootstrap, address: Address, facts: Mapping[str, str]
) -> Finding | None:
    """Whether what answers belongs to another cluster, or is a listener with logins."""
    try:
        found: MetadataResponse = await link.ask(metadata_request([]))
    except Disconnected:
        what = "it closes the connection at the first request, as a listener does that requires a login"
        return Finding(Fault.ADVERTISED_OTHER_LISTENER, str(address), {**facts, "what": what})
    except ClientError:
        return None
    if not found.cluster_id or not bootstrap.cluster_id or found.cluster_id == bootstrap.cluster_id:
        return None
    ids = {"cluster": bootstrap.cluster_id, "other_cluster": found.cluster_id}
    return Finding(Fault.ADVERTISED_OTHER_CLUSTER, str(address), {**facts, **ids})


def _facts(broker: int, address: Address, bootstrap: Bootstrap, means: Means) -> dict[str, str]:
    host = bootstrap.address.host
    return {
        "broker": str(broker),
        "host": address.host,
        "port": str(address.port),
        "protocol": means.protocol,
        "bootstrap_host": f"[{host}]" if ":" in host else host,
        "bootstrap_port": str(bootstrap.address.port),
        "wanted_port": str(bootstrap.address.port if bootstrap.is_alone else address.port),
    }
