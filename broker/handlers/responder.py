"""Requests whose response is made at once or later, without a task or a future in either case."""

from __future__ import annotations

from typing import Generic, TypeVar

from sordini.broker.dispatch import Call
from sordini.broker.network.ports import DelayedResponse

M = TypeVar("M")


class Responder(Generic[M]):
    """Completes one call: `answer` may be called before or after `result`."""

    __slots__ = ("_call", "_message", "_pending")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._message: M | None = None
        self._pending: DelayedResponse | None = None

    def answer(self, message: M) -> None:
        """Complete the call; once."""
        assert self._message is None, "a call was answered twice"
        self._message = message
        if self._pending is not None:
            self._call.complete(self._pending, message)

    def result(self) -> M | DelayedResponse:
        """What the handler returns: the response message if it is known, else a delayed response."""
        if self._message is not None:
            return self._message
        self._pending = DelayedResponse()
        return self._pending
