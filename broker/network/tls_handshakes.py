"""TLS handshakes beside the loop: a bounded number of them, in few threads, each with a deadline.

    readable -> receive on the loop -> compute in a thread (OpenSSL releases the interpreter lock) -> send on the loop

An RSA signature takes milliseconds, which other connections would wait for. As many handshakes as there are threads
are computed at a time, the others in the order in which their bytes arrived; a peer that is slow holds a place among
`handshakes_max`, and no thread. At that bound a listener accepts nothing, so that its peers wait in the backlog.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

from sordini.broker.network.ports import Socket
from sordini.broker.network.principal import Principal
from sordini.broker.network.tls_socket import BrokerTlsSocket
from sordini.client.tls.contexts import reason_of
from sordini.system.processes import lower_thread_priority

HANDSHAKE_RECORD: Final = 0x16
"""The first byte that a TLS client sends."""

THREAD_NICENESS: Final = 10
"""The event loop goes first; beside a busy one on the same processor a tenth is left for handshakes."""

NOT_TLS: Final = "its first bytes are not TLS; this is a TLS listener"

STOPPED: Final = "the broker stops"

Done = Callable[[Any, BaseException | None], None]


class HandshakeFailed(Exception):
    """A handshake that did not succeed, and why."""


class HandshakeRefused(HandshakeFailed):
    """One of the two sides did not accept what the other one sent: a certificate, its name, a version, a suite."""


class ServerTls(Protocol):
    """TLS of one listener."""

    def wrap(self, socket: Socket) -> BrokerTlsSocket:
        """The server's end of a new connection, with the certificate that is in force."""

    def principal(self, session: ssl.SSLObject) -> Principal:
        """Who the client is, by its certificate. Raises HandshakeRefused when no rule maps its name."""


class HandshakeWorker(Protocol):
    """Runs steps of handshakes."""

    def submit(self, step: Callable[[], Any], done: Done) -> None:
        """Call `step`, perhaps in a thread, and then `done` on the loop with its result or its exception."""

    def close(self) -> None:
        """End the threads, once the steps that run have ended (some ms); steps that wait are dropped."""


class ThreadWorker:
    """Threads of this process."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(
            threads, "sordini-tls", initializer=partial(lower_thread_priority, THREAD_NICENESS)
        )

    def submit(self, step: Callable[[], Any], done: Done) -> None:
        loop = asyncio.get_running_loop()

        def computed(future: Future[Any]) -> None:
            error = HandshakeFailed(STOPPED) if future.cancelled() else future.exception()
            with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile.
                if error is None:
                    loop.call_soon_threadsafe(done, future.result(), None)
                else:
                    loop.call_soon_threadsafe(done, None, error)

        self._pool.submit(step).add_done_callback(computed)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class LoopWorker:
    """Runs steps on the loop: for simulations, which have no threads."""

    def submit(self, step: Callable[[], Any], done: Done) -> None:
        try:
            result = step()
        except Exception as error:  # noqa: BLE001 - handed over, as a thread's.
            asyncio.get_running_loop().call_soon(done, None, error)
        else:
            asyncio.get_running_loop().call_soon(done, result, None)

    def close(self) -> None:
        """There is nothing to end."""


class Handshakes:
    """The handshakes that are under way."""

    def __init__(self, worker: HandshakeWorker, timeout_ms: int, handshakes_max: int) -> None:
        self._worker = worker
        self._timeout_s = timeout_ms / 1000
        self._handshakes_max = handshakes_max
        self._open: set[_Handshake] = set()
        self._computing: dict[_Handshake, None] = {}
        """Those that a thread may be using, failed and abandoned ones among them."""
        self.completed = self.failed = 0

    @property
    def in_progress(self) -> int:
        return len(self._open)

    def has_room(self) -> bool:
        """Whether one more may begin."""
        return len(self._open) < self._handshakes_max

    def begin(
        self, socket: BrokerTlsSocket, on_end: Done, finish: Callable[[ssl.SSLObject], Any]
    ) -> Callable[[], None]:
        """Do the handshake. `on_end` gets what `finish` makes of the session, beside the loop, or HandshakeFailed.

        The socket is the caller's once it succeeded, and is closed if it failed. Returns a function that abandons the
        handshake: it closes the socket, and `on_end` is not called.
        """
        handshake = _Handshake(self, socket, on_end, finish)
        self._open.add(handshake)
        handshake.start(self._timeout_s)
        return handshake.abandon

    async def complete(self, socket: BrokerTlsSocket) -> None:
        """Do the handshake of a connection that this broker opened. Raises HandshakeFailed, with the socket closed."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_end(_: Any, error: BaseException | None) -> None:
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        abandon = self.begin(socket, on_end, lambda _: None)
        try:
            await ended
        except asyncio.CancelledError:
            abandon()
            if ended.done() and not ended.cancelled() and ended.exception() is None:
                socket.close()  # It had just succeeded.
            raise

    def close(self) -> None:
        """Fail all handshakes; none may begin afterwards."""
        for handshake in list(self._open):
            handshake.fail(STOPPED)
        self._worker.close()
        # The loop may end before it calls them again.
        for handshake in self._computing:
            handshake.release()
        self._computing.clear()

    def compute(self, handshake: _Handshake, step: Callable[[], Any], done: Done) -> None:
        self._computing[handshake] = None
        self._worker.submit(step, done)

    def computed(self, handshake: _Handshake) -> None:
        self._computing.pop(handshake, None)

    def ended(self, handshake: _Handshake, *, is_complete: bool) -> None:
        self._open.discard(handshake)
        self.completed += is_complete
        self.failed += not is_complete


