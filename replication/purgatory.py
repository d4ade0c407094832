"""Answers that wait for a partition to grow: Kafka's purgatory, without a thread or a future of its own.

A `DelayedOperation` is entered in each partition it watches and leaves them all when it is done, so that waking costs one
dictionary look-up per append when nobody waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class Watched(Protocol):
    """What a waiter can be entered in."""

    @property
    def waiters(self) -> dict[DelayedOperation, None]:
        """Those who wait, in the order they came."""


class DelayedOperation:
    """One answer that is due once enough readable bytes have come, or at once when something went wrong."""

    __slots__ = ("_finish", "_missing_bytes", "_watched", "done")

    def __init__(self, missing_bytes: int, watched: Iterable[Watched], finish: Callable[[], None]) -> None:
        self._missing_bytes = missing_bytes
        self._finish = finish
        self._watched = tuple(watched)
        self.done = False
        for place in self._watched:
            place.purgatory[self] = None

    def grown(self, size: int) -> None:
        """A watched partition can be read `size` bytes further."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Answer now, whatever has come: the deadline passed, or leadership or the partition is gone."""
        if not self.done:
            self.leave()
            self._finish()

    def leave(self) -> None:
        """Stop waiting without an answer: nobody is there any more to read it."""
        self.done = True
        for place in self._watched:
            place.purgatory.pop(self, None)


def tell_all(waiters: dict[DelayedOperation, None], grown_bytes: int) -> None:
    """Tell those who wait in one place how much came there, if anything did."""
    if grown_bytes:
        for waiter in list(waiters):
            waiter.grown(grown_bytes)
