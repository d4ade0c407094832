"""Asking until the answer is as wanted, where a broker says that something is done before it shows everywhere."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

NOT_READY = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""

_PATIENCE_S = 20.0
"""Apache Kafka on a busy machine takes its time until a changed configuration counts."""
_PAUSE_S = 0.005
"""Between two questions, so that asking does not hold up what is waited for."""


def until(ask: Callable[[], Answer], good: Callable[[Answer], bool]) -> Answer:
    """The first answer that is good, or the last one when patience ends: then the comparison complains."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        answer = ask()
        if good(answer) or time.monotonic() > end:
            return answer
        time.sleep(_PAUSE_S)
