"""Calls of librdkafka that may never return."""

from __future__ import annotations

from threading import Event

import pytest

from tests.cluster.chaos.transacting import StuckError, within


def test_a_call_that_does_not_return_is_left_behind() -> None:
    never = Event()
    with pytest.raises(StuckError, match=r"no return within 0\.01 s"):
        within(0.01, never.wait)
    never.set()


def test_what_a_call_raises_is_raised_where_it_was_called() -> None:
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 // 0)
    within(10, lambda: None)
