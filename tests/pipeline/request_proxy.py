"""An HTTP proxy between a writer and its object store, which counts requests and at one of them does harm.

Requests pass through it unchanged, with the host name that their signature covers. At the request of a number it may
kill the writer (-9) or close its connection, before the server has the request or after it has answered: see `Harm`. Or
it answers in the server's place as S3 does when it refuses: see `Refusal`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

SECONDS_MAX: Final = 60.0
_OF_ONE_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "content-length"})


class Harm(Enum):
    """What becomes of one request."""

    KILLED_BEFORE = "killed before"
    """The writer is killed, and the server never has the request."""
    KILLED_AFTER = "killed after"
    """The server has answered, and the writer is killed before it has the answer."""
    CUT_BEFORE = "cut before"
    """The connection is closed, and the server never has the request. The writer lives."""
    CUT_AFTER = "cut after"
    """The server has answered, and the connection is closed instead. The writer lives, and cannot know."""
    BUSY = "busy"
    """The answer is that of a store with too many requests. The writer lives, and may repeat it."""
    REFUSED = "refused"
    """From this request on all that write are answered as those of credentials that may only read."""


class Refusal(NamedTuple):
    """An answer of S3's that the writer gets in place of the server's, which never has the request."""

    status: int
    code: str

    @property
    def body(self) -> bytes:
        text = f"<Error><Code>{self.code}</Code><Message>m</Message><RequestId>1</RequestId></Error>"
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()


DENIED: Final = Refusal(403, "AccessDenied")
SLOW_DOWN: Final = Refusal(503, "SlowDown")


class Request(NamedTuple):
    """One request, by its number from 0."""

    number: int
    method: str
    path: str

    @property
    def is_writing(self) -> bool:
        """Whether the server's state may be another one after it."""
        return self.method in {"PUT", "POST", "DELETE"}


Plan = Callable[[Request], Harm | Refusal | None]


def nothing(_: Request) -> None:
    """The plan by which all requests pass."""
    return


def at(number: int, harm: Harm) -> Plan:
    """The plan of one harm, at the request of that number."""
    if harm is Harm.REFUSED:
        return lambda request: DENIED if request.is_writing and request.number >= number else None
    verdict = SLOW_DOWN if harm is Harm.BUSY else harm
    return lambda request: verdict if request.number == number else None


def always(refusal: Refusal) -> Plan:
    """The plan of a store that refuses everything."""
    return lambda _: refusal


def first(count: int, refusal: Refusal) -> Plan:
    """The plan of a store that refuses its first requests."""
    return lambda request: refusal if request.number < count else None


def writes(refusal: Refusal) -> Plan:
    """The plan of a store that answers what reads, and refuses the rest."""
    return lambda request: refusal if request.is_writing else None


class Watch:
    """The plan of a proxy, the count of requests, and the process to be killed."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._plan: Plan = nothing
        self._is_dead = False
        self._under_way = 0
        self._pid: int | None = None
        self.requests: list[Request] = []
        """Those of the present plan."""

    def begin(self, plan: Plan) -> None:
        """Follow a plan from now on, with the next request as its first."""
        with self._lock:
            self._plan, self._is_dead, self._pid, self.requests = plan, False, None, []

    def name_writer(self, pid: int) -> None:
        """The process that is killed if the plan says so."""
        with self._lock:
            self._pid = pid
            self._lock.notify_all()

    def end(self) -> bool:
        """Wait for what the servers are doing; whether the writer was killed."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._under_way == 0, SECONDS_MAX), "a request has no end"
            return self._is_dead

    @contextmanager
    def passing(self, method: str, path: str) -> Iterator[Harm | Refusal | None]:
        """What becomes of a request; CUT_BEFORE for those of a process that is dead."""
        with self._lock:
            request = Request(len(self.requests), method, path)
            verdict = Harm.CUT_BEFORE if self._is_dead else self._plan(request)
            self.requests.append(request)
            self._under_way += 1
        try:
            if verdict is Harm.KILLED_BEFORE:
                self._kill()
            yield verdict
            if verdict is Harm.KILLED_AFTER:
                self._kill()
        finally:
            with self._lock:
                self._under_way -= 1
                self._lock.notify_all()

    def _kill(self) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: self._pid is not None, SECONDS_MAX), "the writer was not named"
            assert self._pid is not None
            self._is_dead = True
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    watch: Watch
    port: int
    """Of the server behind it."""

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        body = self._body()
        with self.watch.passing(self.command, self.path) as verdict:
            self._harmed(verdict, body)

    do_PUT = do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815 - names of the library's.

    def log_message(self, *arguments: Any) -> None:
        pass

    def _harmed(self, verdict: Harm | Refusal | None, body: bytes) -> None:
        if isinstance(verdict, Refusal):
            self._answer(verdict.status, [("Content-Type", "application/xml")], verdict.body)
            return
        if verdict in {Harm.KILLED_BEFORE, Harm.CUT_BEFORE}:
            self.close_connection = True
            return
        status, headers, answer = self._forwarded(body)
        if verdict is None:
            self._answer(status, headers, answer)
        else:
            self.close_connection = True

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_CONNECTION:
                    connection.putheader(name, value)
            if body or "Content-Length" in self.headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        except (OSError, HTTPException) as error:
            return 502, [], str(error).encode()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        size = next((value for name, value in headers if name.lower() == "content-length"), str(len(body)))
        for name, value in headers:
            if name.lower() not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", size if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None:
        """A connection that its writer has left."""


@contextmanager
def proxy(port: int, watch: Watch) -> Iterator[int]:
    """The port of a proxy before the server at that port of this machine."""
    handler = type("Handler", (_Handler,), {"port": port, "watch": watch})
    with _Server(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()
