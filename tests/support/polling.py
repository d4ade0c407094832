"""Waiting for what other processes do: the state is looked at until it is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS_MAX = 90.0
POLL_S = 0.05


def eventually(
    look: Callable[[], T | None],
    what: str,
    seconds: float = SECONDS_MAX,
    instead: Callable[[], object] | None = None,
) -> T:
    """What `look` finds, as soon as it finds something; the failure names what `instead` finds."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}{_found(instead)}"
        time.sleep(POLL_S)
    return found


def _found(instead: Callable[[], object] | None) -> str:
    return "" if instead is None else f"; there is {instead()}"
