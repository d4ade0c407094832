"""How kazoo's results and watches reach the loop: through one queue, in the order in which the server sent them.

kazoo's own handler starts two worker threads, one for results and one for watches, so their order is lost. This one
starts none: the connection's thread posts a result when it is set and a watch when it is read, both through the same
`post`. It also prevents a client from opening a second session after its first has ended.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry, RetryFailedError

from sordini.client.tls.contexts import Context
from sordini.client.tls.system_sockets import failure_text, secured, with_decrypted_bytes
from sordini.coordination_store.host_addresses import HostAddresses, ServerAddress
from sordini.coordination_store.zookeeper_access import DigestLogin
from sordini.replication.ports import CONNECT_ATTEMPTS_MIN
from sordini.system.clock import SystemClock


class OrderedResult(AsyncResult):  # type: ignore[misc]
    """kazoo's result of a call, which the connection's thread posts when it is set."""

    def __init__(self, handler: LoopHandler) -> None:
        super().__init__(handler, threading.Condition, handler.timeout_exception)
        self._post_result = handler.post_result

    def set(self, value: Any = None) -> None:
        super().set(value)
        self._post_result(self)

    def set_exception(self, exception: Exception) -> None:
        super().set_exception(exception)
        self._post_result(self)


class BatchedWakeup:
    """The socket that wakes kazoo's thread, written once for all calls of one iteration of the loop.

    kazoo writes to it at every call, and its thread then takes the interpreter lock from the loop: 500 calls at once
    stopped the loop for 190 to 450 ms, and with one write for 33 to 68.
    """

    def __init__(self, sending: Any, soon: Callable[[Callable[[], None]], object]) -> None:
        """`soon` is `loop.call_soon`; create it on the loop's thread."""
        self._socket = sending
        self._soon = soon
        self._thread = threading.get_ident()
        self._due_count = 0

    def send(self, data: bytes) -> int:
        """Write a byte for each call, as kazoo expects."""
        if threading.get_ident() != self._thread:
            return int(self._socket.send(data))
        self._due_count += len(data)
        if self._due_count == len(data):
            self._soon(self._flush)
        return len(data)

    def close(self) -> None:
        self._socket.close()

    def _flush(self) -> None:
        due_count, self._due_count = self._due_count, 0
        with contextlib.suppress(OSError):  # The client was closed meanwhile.
            self._socket.sendall(bytes(due_count))


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler without its worker threads, and with one queue to the loop."""

    def __init__(
        self,
        post: Callable[..., None],
        answered: Callable[[OrderedResult], None],
        soon: Callable[[Callable[[], None]], object],
        tls: Context | None = None,
    ) -> None:
        """`post` schedules a call on the loop from any thread, `soon` from the loop's own thread."""
        super().__init__()
        self._tls = tls
        self._post = post
        self._answered = answered
        self._soon = soon
        self.ended = threading.Event()
        self.connect_s_max = math.inf
        """How long a connection, and the answer to its first request, may take."""

    @property
    def uses_tls(self) -> bool:
        return self._tls is not None

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def post_result(self, result: OrderedResult) -> None:
        self._post(self._answered, result)

    def async_result(self) -> OrderedResult:
        return OrderedResult(self)

    def dispatch_callback(self, callback: Any) -> None:
        self._post(callback.func, *callback.args)

    def create_socket_pair(self) -> tuple[Any, BatchedWakeup]:
        reading, writing = super().create_socket_pair()
        return reading, BatchedWakeup(writing, self._soon)

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> Any:
        """Connect, and with TLS complete the handshake. Raises OSError.

        kazoo's own TLS would trust the system's authorities, too, and its own choice of versions.
        """
        if self.ended.is_set():
            raise OSError("the session has ended; this client does not open another one")
        connection = super().create_connection(address, timeout=min(timeout, self.connect_s_max))
        return connection if self._tls is None else secured(connection, self._tls, hostname)

    def select(self, reading: list[Any], writing: list[Any], failing: list[Any], timeout: float | None = None) -> Any:
        """As select.select; a TLS socket with decrypted bytes is readable although nothing is left in the system."""
        decrypted = with_decrypted_bytes(reading)
        if not decrypted:
            return super().select(reading, writing, failing, timeout)
        others = [one for one in reading if one not in decrypted]
        readable, writable, failed = super().select(others, writing, failing, 0)
        return [*decrypted, *readable], writable, failed

    def sleep_func(self, seconds: float) -> None:
        """Sleep between attempts to connect; raises RetryFailedError once the session has ended."""
        if self.ended.wait(seconds):
            raise RetryFailedError("the session has ended")


