"""Logins in the audit log, and their counts: those by SASL, and TLS handshakes, by which certificates log in."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sordini.broker.network.ports import Peer
from sordini.broker.security.audit.audit_lines import AuditEvent, clipped
from sordini.broker.security.audit.audit_log import AuditLog

TLS: Final = "TLS"
"""The mechanism of a handshake."""


class LoginEvents:
    """What happens to logins, by the listener."""

    def __init__(self, audit: AuditLog, *, with_successes: bool) -> None:
        """`with_successes` is sordini.audit.log.successes."""
        self._audit = audit
        self._with_successes = with_successes
        self.failed: Counter[str] = Counter()
        """By listener."""

    def refused(self, peer: Peer, mechanism: str, user: str, reason: str) -> None:
        """A login has failed. `user` is who the client says it is; empty if it has not said so."""
        self.failed[peer.listener] += 1
        self._write(AuditEvent.LOGIN_FAILED, peer, mechanism, user, {"reason": clipped(reason)})

    def handshake_refused(self, peer: Peer, reason: str) -> None:
        """A TLS handshake was refused, by the broker or by the client. Whose certificate it was is not proven."""
        self.refused(peer, TLS, "", reason)

    def accepted(self, peer: Peer, mechanism: str, user: str, *, is_again: bool) -> None:
        """A client has logged in, or `is_again`: has authenticated again on its connection."""
        if self._with_successes:
            self._write(AuditEvent.LOGIN, peer, mechanism, user, {"again": is_again})

    def _write(self, event: AuditEvent, peer: Peer, mechanism: str, user: str, more: dict[str, str | bool]) -> None:
        if not self._audit.is_on:
            return
        fields = {
            "user": clipped(user),
            "mechanism": clipped(mechanism),
            "listener": peer.listener,
            "address": peer.address,
            "port": peer.port,
            **more,
        }
        self._audit.write(event, peer.address, fields)
