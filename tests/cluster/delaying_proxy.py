"""A network that delays one request of a client, or loses its answer: a proxy between the client and one broker.

The broker advertises the proxy's address. Requests pass whole; which one is delayed is decided by its header: the API,
the client id, and how many of that kind pass before it. Nothing here depends on time.

    client ──(1)── proxy ── broker       the delayed request, and all that follows on (1), stays in the proxy
    client ──(2)── proxy ── broker       the client has given (1) up and continues
             (1)── proxy ── broker       `deliver`: the broker receives, on (1), what was sent first

The broker's side of a connection with a delayed request stays open, as it does when a network delays the packets: the
end of the connection would arrive behind them. So the broker has accepted (1) before (2).
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from enum import Enum
from typing import Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from tests.support.tcp_proxy import LENGTH, TcpProxy, hang_up, received_frame

_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_CORRELATION: Final = struct.Struct(">i")
SECONDS_MAX: Final = 30.0


class Fault(Enum):
    """What happens to one request."""

    REQUEST_DELAYED = "the broker receives it when the test says so"
    ANSWER_LOST = "the broker serves it, and the client never receives the answer"


class Notice(Enum):
    """How the client finds out."""

    TIMEOUT = "it gets no answer, and ends the connection itself when its timeout has passed"
    DISCONNECTED = "its connection is ended, as by a middlebox that forgot it"


class Head(NamedTuple):
    """The header of a request."""

    key: int
    version: int
    correlation_id: int
    client_id: str

    @classmethod
    def of(cls, frame: bytes) -> Head:
        key, version, correlation_id, size = _HEAD.unpack_from(frame, LENGTH.size)
        start = LENGTH.size + _HEAD.size
        return cls(key, version, correlation_id, frame[start : start + max(size, 0)].decode(errors="replace"))


class Planned:
    """A request to which something is to happen, once it comes; and what has happened."""

    def __init__(self, key: ApiKey, client_id: str, skipped: int, fault: Fault, notice: Notice) -> None:
        self.key = key
        self.client_id = client_id
        self.fault = fault
        self.notice = notice
        self._to_pass = skipped
        self._link: _Link | None = None
        self._caught = threading.Event()
        self._abandoned = threading.Event()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.correlation_id = -1
        self.version = -1

    def catches(self, head: Head) -> bool:
        """Whether this request is the one; counts those that pass before."""
        if (head.key, head.client_id) != (self.key, self.client_id):
            return False
        self._to_pass -= 1
        return self._to_pass < 0

    def caught(self, link: _Link, head: Head) -> None:
        self._link, self.correlation_id, self.version = link, head.correlation_id, head.version
        self._caught.set()

    @property
    def has_come(self) -> bool:
        return self._caught.is_set()

    def wait_until_abandoned(self) -> None:
        """Until the client has ended the connection of the request."""
        assert self._abandoned.wait(SECONDS_MAX), f"the client keeps the connection of its {self.key.name}"

    def abandoned(self) -> None:
        self._abandoned.set()

    def deliver(self) -> bytes | None:
        """Send the delayed request to the broker; the frame of its answer, None when the broker ends the connection."""
        assert self.fault is Fault.REQUEST_DELAYED
        assert self._caught.wait(SECONDS_MAX), f"there was no {self.key.name} of {self.client_id}"
        self.wait_until_abandoned()
        assert self._link is not None
        self._link.deliver()
        return self.answer()

    def answer(self) -> bytes | None:
        """What the broker answered to the request, None when it ended the connection instead."""
        try:
            return self._answers.get(timeout=SECONDS_MAX)
        except queue.Empty:
            raise AssertionError(f"the broker neither answers {self.key.name} nor ends its connection") from None

    def answered(self, frame: bytes | None) -> None:
        self._answers.put(frame)


class DelayingProxy(TcpProxy):
    """Listens from its creation to `close`; `behind` is the broker's port."""

    def __init__(self) -> None:
        self._plans: list[Planned] = []
        self._changes = threading.Lock()
        self._links: list[_Link] = []
        super().__init__(self._link)

    def plan(
        self,
        key: ApiKey,
        client_id: str,
        fault: Fault = Fault.REQUEST_DELAYED,
        notice: Notice = Notice.DISCONNECTED,
        skipped: int = 0,
    ) -> Planned:
        """Let something happen to the client's next request of that kind, after `skipped` that pass."""
        planned = Planned(key, client_id, skipped, fault, notice)
        with self._changes:
            self._plans.append(planned)
        return planned

    def taken(self, head: Head) -> Planned | None:
        """The plan for a request; each is for one request only."""
        with self._changes:
            found = next((one for one in self._plans if one.catches(head)), None)
            if found is not None:
                self._plans.remove(found)
        return found

    def close(self) -> None:
        super().close()
        with self._changes:
            links, self._links = self._links, []
        for link in links:
            link.close()

    def _link(self, client: socket.socket, broker: socket.socket) -> None:
        link = _Link(self, client, broker)
        with self._changes:
            self._links.append(link)
        link.start()


class _Link:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, proxy: DelayingProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._sending = threading.Lock()
        self._held: list[bytes] | None = None
        """The delayed request and what follows; None while requests pass."""
        self._planned: Planned | None = None

    def start(self) -> None:
        for work in (self._requests, self._answers):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        hang_up(self._client)
        hang_up(self._broker)

    def deliver(self) -> None:
        with self._sending:
            held, self._held = self._held or [], None
            # A broker that ends the connection at the first does not take the rest.
            with contextlib.suppress(OSError):
                for frame in held:
                    self._broker.sendall(frame)

    def _requests(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                self._pass_on(received_frame(self._client))
        planned = self._planned
        if planned is not None:
            planned.abandoned()
        if planned is None or planned.fault is not Fault.REQUEST_DELAYED:
            hang_up(self._broker)

    def _pass_on(self, frame: bytes) -> None:
        head = Head.of(frame)
        with self._sending:
            planned = None if self._planned is not None else self._proxy.taken(head)
            if planned is not None:
                self._planned = planned
                planned.caught(self, head)
                if planned.fault is Fault.REQUEST_DELAYED:
                    self._held = []
            if self._held is None:
                self._broker.sendall(frame)
            else:
                self._held.append(frame)
        if planned is not None and planned.fault is Fault.REQUEST_DELAYED and planned.notice is Notice.DISCONNECTED:
            hang_up(self._client)

    def _answers(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                self._answer(received_frame(self._broker))
        if self._planned is not None:
            self._planned.answered(None)
        self.close()

    def _answer(self, frame: bytes) -> None:
        planned = self._planned
        (correlation_id,) = _CORRELATION.unpack_from(frame, LENGTH.size)
        if planned is None or correlation_id != planned.correlation_id:
            # Of requests before the delayed one; the client may be gone.
            with contextlib.suppress(OSError):
                self._client.sendall(frame)
            return
        planned.answered(frame)
        if planned.notice is Notice.DISCONNECTED:
            hang_up(self._client)
