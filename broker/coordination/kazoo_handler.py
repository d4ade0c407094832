"""How kazoo hands its results over: one door to the loop, in the order in which the server sent them.

kazoo's own handler starts two worker threads, one for results and one for watches, and their order is lost between
them. This one starts none: a result leaves the connection's thread the moment it is set, a watch the moment it is
read, both through the same `post`. It also keeps a client from opening a second session once its first has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.retry import RetryFailedError


class OrderedResult(AsyncResult):  # type: ignore[misc]
    """kazoo's answer to a call, which leaves the connection's thread the moment it is set."""

    def __init__(self, handler: OneDoorHandler) -> None:
        super().__init__(handler, threading.Condition, handler.timeout_exception)
        self._leave = handler.leave

    def set(self, value: Any = None) -> None:
        super().set(value)
        self._leave(self)

    def set_exception(self, exception: Exception) -> None:
        super().set_exception(exception)
        self._leave(self)


class OneDoorHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without its worker threads, and with one door to the loop."""

    def __init__(self, post: Callable[..., None], answered: Callable[[OrderedResult], None]) -> None:
        super().__init__()
        self._post = post
        self._answered = answered
        self.ended = threading.Event()

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def leave(self, result: OrderedResult) -> None:
        self._post(self._answered, result)

    def async_result(self) -> OrderedResult:
        return OrderedResult(self)

    def dispatch_callback(self, callback: Any) -> None:
        self._post(callback.func, *callback.args)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self.ended.is_set():
            raise OSError("the session has ended, and this client opens no second one")
        return super().create_connection(*args, **kwargs)

    def sleep_func(self, seconds: float) -> None:
        """Sleep between attempts to connect; after the end of the session, stop attempting."""
        if self.ended.wait(seconds):
            raise RetryFailedError("the session has ended")
