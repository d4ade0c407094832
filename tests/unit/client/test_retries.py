"""What is repeated, after which pauses, and for how long."""

from __future__ import annotations

import pytest

from sordini.client.errors import (
    ClientError,
    Disconnected,
    InvalidResponse,
    NotABroker,
    Refused,
    Unauthorized,
    Unreachable,
)
from sordini.client.retries import Attempts, RetryRules
from sordini.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "by_default", "with_unreachable"),
    [
        (Disconnected("x"), True, True),
        (Unreachable("x"), False, True),
        (InvalidResponse("x"), False, True),
        (NotABroker("x"), False, False),
        (Refused("x", ErrorCode.NOT_COORDINATOR), True, True),
        (Refused("x", ErrorCode.NOT_CONTROLLER), False, False),
        (Unauthorized("x"), False, False),
        (ClientError("x"), False, False),
    ],
)
def test_an_attempt_is_repeated_after_what_passes(error: ClientError, by_default: bool, with_unreachable: bool) -> None:
    assert RetryRules().is_temporary(error) is by_default
    assert RetryRules(errors=(Unreachable,)).is_temporary(error) is with_unreachable


def test_pauses_double_up_to_a_maximum_and_end_with_the_budget() -> None:
    attempts = Attempts(RetryRules(pause_ms=100, pause_ms_max=400, budget_s=2.0), 10.0)
    assert [attempts.pause_s(10.0) for _ in range(4)] == [0.1, 0.2, 0.4, 0.4]
    assert attempts.pause_s(11.75) == 0.25
    assert not attempts.is_expired(11.99)
    assert attempts.is_expired(12.0)
    assert attempts.pause_s(12.0) is None


def test_a_success_gives_the_whole_budget_and_the_first_pause_again() -> None:
    attempts = Attempts(RetryRules(pause_ms=100, budget_s=2.0), 10.0)
    assert attempts.pause_s(10.0) == 0.1
    assert attempts.pause_s(12.0) is None
    attempts.restart(12.0)
    assert attempts.pause_s(12.0) == 0.1
    assert attempts.pause_s(13.9) == pytest.approx(0.1)


def test_without_a_budget_the_caller_ends_the_attempts() -> None:
    attempts = Attempts(RetryRules(), 0.0)
    assert attempts.pause_s(1e12) == 0.1
