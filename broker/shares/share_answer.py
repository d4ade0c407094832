"""The response to a request that waits for several things: acknowledgements that are written, a fetch that is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call
from sordini.broker.shares.machine.sessions import Target
from sordini.protocol.types import TopicId

R = TypeVar("R")


class Countdown:
    """Calls once, when all that was begun is done: perhaps in `release`, which is called when no more is begun."""

    __slots__ = ("_on_zero", "_open")

    def __init__(self, on_zero: Callable[[], None]) -> None:
        self._on_zero = on_zero
        self._open = 1

    def begin(self) -> Callable[[], None]:
        """One more thing to wait for; returns what is called, once, when it is done."""
        self._open += 1
        return self.release

    def release(self) -> None:
        self._open -= 1
        if not self._open:
            self._on_zero()


class ShareAnswer:
    """One response, complete when all that was begun is done; without a task or a future in either case."""

    __slots__ = ("_call", "_make", "_open", "_pending", "on_abandon")

    def __init__(self, call: Call, make: Callable[[], Any]) -> None:
        """`make` makes the message."""
        self._call = call
        self._make = make
        self._open = 1
        self._pending: DelayedResponse | None = None
        self.on_abandon: Callable[[], None] | None = None
        """Called when the connection is closed before the response is complete."""

    def begin(self) -> Callable[[], None]:
        """One more thing to wait for; returns what is called, once, when it is done."""
        self._open += 1
        return self._done

    def _done(self) -> None:
        self._open -= 1
        if not self._open and self._pending is not None and not self._pending.abandoned:
            self._call.complete(self._pending, self._make())

    def result(self) -> Any:
        """The message, if nothing has to be waited for, else the delayed response; called once, when all is begun."""
        self._open -= 1
        if not self._open:
            return self._make()
        self._pending = DelayedResponse(self.on_abandon)
        return self._pending


def by_topic(rows: Iterable[tuple[Target, R]]) -> dict[TopicId, list[R]]:
    """Rows of a response by topic, in their order."""
    topics: dict[TopicId, list[R]] = {}
    for target, row in rows:
        topics.setdefault(target.topic_id, []).append(row)
    return topics
