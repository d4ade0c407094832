"""The delay of answers to failed logins."""

from __future__ import annotations

from sordini.broker.security.sasl import failed_logins
from sordini.broker.security.sasl.failed_logins import DELAY_MS_MAX, FORGOTTEN_MS, FailedLogins


def test_the_delay_doubles_for_an_address_that_fails_again_up_to_a_bound() -> None:
    failures = FailedLogins(100)
    delays = [failures.failed("one", 0) for _ in range(9)]
    assert delays == [100, 200, 400, 800, 1_600, 3_200, 6_400, DELAY_MS_MAX, DELAY_MS_MAX]
    assert failures.failed("other", 0) == 100
    assert failures.total == 10


def test_a_success_and_a_quiet_minute_reset_the_delay() -> None:
    failures = FailedLogins(100)
    for _ in range(3):
        failures.failed("one", 0)
    failures.succeeded("one")
    assert failures.failed("one", 1) == 100
    assert failures.failed("one", FORGOTTEN_MS) == 200
    assert failures.failed("one", 3 * FORGOTTEN_MS) == 100


def test_a_configured_delay_above_the_bound_is_kept_and_none_is_none() -> None:
    assert FailedLogins(20_000).failed("one", 0) == 20_000
    assert [FailedLogins(0).failed("one", 0) for _ in range(2)] == [0, 0]


def test_so_many_addresses_are_remembered(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(failed_logins, "ADDRESSES_MAX", 2)
    failures = FailedLogins(100)
    for address in ("a", "b", "c"):
        failures.failed(address, 0)
    assert failures.failed("a", 0) == 100, "forgotten"
    assert failures.failed("c", 0) == 200
