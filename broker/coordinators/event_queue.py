"""The events of a coordinator's machine, one at a time: those that a step causes are applied after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

E = TypeVar("E")


class EventQueue(Generic[E]):
    """Events by the key that they are for (a group id, a transactional id)."""

    def __init__(self, step: Callable[[str, E], None]) -> None:
        """`step` takes an event through the machine and carries out its actions, which may apply further events."""
        self._step = step
        self._events: deque[tuple[str, E]] = deque()
        self._is_stepping = False

    def apply(self, key: str, event: E) -> None:
        """Apply an event, and those that it causes; or leave it to the step in progress."""
        self._events.append((key, event))
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self._step(*self._events.popleft())
        finally:
            self._is_stepping = False
