"""Requests whose response is made at once or later, without a task or a future in either case."""

from __future__ import annotations

from typing import Generic, TypeVar

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call
from sordini.protocol.errors import WireError

M = TypeVar("M")


class Responder(Generic[M]):
    """Completes one call: `answer` may be called before or after `result`."""

    __slots__ = ("_call", "_error", "_message", "_pending")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._message: M | None = None
        self._error: WireError | None = None
        self._pending: DelayedResponse | None = None

    def answer(self, message: M) -> None:
        """Complete the call; once."""
        assert self._message is None, "a call was answered twice"
        self._message = message
        if self._pending is not None:
            self._call.complete(self._pending, message)

    def refuse(self, error: WireError) -> None:
        """Close the connection without a response, instead of `answer`."""
        if self._pending is None:
            self._error = error
        else:
            self._pending.fail(error)

    def result(self) -> M | DelayedResponse:
        """What the handler returns: the response message if it is known, else a delayed response.

        Raises the WireError of `refuse`.
        """
        if self._error is not None:
            raise self._error
        if self._message is not None:
            return self._message
        self._pending = DelayedResponse()
        return self._pending
