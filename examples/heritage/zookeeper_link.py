"""One session with ZooKeeper and its calls, through what kazoo makes public: its client, and a handler's interface.

A session is never replaced by another one: once it is over, the handler refuses connections, and calls raise
SessionOver. A lease needs the time when an answered request left, and the session timeout that the server granted, and
kazoo has neither:

- A request leaves after its call has begun, so the session lasts for its timeout from the begin of the newest answered
  call. A thread makes a call where no other was made for a while.
- The server's first answer on a connection has the timeout. The socket reads it along:

    0  size     int32
    4  version  int32
    8  timeout  int32    in milliseconds; 0 when the session has expired
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Any, Final

from kazoo import exceptions as kazoo_exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry, RetryFailedError

from examples.heritage.errors import ConnectionLost, SessionOver, ZooKeeperError

_TIMEOUT_AT: Final = slice(8, 12)
_CONNECT_ATTEMPTS: Final = 3
"""How many attempts to connect, each without an answer, fit into a session timeout."""
_CALLS: Final = 4
"""How many calls at least are made in a session timeout."""
_CLOSE_S_MAX: Final = 2.0
"""How long the close of a session may take when ZooKeeper hangs."""
_POLL_S: Final = 0.1
_ANSWERS: Final = (kazoo_exceptions.NoNodeError, kazoo_exceptions.NodeExistsError)
_ENDS: Final = (kazoo_exceptions.SessionExpiredError, kazoo_exceptions.ConnectionClosedError)


class FirstAnswerSocket(socket.socket):
    """A socket that reads the granted session timeout along."""

    _head: bytes = b""
    granted: Callable[[float], None]
    """Called once, with seconds."""

    @classmethod
    def over(cls, connected: socket.socket, granted: Callable[[float], None]) -> FirstAnswerSocket:
        """The same connection; the given object is of no use afterwards."""
        made = cls(connected.family, connected.type, connected.proto, fileno=connected.detach())
        made.granted = granted
        return made

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data = super().recv(size, flags)
        if len(self._head) < _TIMEOUT_AT.stop:
            self._head += data[: _TIMEOUT_AT.stop - len(self._head)]
            if len(self._head) == _TIMEOUT_AT.stop:
                self.granted(int.from_bytes(self._head[_TIMEOUT_AT], signed=True) / 1000)
        return data


class OneSessionHandler(SequentialThreadingHandler):
    """kazoo's handler of threads for one session."""

    def __init__(self, session_timeout_s: float) -> None:
        super().__init__()
        self.ended = Event()
        self.session_timeout_s = session_timeout_s
        """As requested, and as granted once connected (the server has bounds)."""
        self._connect_s_max = session_timeout_s / _CONNECT_ATTEMPTS
        self._is_connecting = False

    def create_connection(self, *where: Any, timeout: float, **how: Any) -> socket.socket:
        if self.ended.is_set():
            raise OSError("the session has ended; this client does not open another one")
        self._is_connecting = True
        connected = super().create_connection(*where, timeout=min(timeout, self._connect_s_max), **how)
        return FirstAnswerSocket.over(connected, self._granted)

    def select(self, reading: Any, writing: Any, failing: Any, timeout: float | None = None) -> Any:
        # kazoo would wait for the session timeout, which the session does not outlast: a server that has just been
        # started may keep a connection open and never answer.
        if self._is_connecting and timeout is not None:
            timeout = min(timeout, self._connect_s_max)
        return super().select(reading, writing, failing, timeout)

    def sleep_func(self, seconds: float) -> None:
        """Sleep between attempts to connect."""
        if self.ended.wait(seconds):
            raise RetryFailedError("the session has ended")

    def _granted(self, timeout_s: float) -> None:
        self._is_connecting = False
        if timeout_s > 0:
            self.session_timeout_s = timeout_s


