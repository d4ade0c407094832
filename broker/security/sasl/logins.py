"""The logins of all connections of SASL listeners: how they go, and how many are pending."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.network.ports import Peer
from sordini.broker.security.sasl.login import Login, LoginDeps, LoginRules


class Logins:
    """Begins logins; bounds those that have not ended."""

    def __init__(self, rules_of: Callable[[str], LoginRules], deps: LoginDeps, pending_max: int) -> None:
        """`rules_of` gives the rules in force of a listener."""
        self._rules_of = rules_of
        self._deps = deps
        self._pending_max = pending_max
        self.pending = 0

    def begin(self, peer: Peer) -> bool:
        """Let a new connection log in before anything else is served; False when too many have not done so yet."""
        if self.pending >= self._pending_max:
            return False
        self.pending += 1
        peer.login = peer.gate = Login(peer, self._rules_of(peer.listener), self._deps, self._ended)
        return True

    def tick(self, now_ms: int) -> None:
        """Write the counts of log lines that were too many."""
        self._deps.peer_log.tick(now_ms)

    def _ended(self) -> None:
        self.pending -= 1
