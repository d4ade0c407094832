"""Brokers that do wrong: a proxy in front of a real one, that fails after so many of its answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from enum import Enum

from tests.support.tcp_proxy import LENGTH, TcpProxy, hang_up, received_frame

_GARBAGE = LENGTH.pack(32) + b"\xfe" * 32


class Fault(Enum):
    """What becomes of the answer at which the fault is due, and of all that follow."""

    NONE = "nothing"
    SILENCE = "the broker accepts connections and requests, and does not answer"
    HANG_UP = "the broker closes every connection instead of answering"
    GARBAGE = "the answer has a length, and what follows makes no sense"
    LOSS = "one answer is lost with its connection; everything after it is as it should be"
    INTERRUPT = "Ctrl-C is pressed, and the broker does not answer any more"


class FaultyBroker(TcpProxy):
    """Listens from its creation to `close`; serves whatever `behind` says is the broker's port."""

    def __init__(self) -> None:
        self.answers = 0
        """How many answers have passed since the last `plan`."""
        self._fault = Fault.NONE
        self._after = 0
        self._changes = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(self._relay)

    def plan(self, fault: Fault, after: int = 0) -> None:
        """Close all connections, and let `after` answers pass from now on before the fault."""
        with self._changes:
            self._fault, self._after, self.answers = fault, after, 0
            former, self._open = self._open, set()
        for connection in former:
            hang_up(connection)

    @property
    def has_failed(self) -> bool:
        """Whether the fault has come: no answer that makes sense comes any more."""
        return self._fault not in (Fault.NONE, Fault.LOSS) and self.answers > self._after

    def close(self) -> None:
        self.plan(Fault.HANG_UP)
        super().close()

    def _relay(self, client: socket.socket, broker: socket.socket) -> None:
        with self._changes:
            self._open |= {client, broker}
        threading.Thread(target=self._requests, args=(client, broker), daemon=True).start()
        threading.Thread(target=self._answers, args=(client, broker), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                broker.sendall(data)
        hang_up(broker)

    def _answers(self, client: socket.socket, broker: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            while self._pass_on(client, received_frame(broker)):
                pass
        hang_up(client)

    def _pass_on(self, client: socket.socket, frame: bytes) -> bool:
        """Whether the connection stays open."""
        with self._changes:
            is_due = self._fault is not Fault.NONE and self.answers >= self._after
            is_first = is_due and self.answers == self._after
            self.answers += 1
            fault = self._fault if is_first or (is_due and self._fault is not Fault.LOSS) else Fault.NONE
        if fault is Fault.NONE:
            client.sendall(frame)
        elif fault is Fault.GARBAGE:
            client.sendall(_GARBAGE)
        elif fault is Fault.INTERRUPT and is_first:
            os.kill(os.getpid(), signal.SIGINT)
        return fault not in (Fault.HANG_UP, Fault.LOSS)
