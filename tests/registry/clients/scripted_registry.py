"""A server of HTTP that answers each path with bytes that a test chose, or byte by byte without an end."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

Script = Callable[[str], bytes]
"""From a path to the bytes of the whole answer."""


def answer(value: Any, status: str = "200 OK", *headers: str) -> bytes:
    """An answer with a body of JSON."""
    return raw_answer(json.dumps(value).encode(), status, *headers)


def raw_answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class ScriptedRegistry:
    """Serves on a port that the system chose, until the end of the `with` block."""

    def __init__(self, script: Script, *, drips: bool = False) -> None:
        """With `drips`, each answer goes on with a byte now and then, and has no end."""
        self.requests: list[str] = []
        self.headers: list[str] = []
        stopping = threading.Event()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline().decode()
                size = 0
                while (header := self.rfile.readline().decode().strip()) != "":
                    outer.headers.append(header)
                    if header.lower().startswith("content-length:"):
                        size = int(header.partition(":")[2])
                self.rfile.read(size)
                path = line.split(" ")[1]
                outer.requests.append(path)
                try:
                    self.wfile.write(script(path))
                    while drips and not stopping.wait(0.05):
                        self.wfile.write(b"x")
                except OSError:
                    pass  # The client has ended it.

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._stopping = stopping
        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
