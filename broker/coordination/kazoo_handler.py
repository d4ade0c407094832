"""How kazoo hands its results over: one door to the loop, in the order in which the server sent them.

kazoo's own handler starts two worker threads, one for results and one for watches, and their order is lost between
them. This one starts none: a result leaves the connection's thread the moment it is set, a watch the moment it is
read, both through the same `post`. It also keeps a client from opening a second session once its first has ended.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry, RetryFailedError

from sordini.broker.clock import SystemClock


class OrderedResult(AsyncResult):  # type: ignore[misc]
    """kazoo's answer to a call, which leaves the connection's thread the moment it is set."""

    def __init__(self, handler: LoopHandler) -> None:
        super().__init__(handler, threading.Condition, handler.timeout_exception)
        self._leave = handler.leave

    def set(self, value: Any = None) -> None:
        super().set(value)
        self._leave(self)

    def set_exception(self, exception: Exception) -> None:
        super().set_exception(exception)
        self._leave(self)


class BatchedWakeup:
    """The end of kazoo's socket pair by which its thread is woken, rung once for all calls of one turn of the loop.

    kazoo rings for every call, and each time its thread takes the interpreter, which the loop then waits for: 500
    writes at once stopped the loop for 190 to 450 ms, and with one ring for 33 to 68.
    """

    def __init__(self, sending: Any, soon: Callable[[Callable[[], None]], object]) -> None:
        """`soon` calls on the loop once this turn of it is over; to be made on the loop's thread."""
        self._socket = sending
        self._soon = soon
        self._thread = threading.get_ident()
        self._due_count = 0

    def send(self, data: bytes) -> int:
        """A byte for each call, as kazoo expects them."""
        if threading.get_ident() != self._thread:
            return int(self._socket.send(data))
        self._due_count += len(data)
        if self._due_count == len(data):
            self._soon(self._ring)
        return len(data)

    def close(self) -> None:
        self._socket.close()

    def _ring(self) -> None:
        due_count, self._due_count = self._due_count, 0
        with contextlib.suppress(OSError):  # The client was closed meanwhile, and has nobody to wake.
            self._socket.sendall(bytes(due_count))


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without its worker threads, and with one door to the loop."""

    def __init__(
        self,
        post: Callable[..., None],
        answered: Callable[[OrderedResult], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """`post` calls on the loop from any thread, `soon` from the loop's own."""
        super().__init__()
        self._post = post
        self._answered = answered
        self._soon = soon
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

    def create_socket_pair(self) -> tuple[Any, BatchedWakeup]:
        reading, writing = super().create_socket_pair()
        return reading, BatchedWakeup(writing, self._soon)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self.ended.is_set():
            raise OSError("the session has ended, and this client opens no second one")
        return super().create_connection(*args, **kwargs)

    def sleep_func(self, seconds: float) -> None:
        """Sleep between attempts to connect; after the end of the session, stop attempting."""
        if self.ended.wait(seconds):
            raise RetryFailedError("the session has ended")


class TimedClient(KazooClient):  # type: ignore[misc]
    """kazoo's client on a connection that takes notes."""

    _connection: Any

    def __init__(self, hosts: str, handler: LoopHandler, *, timeout_ms: int, connection_retry: KazooRetry) -> None:
        # What is a warning to kazoo the broker says in its own words; an error of kazoo's own is still to be seen.
        logger = logging.getLogger("kazoo")
        logger.setLevel(logging.ERROR)
        super().__init__(
            hosts, timeout=timeout_ms / 1000, handler=handler, connection_retry=connection_retry, logger=logger
        )
        self.notes = self._connection = TimedConnection(self, self._connection.retry_sleeper, timeout_ms)


class TimedConnection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, with two notes. Its thread writes them; they are plain numbers, so any may read them."""

    def __init__(self, client: TimedClient, retry: KazooRetry, session_timeout_ms: int) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._clock = SystemClock()  # The one kazoo's own deadlines are on; nothing here can be simulated.
        self.session_timeout_ms = session_timeout_ms
        """What was asked for, and what the server granted once it has: it has bounds of its own."""
        self.last_message_ms = self._clock.monotonic_ms()
        """When a whole message of the server's came last, on the monotonic clock."""

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        # kazoo takes a server for dead after two thirds of the timeout that was granted, and forgets the whole.
        self.session_timeout_ms = round(read_timeout_ms * 3 / 2)
        self.last_message_ms = self._clock.monotonic_ms()
        return read_timeout_ms, connect_timeout_ms

    def _read_header(self, timeout: float) -> Any:
        message = super()._read_header(timeout)
        # Here and not later: when the answer is known to somebody, so is when it came.
        self.last_message_ms = self._clock.monotonic_ms()
        return message
