"""A connection that logs in with a token: how long its session is, how a refusal goes, and what is logged of it."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from sordini.broker.network.peer_log_limiter import PeerLogLimiter
from sordini.broker.network.ports import Peer, Service
from sordini.broker.network.principal import Principal
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.login_events import LoginEvents
from sordini.broker.security.sasl.exchanges import LoginRefused
from sordini.broker.security.sasl.failed_logins import FailedLogins
from sordini.broker.security.sasl.login import Login, LoginDeps, LoginRules
from sordini.broker.security.sasl.oauthbearer.claims import TokenRules
from sordini.broker.security.sasl.oauthbearer.exchange import REFUSAL, BearerExchange
from sordini.broker.security.sasl.oauthbearer.key_set import KeySet, read_key_set
from sordini.broker.security.sasl.oauthbearer.tokens import TokenVerifier
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from tests.support.fake_ports import ListLog, StillClock
from tests.support.token_issuer import AUDIENCE, ISSUER, claims, key_set, token
from tests.support.unit_broker import Timers

METADATA = ApiKey.METADATA.to_bytes(2, "big") + bytes(8)
RULES = TokenRules(ISSUER, frozenset({AUDIENCE}))


class Keys:
    current: KeySet = read_key_set(key_set())

    def missed(self) -> None:
        raise AssertionError("no key is missing here")


class Connection:
    """One connection of a listener that takes OAUTHBEARER."""

    def __init__(self, reauthentication_ms: int = 0) -> None:
        self.clock = StillClock()
        self.log = ListLog()
        self.peer = Peer("CLIENT", "SASL_PLAINTEXT", "192.0.2.1", 4711, "connection-1")
        verifier = TokenVerifier(Keys(), RULES, self.clock.now_ms)
        mechanisms = {"OAUTHBEARER": partial(BearerExchange, verifier.accept)}
        rules = LoginRules(mechanisms, {"OAUTHBEARER": reauthentication_ms}, 524_288, 10_000)
        deps = LoginDeps(
            cast("Service", self),
            FailedLogins(100),
            self.clock,
            Timers().call_later,
            PeerLogLimiter(self.log, self.clock.ms),
            LoginEvents(AuditLog(None, 1, self.clock), with_successes=False),
        )
        self.login = self.peer.login = Login(self.peer, rules, deps, lambda: None)
        self.served = 0

    def serve(self, peer: Peer, frame: memoryview) -> None:
        """As the dispatcher."""
        del peer, frame
        self.served += 1

    def authenticate(self, **changes: Any) -> tuple[bytes, int]:
        self.login.begin("OAUTHBEARER", 1)
        text = token(claims(self.clock.ms / 1000, **changes))
        return self.login.authenticate(f"n,,\x01auth=Bearer {text}\x01\x01".encode())

    @property
    def reasons(self) -> list[str]:
        return [fields["reason"] for event, fields in self.log.at("warning") if event == "authentication failed"]


@pytest.mark.parametrize(
    ("reauthentication_ms", "token_s", "lifetime_ms"),
    [(0, 600, 600_000), (60_000, 600, 60_000), (3_600_000, 600, 600_000), (600_001, 600, 600_000), (0, -10, 1)],
)
def test_a_session_lasts_as_long_as_the_token_and_no_longer_than_configured(
    reauthentication_ms: int, token_s: int, lifetime_ms: int
) -> None:
    connection = Connection(reauthentication_ms)
    expires_s = connection.clock.ms // 1000 + token_s
    assert connection.authenticate(exp=expires_s) == (b"", lifetime_ms)
    assert connection.peer.principal == Principal("User", "alice")
    connection.clock.ms += lifetime_ms - 1
    connection.login.serve(connection.peer, memoryview(METADATA))
    assert connection.served == 1
    connection.clock.ms += 1
    with pytest.raises(WireError, match="lifetime is over"):
        connection.login.serve(connection.peer, memoryview(METADATA))


def test_a_new_token_of_the_same_principal_extends_the_session() -> None:
    connection = Connection()
    connection.authenticate()
    connection.clock.ms += 500_000
    assert connection.authenticate() == (b"", 600_000)
    connection.clock.ms += 599_999
    connection.login.serve(connection.peer, memoryview(METADATA))
    with pytest.raises(LoginRefused, match="Cannot change principals"):
        connection.authenticate(sub="bob")
    assert connection.peer.principal == Principal("User", "alice")


def test_a_refused_token_is_logged_with_its_reason_once_and_the_client_is_sent_none() -> None:
    connection = Connection()
    assert connection.authenticate(aud="other") == (REFUSAL.encode(), 0)
    assert connection.reasons == ["its audience (aud) is not an expected one"]
    assert connection.login.why_close(0) is None, "the client answers first"
    with pytest.raises(WireError, match="before the login"):
        connection.login.serve(connection.peer, memoryview(METADATA))
    with pytest.raises(LoginRefused) as refused:
        connection.login.authenticate(b"\x01")
    assert str(refused.value) == REFUSAL
    assert connection.login.why_close(0) == "authentication failed"
    assert len(connection.reasons) == 1
    with pytest.raises(WireError, match="after a refused login"):
        connection.login.serve(connection.peer, memoryview(METADATA))


def test_a_session_does_not_outlast_its_token_when_the_next_one_is_refused() -> None:
    connection = Connection()
    connection.authenticate()
    connection.clock.ms += 599_999
    assert connection.authenticate(iss="x") == (REFUSAL.encode(), 0)
    connection.login.serve(connection.peer, memoryview(METADATA))
    connection.clock.ms += 1
    with pytest.raises(WireError, match="lifetime is over"):
        connection.login.serve(connection.peer, memoryview(METADATA))
    assert connection.reasons == ["its issuer (iss) is not the expected one"]


def test_a_connection_has_one_attempt_however_the_client_goes_on() -> None:
    """Without this a stranger could have tokens verified on one connection without end, and without delay."""
    for reauthenticates in (False, True):
        connection = Connection()
        if reauthenticates:
            connection.authenticate()
        connection.authenticate(aud="other")
        with pytest.raises(BrokerError, match="after a refused token") as refused:
            connection.login.begin("OAUTHBEARER", 1)
        assert refused.value.code == ErrorCode.ILLEGAL_SASL_STATE
        assert connection.login.why_close(0) == "authentication failed"


def test_old_clients_send_the_token_in_a_frame_of_its_own() -> None:
    for changes, answer in (({"exp": 0}, REFUSAL.encode()), ({}, b"")):
        connection = Connection()
        connection.login.begin("OAUTHBEARER", 0)
        text = token(claims(connection.clock.ms / 1000, **changes))
        [frame] = cast(
            "list[bytes]",
            connection.login.serve(connection.peer, memoryview(f"n,,\x01auth=Bearer {text}\x01\x01".encode())),
        )
        assert frame[4:] == answer
    assert connection.peer.principal == Principal("User", "alice")