class ZooKeeperLink:
    """One session with an ensemble ("host:port,host:port/chroot"). Threads may share it."""

    def __init__(
        self, connect: str, session_timeout_s: float, connect_timeout_s: float, changed: Callable[[], None]
    ) -> None:
        """Connect; `changed` is called, on threads of kazoo, when the state changes. Raises ZooKeeperError."""
        hosts, slash, chroot = connect.partition("/")
        self._root = f"/{chroot}".rstrip("/") if slash else ""
        self._changed = changed
        self._handler = OneSessionHandler(session_timeout_s)
        # The documents' clients log what they do about it; kazoo warns of each lost connection.
        logger = logging.getLogger("examples.heritage.kazoo")
        logger.setLevel(logging.ERROR)
        retry = KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=self._handler.sleep_func)
        self._client = KazooClient(
            hosts, timeout=session_timeout_s, handler=self._handler, connection_retry=retry, logger=logger
        )
        self._client.add_listener(self._state_changed)
        self._closing: Thread | None = None
        self.session_id = 0
        self._extended_s = time.monotonic()
        if not self._client.start_async().wait(connect_timeout_s):
            self.close()
            raise ZooKeeperError(f"no ZooKeeper at {hosts} answered within {connect_timeout_s * 1000:.0f} ms")
        Thread(target=self._extend, name="zookeeper-lease", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether the session has neither expired nor been closed, as far as this client knows."""
        return not self._handler.ended.is_set()

    def left_s(self, margin: float) -> float:
        """For how many seconds from now on the session certainly lasts, less a part of its timeout; or 0."""
        until_s = self._extended_s + self._handler.session_timeout_s * (1 - margin)
        return max(0.0, until_s - time.monotonic()) if self.is_open else 0.0

    def call(self, name: str, path: str, *given: Any, **options: Any) -> Any:
        """The result of a call of kazoo's client, without `_async` at its end.

        Raises NoNodeError and NodeExistsError of kazoo, ConnectionLost, SessionOver, ZooKeeperError.
        """
        if not self.is_open:
            raise SessionOver(path)
        if not self._client.connected:  # kazoo would queue the call for the next connection, however late that is.
            raise ConnectionLost(path)
        began_s = time.monotonic()
        whole_path = path if not self._root else self._root if path == "/" else self._root + path
        result = getattr(self._client, f"{name}_async")(whole_path, *given, **options)
        try:
            return self._answer(result, began_s)
        except _ANSWERS:
            raise
        except _ENDS:
            raise SessionOver(path) from None
        except kazoo_exceptions.ConnectionLoss:
            raise ConnectionLost(path) from None
        except kazoo_exceptions.KazooException as error:
            raise ZooKeeperError(f"{path}: {type(error).__name__}") from None

    def close(self) -> None:
        """End the session and its ephemeral nodes; without an answer of ZooKeeper they end with its timeout."""
        was_connected = self._client.connected
        self._handler.ended.set()
        if self._closing is None:
            # kazoo would wait for ten seconds for a server that hangs.
            self._closing = Thread(target=self._stop, name="zookeeper-close", daemon=True)
            self._closing.start()
        self._closing.join(_CLOSE_S_MAX if was_connected else 0)

    def _answer(self, result: Any, began_s: float) -> Any:
        """The value of a result. kazoo forgets one when the session ends at the moment of the call."""
        while not result.wait(_POLL_S):
            if not self.is_open:
                raise kazoo_exceptions.SessionExpiredError
        if result.exception is None or isinstance(result.exception, _ANSWERS):
            self._extended_s = max(self._extended_s, began_s)
        return result.get()

    def _stop(self) -> None:
        with suppress(kazoo_exceptions.WriterNotClosedException):  # Its threads are daemons; the session expires.
            self._client.stop()
            self._client.close()

    # On threads of their own.

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.session_id = self._client.client_id[0]
        elif state == KazooState.LOST:
            self._handler.ended.set()
        self._changed()

    def _extend(self) -> None:
        """Make a call whenever no other extended the session for a while."""
        ended = self._handler.ended
        period_s = self._handler.session_timeout_s / _CALLS
        while not ended.wait(max(_POLL_S, self._extended_s + period_s - time.monotonic())):
            if time.monotonic() >= self._extended_s + period_s:
                with suppress(ZooKeeperError):
                    self.call("exists", "/")
