"""Waiting for what real programs do in their own time: polled, bounded, and named when it did not happen."""

from __future__ import annotations

import time
from collections.abc import Callable

_POLL_SECONDS = 0.02


def eventually(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Ask until `condition` holds; `what` completes the sentence "it did not happen that"."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in {seconds} s that {what}"
        time.sleep(_POLL_SECONDS)
