"""The way to one address, up to the first answer of a broker: names, TCP, TLS, versions, login.

`reach` returns the first fault on the way, or an open link. Of a name with several addresses, the first that accepts
is the one a client uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sordini.client.addresses import Address
from sordini.client.cluster import Link, open_link
from sordini.client.errors import ClientError, NotServed, Unauthorized, reason_of
from sordini.client.security import PLAINTEXT, ClientSecurity
from sordini.doctor.client_way.logins import offered_at, refused_login
from sordini.doctor.client_way.means import Means, sasl_protocol, tls_reason
from sordini.doctor.client_way.peer import answer_shown, fault_of
from sordini.doctor.client_way.peer_probe import any_tls, ask_peer
from sordini.doctor.client_way.tcp import Tried, resolve, try_all
from sordini.doctor.client_way.tls_findings import certificate_note, refused_handshake
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Check, Finding
from sordini.system.named_tuple import NamedTuple

_OTHER_SECURITY: Final[Mapping[Fault, Callable[[], ClientSecurity]]] = {
    Fault.PLAIN_SPOKEN_TLS: lambda: PLAINTEXT,
    Fault.TLS_SPOKEN_PLAIN: lambda: ClientSecurity("SSL", any_tls()),
}
"""How a listener is asked whether it has logins, if it speaks the other protocol than the client."""


class Reached(NamedTuple):
    """How far the way to an address led."""

    address: Address
    ips: tuple[Tried, ...] = ()
    link: Link | None = None
    """The caller closes it."""
    checks: tuple[Check, ...] = ()
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    """Why no connection was made, in the system's words."""

    @property
    def ip(self) -> str:
        """The address that was used; empty where none accepts."""
        return next((tried.ip for tried in self.ips if not tried.error), "")

    @property
    def is_same_machine(self) -> bool:
        return any(tried.is_same_machine for tried in self.ips if not tried.error)

    def stopped(self, step: str, result: str, finding: Finding, reason: str = "") -> Reached:
        """The same, with the fault that ends the way."""
        check = Check(step, result, False)
        return self._replace(checks=(*self.checks, check), findings=(*self.findings, finding), reason=reason)

    def passed(self, step: str, result: str, note: Finding | None = None) -> Reached:
        """The same, one step further."""
        notes = self.findings if note is None else (*self.findings, note)
        return self._replace(checks=(*self.checks, Check(step, result)), findings=notes)


async def reach(address: Address, means: Means) -> Reached:
    """Go the way to an address."""
    reached = await _connect(address, means)
    if not reached.ip:
        return reached
    if means.has_tls:
        reached = await _shake_hands(reached, means)
        if not reached.checks[-1].is_ok:
            return reached
    return await _open(reached, means)


async def _connect(address: Address, means: Means) -> Reached:
    reached = Reached(address)
    at, facts = str(address), _facts(address, means)
    try:
        ips = await resolve(address, means.timeout_s)
    except (OSError, UnicodeError) as error:
        reason = "it is no host name" if isinstance(error, UnicodeError) else reason_of(error)
        if isinstance(error, TimeoutError):
            reason = f"the name service gave no answer within {means.timeout_s:g} s"
        finding = Finding(Fault.NAME_UNRESOLVED, at, facts | {"reason": reason})
        return reached.stopped("name", f"{address.host}: {reason}", finding, reason)
    named = ", ".join(ips)
    reached = reached.passed("name", address.host if named == address.host else f"{address.host} is {named}")
    tried = await try_all(ips, address.port, means.timeout_s)
    reached = reached._replace(ips=tuple(tried))
    failed = [one for one in tried if one.error]
    texts = "; ".join(f"{one.ip}: {one.error}" for one in failed)
    if len(failed) == len(tried):
        fault = Fault.CONNECTION_TIMEOUT if any(one.is_timeout for one in failed) else Fault.CONNECTION_REFUSED
        return reached.stopped("tcp", texts, Finding(fault, at, facts | {"addresses": texts}), failed[0].error)
    accepted = ", ".join(one.ip for one in tried if not one.error)
    if not failed:
        return reached.passed("tcp", f"port {address.port} accepts connections at {accepted}")
    note = Finding(Fault.SOME_ADDRESSES_FAIL, at, facts | {"failed": texts, "works": reached.ip})
    return reached.passed("tcp", f"port {address.port}: {accepted} accepts; {texts}", note)


async def _shake_hands(reached: Reached, means: Means) -> Reached:
    """TLS, for the certificate and for a reason that a client does not print."""
    refused = await refused_handshake(reached.ip, reached.address, means)
    if isinstance(refused, Finding):
        return reached.stopped("tls", refused.facts.get("reason", refused.fault.value), refused)
    if refused is None:
        return await _find_out(reached, means, "tls", "no TLS there")
    note = await certificate_note(reached.ip, reached.address, means)
    return reached.passed("tls", refused, note)


async def _open(reached: Reached, means: Means) -> Reached:
    """Versions and login, as every client begins."""
    address, at = reached.address, str(reached.address)
    try:
        link = await open_link(address, means.access(address), means.connect_at(reached.ip))
    except Unauthorized as error:
        offer = await offered_at(reached.ip, address, means)
        finding = refused_login(at, offer, means, str(error), means.clock.now_ms() / 1000)
        return reached.stopped("login", str(error), finding)
    except NotServed as error:
        return reached.stopped("versions", str(error), Finding(Fault.VERSIONS, at, {"reason": str(error)}))
    except ClientError as error:
        finding_of_certificate = client_certificate(at, error, means)
        if finding_of_certificate is not None:
            return reached.stopped("tls", tls_reason(error), finding_of_certificate)
        return await _find_out(reached, means, "kafka", str(error))
    said = "answers as a broker"
    if means.security.sasl is not None:
        said += f", and accepts the login ({means.security.sasl().mechanism})"
    return reached.passed("kafka", said)._replace(link=link)


def client_certificate(at: str, error: ClientError, means: Means) -> Finding | None:
    """What an alert after the handshake says of the client's certificate; None for another error."""
    reason = tls_reason(error)
    if not means.has_tls or "alert" not in reason:
        return None
    if "certificate required" in reason:
        return Finding(Fault.CLIENT_CERTIFICATE_REQUIRED, at)
    return Finding(Fault.CLIENT_CERTIFICATE_REFUSED, at, {"reason": reason})


async def _find_out(reached: Reached, means: Means, step: str, result: str) -> Reached:
    """The address does not answer as a broker does: what is it?"""
    address = reached.address
    said = await ask_peer(reached.ip, address.port)
    fault = fault_of(said, with_tls=means.has_tls)
    facts = _facts(address, means) | {"answer": answer_shown(said)}
    if fault in _OTHER_SECURITY:
        other = _OTHER_SECURITY[fault]()
        offer = await offered_at(reached.ip, address, means._replace(security=other))
        facts["right_protocol"] = sasl_protocol(other.protocol, logs_in=offer is not None and offer.has_logins)
    return reached.stopped(step, result, Finding(fault, str(address), facts))


def _facts(address: Address, means: Means) -> dict[str, str]:
    return {
        "host": address.host,
        "port": str(address.port),
        "protocol": means.protocol,
        "seconds": f"{means.timeout_s:g}",
    }