class TimedClient(KazooClient):  # type: ignore[misc]
    """kazoo's client on a `TimedConnection`."""

    _connection: Any

    def __init__(
        self,
        hosts: str,
        handler: LoopHandler,
        login: DigestLogin | None,
        *,
        timeout_ms: int,
        connection_retry: KazooRetry,
    ) -> None:
        # The broker logs the events that kazoo warns of; only kazoo's errors are logged (`kazoo_lines.py`).
        logger = logging.getLogger("kazoo")
        logger.setLevel(logging.ERROR)
        super().__init__(
            hosts,
            timeout=timeout_ms / 1000,
            handler=handler,
            connection_retry=connection_retry,
            logger=logger,
            # Sent on each connection before any call.
            auth_data=None if login is None else [("digest", f"{login.user}:{login.password}")],
        )
        self.timed_connection = self._connection = TimedConnection(self, self._connection.retry_sleeper, timeout_ms)


class TimedConnection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, with two times, as plain numbers: its thread writes them, and any thread may read them.

    The server extends a session when a request or ping arrives, so the session certainly lasts from the time at which
    the newest answered one was sent. The time of the answer would be wrong: a stopped process reads it long after.
    """

    def __init__(self, client: TimedClient, retry: KazooRetry, session_timeout_ms: int) -> None:
        super().__init__(client, retry, logger=client.logger)
        self._clock = SystemClock()  # The clock of kazoo's own deadlines; nothing here is simulated.
        self.session_timeout_ms = session_timeout_ms
        """The session timeout: as requested, and as negotiated once connected (the server has bounds)."""
        self.extended_ms = self._clock.monotonic_ms()
        """When the newest request that the server has answered was sent, on the monotonic clock."""
        self._sent_ms: dict[int, int] = {}  # By the xid of a request without an answer yet; of several pings the first.
        self.tls_failure: str | None = None
        """Why the newest attempt to connect by TLS failed."""
        self._addresses = HostAddresses()

    def _expand_client_hosts(self) -> list[ServerAddress]:
        return self._addresses.resolved(self.client.hosts)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        # kazoo would wait for the session timeout, which the session does not outlast. A server that has just been
        # started may keep a connection open and never answer: it reads from it before its database is there, and the
        # NullPointerException of `ZooKeeperServer.removeCnxn` then prevents it from closing the socket.
        self._sent_ms.clear()
        began_ms = self._clock.monotonic_ms()
        attempts = max(CONNECT_ATTEMPTS_MIN, len(self.client.hosts))
        self.handler.connect_s_max = self.session_timeout_ms / attempts / 1000
        try:
            read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        except ConnectionDropped as error:
            # kazoo's error for those of sockets. With TLS 1.3 a server refuses a certificate after the handshake.
            cause = error.__context__
            if self.handler.uses_tls and cause is not None:
                self.tls_failure = f"{host}:{port}: {failure_text(cause)}"
            raise
        # kazoo's read timeout is two thirds of the negotiated session timeout, which it does not keep.
        self.session_timeout_ms = round(read_timeout_ms * 3 / 2)
        self.extended_ms = began_ms
        return read_timeout_ms, connect_timeout_ms

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        return super()._invoke(min(timeout, self.handler.connect_s_max), request, xid)

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if xid:  # Before it is written: the server may have it at once.
            self._sent_ms.setdefault(xid, self._clock.monotonic_ms())
        super()._submit(request, timeout, xid)

    def _read_header(self, timeout: float) -> Any:
        message = super()._read_header(timeout)
        # Here and not later: a caller that has the answer then also finds its time. Watch events answer no request.
        self.extended_ms = self._sent_ms.pop(message[0].xid, self.extended_ms)
        return message
