"""A request whose answer may be there at once or come later, and costs neither a task nor a future either way."""

from __future__ import annotations

from typing import Generic, TypeVar

from sordini.broker.dispatch import Call
from sordini.broker.network.ports import Pending

M = TypeVar("M")


class Exchange(Generic[M]):
    """One call between its handler and whoever has its answer."""

    __slots__ = ("_call", "_message", "_pending")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._message: M | None = None
        self._pending: Pending | None = None

    def answer(self, message: M) -> None:
        """Complete the call; once."""
        assert self._message is None, "a call was answered twice"
        self._message = message
        if self._pending is not None:
            self._call.complete(self._pending, message)

    def result(self) -> M | Pending:
        """What the handler returns: the answer if it is there, and else the promise of it."""
        if self._message is not None:
            return self._message
        self._pending = Pending()
        return self._pending
