"""From a handshake and the certificate that the peer showed to the fault."""

from __future__ import annotations

import datetime as dt

from sordini.client.addresses import Address
from sordini.doctor.client_way import tls
from sordini.doctor.client_way.means import Means
from sordini.doctor.client_way.tls import Certificate, Handshake
from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding

SOON_DAYS = 30
"""Before its end a certificate is named so many days."""
NAMES_MAX = 6


async def refused_handshake(ip: str, address: Address, means: Means) -> Finding | str | None:
    """The fault that ends the handshake; a sentence about one that succeeds; None where the peer has no TLS."""
    context = means.security.tls
    assert context is not None, "only a client with TLS shakes hands"
    done = await tls.shake_hands(ip, address.port, context, address.host, means.timeout_s)
    if done.is_done:
        return f"{done.version}, and the certificate is trusted for {address.host}"
    if not done.is_tls:
        return None
    if done.is_of_versions:
        return Finding(Fault.TLS_VERSION, str(address), {"reason": done.reason})
    if not done.verify_code:
        return _refused_by_peer(str(address), done.reason)
    shown = await tls.shown_certificate(ip, address.port, address.host, means.timeout_s)
    if shown is None:
        return Finding(Fault.TLS_HANDSHAKE, str(address), {"reason": done.reason})
    return refused_certificate(address, done, shown, means.now())


def _refused_by_peer(at: str, reason: str) -> Finding:
    """An alert during the handshake, as TLS 1.2 has it for client certificates."""
    if "certificate" in reason or "unknown ca" in reason:
        return Finding(Fault.CLIENT_CERTIFICATE_REFUSED, at, {"reason": reason})
    return Finding(Fault.TLS_HANDSHAKE, at, {"reason": reason})


def refused_certificate(address: Address, done: Handshake, shown: Certificate, now: dt.datetime) -> Finding:
    """Why a client refuses a certificate."""
    facts = {
        "reason": done.reason,
        "host": address.host,
        "port": str(address.port),
        "subject": shown.subject or "it has no subject",
        "issuer": shown.issuer,
        "until": day_of(shown.until),
        "since": day_of(shown.since),
        "now": day_of(now),
    }
    if done.verify_code == tls.EXPIRED:
        return Finding(Fault.CERTIFICATE_EXPIRED, str(address), facts)
    if done.verify_code == tls.NOT_YET_VALID:
        return Finding(Fault.CERTIFICATE_NOT_YET_VALID, str(address), facts)
    if done.verify_code in tls.WRONG_NAME:
        return Finding(Fault.CERTIFICATE_NAME, str(address), facts | _names(address.host, shown))
    is_own = shown.issuer == shown.subject
    facts |= {
        "trust": "the client's trust store (without ssl.truststore.location: the system's authorities)",
        "sent": "it is signed by itself" if is_own else f"its own is {shown.subject}",
    }
    return Finding(Fault.CERTIFICATE_UNTRUSTED, str(address), facts)


def _names(host: str, shown: Certificate) -> dict[str, str]:
    more = f" and {len(shown.names) - NAMES_MAX} more" if len(shown.names) > NAMES_MAX else ""
    kind = "IP" if host.replace(".", "").isdecimal() or ":" in host else "DNS"
    return {
        "names": ", ".join(shown.names[:NAMES_MAX]) + more if shown.names else "it has no alternative name at all",
        "first_name": shown.names[0] if shown.names else "...",
        "wanted": f"{kind}:{host}",
    }


async def certificate_note(ip: str, address: Address, means: Means) -> Finding | None:
    """A note for a certificate that is trusted and ends soon."""
    shown = await tls.shown_certificate(ip, address.port, address.host, means.timeout_s)
    if shown is None:
        return None
    left = shown.until - means.now()
    if left > dt.timedelta(days=SOON_DAYS):
        return None
    return Finding(Fault.CERTIFICATE_EXPIRES_SOON, str(address), {"until": day_of(shown.until), "days": str(left.days)})


def day_of(moment: dt.datetime) -> str:
    """A date with its time, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M UTC")