class _Handshake:
    """One handshake. It is the loop's while it waits for bytes, and a thread's while it computes."""

    def __init__(
        self, owner: Handshakes, socket: BrokerTlsSocket, on_end: Done, finish: Callable[[ssl.SSLObject], Any]
    ) -> None:
        self._owner = owner
        self._socket = socket
        self._on_end = on_end
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._result: tuple[bool, Any] = (False, None)
        self._is_watched = self._is_sending = self._is_computing = self._is_over = self._has_received = False

    def start(self, timeout_s: float) -> None:
        reason = f"no complete TLS handshake within {timeout_s:g} s"
        self._timer = self._loop.call_later(timeout_s, self.fail, reason)
        if self._socket.is_server:
            self._watch()
        else:
            self._compute()

    def abandon(self) -> None:
        """End it without a call of `on_end`."""
        if not self._is_over:
            self._end(is_complete=False)
            self._close()

    def release(self) -> None:
        """Close the socket of one that is over, and which no thread uses any more."""
        self._socket.close(reset=True)

    def _on_readable(self) -> None:
        try:
            received = self._socket.receive_handshake()
        except OSError as error:
            self.fail(error.strerror or str(error))
            return
        if received is None:
            return
        if not received:
            self.fail("the peer closed the connection during the TLS handshake")
        elif not self._has_received and self._socket.is_server and received[0] != HANDSHAKE_RECORD:
            self.fail(NOT_TLS)
        else:
            self._has_received = True
            self._unwatch()
            self._compute()

    def _compute(self) -> None:
        self._is_computing = True
        self._owner.compute(self, self._step, self._computed)

    def _step(self) -> tuple[bool, Any]:
        """In a thread: as far as the received bytes allow; whether it is complete, and what `finish` made."""
        if not self._socket.advance():
            return False, None
        return True, self._finish(self._socket.session)

    def _computed(self, result: tuple[bool, Any] | None, error: BaseException | None) -> None:
        self._is_computing = False
        self._owner.computed(self)
        if self._is_over:
            self.release()
            return
        is_sent = True
        try:
            is_sent = self._socket.flush()  # Some KiB; if the handshake failed, an alert.
        except OSError as lost:
            error = error or lost
        if result is None or error is not None:
            self._fail(_failure(error))
        else:
            self._result = result
            if is_sent:
                self._continue()
            else:  # The peer does not continue without it.
                self._is_sending = True
                self._loop.add_writer(self._socket, self._on_writable)

    def _on_writable(self) -> None:
        try:
            is_sent = self._socket.flush()
        except OSError as error:
            self.fail(error.strerror or str(error))
            return
        if is_sent:
            self._stop_sending()
            self._continue()

    def _continue(self) -> None:
        """What was computed has been sent: wait for the peer, or be done."""
        is_complete, made = self._result
        if is_complete:
            self._end(is_complete=True)
            self._on_end(made, None)
        else:
            self._watch()

    def fail(self, reason: str) -> None:
        self._fail(HandshakeFailed(reason))

    def _fail(self, failure: HandshakeFailed) -> None:
        if not self._is_over:
            self._end(is_complete=False)
            self._close()
            self._on_end(None, failure)

    def _end(self, *, is_complete: bool) -> None:
        self._is_over = True
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
        self._owner.ended(self, is_complete=is_complete)

    def _close(self) -> None:
        """Close the socket, unless a thread uses it: then when the step ends."""
        if not self._is_computing:
            self._socket.close()

    def _watch(self) -> None:
        self._is_watched = True
        self._loop.add_reader(self._socket, self._on_readable)

    def _unwatch(self) -> None:
        self._stop_sending()
        if self._is_watched:
            self._is_watched = False
            self._loop.remove_reader(self._socket)

    def _stop_sending(self) -> None:
        if self._is_sending:
            self._is_sending = False
            self._loop.remove_writer(self._socket)


def _failure(error: BaseException | None) -> HandshakeFailed:
    match error:
        case HandshakeFailed():
            return error
        case ssl.SSLError():
            return HandshakeRefused(reason_of(error))
        case OSError():
            return HandshakeFailed(str(error))
        case _:
            return HandshakeFailed(f"a bug: {error!r}")
