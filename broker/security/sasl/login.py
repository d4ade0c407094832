"""The login of one connection on a SASL listener: which requests it may send, and who it is afterwards.

    accepted --> ApiVersions, SaslHandshake(mechanism)      nothing else is served
                 '--> SaslAuthenticate ... (v1)             tokens in requests (KIP-152)
                 '--> tokens in frames of their own (v0)    of clients before Apache Kafka 1.0
             --> logged in                                  every request, until the session's lifetime is over
                 '--> SaslHandshake, SaslAuthenticate       again, as the same user (KIP-368)

A `Login` is the connection's gate (`Peer.gate`) while it filters requests: before the login, and afterwards where the
session has a lifetime. A refused login is answered, after a delay, and then the connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service
from sordini.broker.network.principal import Principal
from sordini.broker.security.audit.login_events import LoginEvents
from sordini.broker.security.sasl.exchanges import Exchange, ExchangeStep, LoginRefused
from sordini.broker.security.sasl.failed_logins import FailedLogins
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.framing import LENGTH
from sordini.replication.ports import CallLater, Clock
from sordini.system.named_tuple import NamedTuple

BEFORE_LOGIN: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
OF_LOGINS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
WITHOUT_REQUESTS: Final = 0
"""The version of SaslHandshake after which tokens come in frames of their own."""


class LoginRules(NamedTuple):
    """How logins of one listener go."""

    mechanisms: Mapping[str, Callable[[], Exchange]]
    """The enabled ones; each makes a new exchange."""
    lifetime_ms: Mapping[str, int]
    """connections.max.reauth.ms by mechanism; 0 is no bound."""
    receive_bytes_max: int
    """sasl.server.max.receive.size"""
    timeout_ms: int
    """How long a connection may take to log in."""


class LoginDeps(NamedTuple):
    """What all logins of a broker share."""

    service: Service
    """Serves the requests of those who have logged in; the dispatcher."""
    failures: FailedLogins
    clock: Clock
    call_later: CallLater
    peer_log: PeerLogLimiter
    events: LoginEvents


class Login:
    """The state of one connection's login. A `Service` for its connection."""

    def __init__(self, peer: Peer, rules: LoginRules, deps: LoginDeps, on_ended: Callable[[], None]) -> None:
        """`on_ended` is called once, when the login is complete or the connection is closed."""
        self.rules = rules
        self._on_ended: Callable[[], None] | None = on_ended
        self.is_complete = False
        """Whether the peer has logged in once."""
        self.is_refused = False
        """Whether the connection is to be closed once all responses have been sent."""
        self.on_complete: Callable[[], None] = _nothing
        """Called at the first login; set by the connection."""
        self._peer = peer
        self._deps = deps
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._sends_tokens = False
        """Whether the next frame is a token, not a request."""
        self._has_failed = False
        """Whether a login was refused, or will be at the client's next token."""
        self._expires_ms: int | None = None
        """Until when requests are served, on the monotonic clock; None: without an end."""

    # As `Service`.

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        """Serve a request that may be sent now. Raises WireError for another one."""
        if self.is_refused:
            raise WireError("a request after a refused login")
        if self._sends_tokens:
            return self._raw_token(bytes(frame))
        key = int.from_bytes(frame[:2], "big", signed=True)
        if not self.is_complete and key not in BEFORE_LOGIN:
            raise WireError(f"a request (API key {key}) before the login; first comes SaslHandshake")
        if self._expires_ms is not None and key not in OF_LOGINS and self._now_ms() >= self._expires_ms:
            raise WireError("the session's lifetime is over, and the client did not authenticate again (KIP-368)")
        return self._deps.service.serve(peer, frame)

    # The connection's questions.

    @property
    def receive_bytes_max(self) -> int:
        """Size of a frame before the login is complete."""
        return self.rules.receive_bytes_max

    def why_close(self, age_ms: int) -> str | None:
        """Why a connection of this age, with nothing left to send, is to be closed; None if it is not."""
        if self.is_refused:
            return "authentication failed"
        if not self.is_complete and age_ms >= self.rules.timeout_ms:
            return f"no login within {self.rules.timeout_ms} ms (sordini.login.timeout.ms)"
        return None

    def closed(self) -> None:
        """The connection has closed."""
        on_ended, self._on_ended = self._on_ended, None
        if on_ended is not None:
            on_ended()

    # Requests, by `security/sasl/sasl_handler.py`.

    @property
    def mechanisms(self) -> list[str]:
        """The enabled mechanisms."""
        return list(self.rules.mechanisms)

    def begin(self, mechanism: str, version: int) -> None:
        """SaslHandshake: the client has chosen a mechanism.

        Raises BrokerError UNSUPPORTED_SASL_MECHANISM, and ILLEGAL_SASL_STATE where a refused token is to be answered.
        """
        if self._has_failed:
            self.is_refused = True
            raise BrokerError(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake request received after a refused token")
        make = self.rules.mechanisms.get(mechanism)
        if make is None:
            self.is_refused = not self.is_complete
            self._deps.events.refused(self._peer, mechanism, "", "the mechanism is not enabled")
            raise BrokerError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{mechanism!r} is not enabled here")
        self._mechanism, self._exchange = mechanism, make()
        self._sends_tokens = version == WITHOUT_REQUESTS and not self.is_complete

    def authenticate(self, token: bytes) -> tuple[bytes, int]:
        """SaslAuthenticate: take the next token; the challenge, and the session's lifetime in ms (0: no end).

        Raises BrokerError ILLEGAL_SASL_STATE without a handshake, and LoginRefused.
        """
        if self._exchange is None:
            self.is_refused = True
            self._deps.events.refused(self._peer, "", "", "SaslAuthenticate before SaslHandshake")
            raise BrokerError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received before SaslHandshake")
        exchange = self._exchange
        try:
            progress = self._exchange.step(token)
            if progress.failure is not None:
                self._log_failure(progress.failure, exchange.user)
            return progress.challenge, 0 if progress.user is None else self._logged_in(progress.user, progress)
        except LoginRefused as refused:
            self.is_refused = True
            self._exchange = None
            self._log_failure(str(refused), exchange.user)
            raise

    def delay_refusal(self, refuse: Callable[[], None]) -> None:
        """Call `refuse` once the answer to a failed login may leave."""
        delay_ms = self._deps.failures.failed(self._peer.address, self._now_ms())
        if delay_ms:
            self._deps.call_later(delay_ms / 1000, refuse)
        else:
            refuse()

    def _logged_in(self, user: str, progress: ExchangeStep) -> int:
        principal = Principal("User", user)
        if self.is_complete and principal != self._peer.principal:
            raise LoginRefused(
                f"Cannot change principals during re-authentication from {self._peer.principal}: {principal}"
            )
        self._exchange = None
        self._deps.events.accepted(self._peer, self._mechanism, user, is_again=self.is_complete)
        lifetime_ms = self._lifetime_ms(progress)
        self._expires_ms = None if lifetime_ms == 0 else self._now_ms() + lifetime_ms
        self._peer.principal = principal
        self._peer.gate = None if self._expires_ms is None else self
        self._sends_tokens = False
        if not self.is_complete:
            self.is_complete = True
            self.closed()
            self._deps.failures.succeeded(self._peer.address)
            self.on_complete()
        return lifetime_ms

    def _lifetime_ms(self, progress: ExchangeStep) -> int:
        """The session's lifetime: that of the mechanism, or of the proof if that ends earlier."""
        bounds = [self.rules.lifetime_ms.get(self._mechanism, 0)]
        if progress.expires_ms is not None:
            bounds.append(max(progress.expires_ms - self._deps.clock.now_ms(), 1))
        return min((bound for bound in bounds if bound > 0), default=0)

    def _log_failure(self, reason: str, user: str) -> None:
        """Log why a login fails, once."""
        if not self._has_failed:
            self._has_failed = True
            self._deps.events.refused(self._peer, self._mechanism, user, reason)
            self._deps.peer_log.warning(
                self._peer.address,
                "authentication failed",
                peer=str(self._peer),
                listener=self._peer.listener,
                mechanism=self._mechanism,
                reason=reason,
            )

    def _raw_token(self, token: bytes) -> Parts:
        """A token in a frame of its own. Raises WireError for a refused one: there is no response for it."""
        try:
            challenge, _ = self.authenticate(token)
        except LoginRefused as refused:
            self._deps.failures.failed(self._peer.address, self._now_ms())
            raise WireError(str(refused)) from None
        return [LENGTH.pack(len(challenge)) + challenge]

    def _now_ms(self) -> int:
        return self._deps.clock.monotonic_ms()


def _nothing() -> None:
    """The connection has not begun to read."""
