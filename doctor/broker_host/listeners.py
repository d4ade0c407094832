"""The listeners: whether their ports can be bound here, and whether their certificates fit."""

from __future__ import annotations

import datetime as dt
import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import Final

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.listeners import OPEN_HOSTS, ListenerEndpoint
from sordini.broker.configuration.settings import ConfigError
from sordini.broker.security.tls.material import contexts_of
from sordini.doctor.client_way.tls import Certificate, certificate_of
from sordini.doctor.client_way.tls_findings import SOON_DAYS, day_of
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding, Report
from sordini.storage.disk import Disk
from sordini.system import machine

PORT, CERTIFICATE = "port", "certificate"
PRIVILEGED_MAX: Final = 1024


def check_ports(config: Config, running: int | None, report: Report) -> None:
    """Bind each port and give it back; `running` is a broker whose ports they may be."""
    for endpoint in config.endpoints:
        text = f"{endpoint.address} ({endpoint.name})"
        number = _bound(endpoint)
        if number == 0:
            report.ok(PORT, f"{text} is free")
        elif number == errno.EADDRINUSE and running is not None and _is_of(endpoint.port, running):
            report.ok(PORT, f"{text} is used by the broker that runs")
        else:
            finding = _unbound(endpoint, number)
            report.found(PORT, f"{text}: {finding.facts['reason']}", finding)


def _is_of(port: int, running: int) -> bool:
    """Whether the running broker has the port, as far as that can be seen."""
    holder = machine.port_holder(port)
    return holder is None or running in (0, holder[0])


def _bound(endpoint: ListenerEndpoint) -> int:
    """The system's error number for a listener's address; 0 where it can be bound."""
    host = "" if endpoint.host in OPEN_HOSTS else endpoint.host
    try:
        found = socket.getaddrinfo(host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:
        return errno.ENXIO
    family, kind, protocol, _, where = found[0]
    with socket.socket(family, kind, protocol) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(where)
        except OSError as error:
            return error.errno or errno.EINVAL
    return 0


def _unbound(endpoint: ListenerEndpoint, number: int) -> Finding:
    facts = {
        "listener": str(endpoint),
        "name": endpoint.name,
        "host": endpoint.host,
        "port": str(endpoint.port),
        "reason": os.strerror(number).lower(),
    }
    if number == errno.EADDRINUSE:
        holder = machine.port_holder(endpoint.port)
        who = "another process (sudo ss -ltnp names it)" if holder is None else f"process {holder[0]} ({holder[1]})"
        more = {"holder": who, "free_port": str(endpoint.port + 1), "reason": f"in use by {who}"}
        return Finding(Fault.PORT_IN_USE, endpoint.address, facts | more)
    if number == errno.EACCES and endpoint.port < PRIVILEGED_MAX:
        return Finding(Fault.PORT_PRIVILEGED, endpoint.address, facts)
    if number == errno.ENXIO:
        facts["reason"] = "the name does not resolve here"
    return Finding(Fault.ADDRESS_NOT_LOCAL, endpoint.address, facts)


def check_certificates(config: Config, disk: Disk, now: dt.datetime, report: Report) -> None:
    """The stores of each listener with TLS: key and certificate, dates, and the names that clients compare."""
    advertised = {one.name: one for one in config.advertised(config.endpoints)}
    for endpoint in config.endpoints:
        if not endpoint.protocol.endswith("SSL"):
            continue
        try:
            contexts = contexts_of(config.listener(endpoint.name), disk.read, is_inter_broker=True)
        except ConfigError as error:
            facts = {"reason": str(error), "name": endpoint.name.lower()}
            report.found(CERTIFICATE, str(error), Finding(Fault.STORE_UNUSABLE, endpoint.name, facts))
            continue
        own = certificate_of(contexts.certificate)
        findings = certificate_findings(endpoint.name, advertised[endpoint.name].host, own, now)
        for finding, text in findings:
            report.found(CERTIFICATE, f"{endpoint.name}: {text}", finding)
        if not findings:
            report.ok(CERTIFICATE, f"{endpoint.name}: valid until {day_of(own.until)}, for {', '.join(own.names)}")


def certificate_findings(name: str, host: str, own: Certificate, now: dt.datetime) -> Sequence[tuple[Finding, str]]:
    """What is wrong with a listener's certificate, for clients that are sent to `host`."""
    facts = {"listener": name, "name": name.lower(), "until": day_of(own.until), "host": host}
    found = []
    left = own.until - now
    if left < dt.timedelta(0):
        found.append((Finding(Fault.HOST_CERTIFICATE_EXPIRED, name, facts), f"expired on {facts['until']}"))
    elif left < dt.timedelta(days=SOON_DAYS):
        soon = Finding(Fault.HOST_CERTIFICATE_EXPIRES_SOON, name, facts | {"days": str(left.days)})
        found.append((soon, f"expires in {left.days} days"))
    if not is_named(host, own.names):
        kind = "IP" if _is_address(host) else "DNS"
        more = {"names": ", ".join(own.names) or "none at all", "wanted": f"{kind}:{host}"}
        found.append((Finding(Fault.HOST_CERTIFICATE_NAMES, name, facts | more), f"it is not for {host}"))
    return found


def is_named(host: str, names: Sequence[str]) -> bool:
    """Whether a certificate is for a host: by its address, its name, or a wildcard in place of the first label."""
    if _is_address(host):
        return any(_is_address(name) and ipaddress.ip_address(name) == ipaddress.ip_address(host) for name in names)
    wanted = host.lower().rstrip(".")
    parent = wanted.partition(".")[2]
    return any(name.lower() == wanted or (parent and name.lower() == f"*.{parent}") for name in names)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
