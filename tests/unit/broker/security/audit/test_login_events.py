"""Logins in the audit log: who failed, where and why; who succeeded, if that is asked for; and never a password."""

from __future__ import annotations

import pytest

from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.security.audit.audit_lines import TEXT_CHARACTERS_MAX, TRUNCATED, AuditEvent
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.line_limiter import BOUNDS, PERIOD_MS
from sordini.broker.security.audit.login_events import LoginEvents
from tests.support.audit_lines import AuditLines
from tests.support.fake_ports import StillClock
from tests.support.unit_broker import a_broker
from tests.unit.broker.security.sasl.test_login import ALICE, SETTINGS, Connection

WHERE = {"listener": "CLIENT", "address": "192.0.2.1", "port": 4711}


@pytest.mark.parametrize(
    ("token", "user", "reason"),
    [
        (b"\0alice\0wrong-horse", "alice", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong-horse", "nobody", "Authentication failed: Invalid username or password"),
        (b"wrong-horse", "", "Authentication failed: a PLAIN token has three parts"),
        (b"\0eve\n{}\x1b[2J\0wrong-horse", "eve\n{}\x1b[2J", "Authentication failed: Invalid username or password"),
    ],
)
async def test_a_failed_login_says_who_how_where_and_why(token: bytes, user: str, reason: str) -> None:
    lines = AuditLines()
    async with a_broker(SETTINGS, audit=lines) as broker:
        connection = Connection(broker)
        connection.handshake()
        assert isinstance(connection.authenticate(token), DelayedResponse)
        [line] = lines.all()
        assert list(line)[:8] == ["time", "event", "broker", "user", "mechanism", "listener", "address", "port"]
        assert line | WHERE == line
        assert (line["event"], line["user"], line["mechanism"], line["reason"]) == (
            "login failed",
            user,
            "PLAIN",
            reason,
        )
        assert "horse" not in lines.text
        assert dict(broker.parts.security.login_events.failed) == {"CLIENT": 1}


async def test_a_mechanism_that_is_not_enabled_and_a_token_without_a_handshake_are_failed_logins() -> None:
    lines = AuditLines()
    async with a_broker(SETTINGS, audit=lines) as broker:
        Connection(broker).handshake("GSSAPI\n")
        Connection(broker).authenticate()
        found = [(line["mechanism"], line["user"], line["reason"]) for line in lines.of("login failed")]
        assert found == [
            ("GSSAPI\n", "", "the mechanism is not enabled"),
            ("", "", "SaslAuthenticate before SaslHandshake"),
        ]


@pytest.mark.parametrize("is_asked_for", [False, True])
async def test_a_login_that_succeeds_is_written_where_that_is_asked_for(is_asked_for: bool) -> None:
    lines = AuditLines()
    settings = {
        "sordini.audit.log.successes": str(is_asked_for).lower(),
        "listener.name.client.plain.connections.max.reauth.ms": "60000",
    }
    async with a_broker(SETTINGS | settings, audit=lines) as broker:
        connection = Connection(broker)
        for _ in range(2):
            connection.handshake()
            assert connection.authenticate(ALICE).error_code == 0
        found = [(line["event"], line["user"], line["again"]) for line in lines.all()]
        assert found == ([("login", "alice", False), ("login", "alice", True)] if is_asked_for else [])


async def test_failed_logins_are_counted_without_an_audit_log() -> None:
    async with a_broker(SETTINGS) as broker:
        connection = Connection(broker)
        connection.handshake()
        connection.authenticate(b"\0alice\0wrong")
        assert dict(broker.parts.security.login_events.failed) == {"CLIENT": 1}


def a_peer(address: str = "192.0.2.1") -> Peer:
    return Peer("CLIENT", "SSL", address, 4711, "id")


def test_a_tls_handshake_that_was_refused_is_a_failed_login_in_the_same_form() -> None:
    lines = AuditLines()
    events = LoginEvents(AuditLog(lines, 1, StillClock()), with_successes=False)
    events.handshake_refused(a_peer(), "no rule matches 'CN=eve\n{}\x1b[2J\u2028'" + "x" * 1000)
    [line] = lines.all()
    assert list(line) == [
        *("time", "event", "broker", "user", "mechanism", "listener", "address", "port", "reason"),
    ]
    assert line | WHERE == line
    assert (line["event"], line["user"], line["mechanism"]) == ("login failed", "", "TLS")
    assert line["reason"].startswith("no rule matches 'CN=eve\n{}\x1b[2J\u2028'xxx")
    assert len(line["reason"]) == TEXT_CHARACTERS_MAX + len(TRUNCATED)
    assert lines.text.count("\n") == 1
    assert lines.text.isascii()
    assert events.failed == {"CLIENT": 1}


def test_handshakes_and_logins_that_fail_share_the_bounds_of_their_address_and_what_is_beyond_is_counted() -> None:
    lines, clock = AuditLines(), StillClock()
    audit = AuditLog(lines, 1, clock)
    events = LoginEvents(audit, with_successes=False)
    bound = BOUNDS[AuditEvent.LOGIN_FAILED].of_address
    for _ in range(bound):
        events.refused(a_peer(), "PLAIN", "alice", "Authentication failed")
    for _ in range(7):
        events.handshake_refused(a_peer(), "certificate has expired")
    events.handshake_refused(a_peer("192.0.2.2"), "certificate has expired")
    assert [line["address"] for line in lines.all()] == ["192.0.2.1"] * bound + ["192.0.2.2"]
    assert audit.lines_dropped == 7
    clock.ms += PERIOD_MS
    audit.tick(clock.monotonic_ms())
    [dropped] = lines.of("lines dropped")
    assert (dropped["dropped"], dropped["address"], dropped["count"]) == ("login failed", "192.0.2.1", 7)
    assert events.failed == {"CLIENT": bound + 8}
