"""A loop whose time jumps over waits that cannot be shortened: those for a broker that is known not to answer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK_S = 0.02
"""How often, in real time, a wait checks whether it is in vain."""
JUMP_S = 0.001
"""What a wait in vain takes, for whatever is under way between the sockets."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, is_in_vain: Callable[[], bool]) -> None:
        super().__init__()
        self._is_in_vain = is_in_vain
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        left = timeout
        while left is not None and left > 0:
            in_vain = self._is_in_vain()
            step = min(left, JUMP_S if in_vain else LOOK_S)
            found = super().select(step)
            if found:
                return found
            if in_vain:
                self.skipped_s += left
                return []
            left -= step
        return super().select(timeout if timeout is None else 0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _Selector) -> None:
        self._hurried = selector
        super().__init__(selector)

    def time(self) -> float:
        return super().time() + self._hurried.skipped_s


@contextmanager
def hurried(is_in_vain: Callable[[], bool]) -> Iterator[None]:
    """Have `asyncio.run` use such loops meanwhile."""

    def new_event_loop() -> asyncio.AbstractEventLoop:
        return _Loop(_Selector(is_in_vain))

    former, asyncio.events.new_event_loop = asyncio.events.new_event_loop, new_event_loop
    try:
        yield
    finally:
        asyncio.events.new_event_loop = former
