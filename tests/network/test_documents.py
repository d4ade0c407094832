"""Documents over HTTP: which answers are taken, and which end in an error instead."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from sordini.broker.network.documents import fetch_document
from tests.support.certificates import Authority

BYTES_MAX = 1_000


class Pages(BaseHTTPRequestHandler):
    """Answers by the path; what it sends after a redirect is in `seen`."""

    seen: ClassVar[list[str]] = []
    elsewhere: ClassVar[str] = ""

    def do_GET(self) -> None:
        self.seen.append(self.path)
        name, _, text = self.path.removeprefix("/").partition("/")
        if name == "bytes":
            self.answer(200, b"x" * int(text))
        elif name == "endless":
            self.send_response(200)
            self.end_headers()
            with suppress(ConnectionError):
                for _ in range(100):
                    self.wfile.write(b"x" * 100_000)
        elif name == "redirect":
            self.answer(302, b"", f"/bytes/{text}")
        elif name == "away":
            self.answer(302, b"", f"{self.elsewhere}/{text}")
        elif name == "file":
            self.answer(302, b"", "file:///etc/hostname")
        elif name == "loop":
            self.answer(302, b"", self.path)
        elif name == "short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x")
        elif name == "noise":
            self.wfile.write(b"\xff\xfe not HTTP\r\n\r\n")
        else:
            self.answer(int(name), b"an error's page")

    def answer(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name.
        """Nothing is printed."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Pages) for _ in range(2)]
    threads = [Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    own, other = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    Pages.elsewhere = other
    yield own
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


async def refused(url: str) -> str:
    with pytest.raises(OSError) as error:  # noqa: PT011 - the text is the test's.
        await fetch_document(url, BYTES_MAX)
    return str(error.value)


async def test_a_document_up_to_the_bound_is_returned(address: str) -> None:
    for size in (0, 1, BYTES_MAX):
        assert await fetch_document(f"{address}/bytes/{size}", BYTES_MAX) == b"x" * size


async def test_a_longer_document_is_refused_and_not_read_to_its_end(address: str) -> None:
    assert await refused(f"{address}/bytes/{BYTES_MAX + 1}") == f"it has more than {BYTES_MAX} bytes"
    assert await refused(f"{address}/endless") == f"it has more than {BYTES_MAX} bytes"


async def test_a_redirect_is_followed_to_the_same_host_and_port_only(address: str) -> None:
    assert await fetch_document(f"{address}/redirect/3", BYTES_MAX) == b"xxx"
    Pages.seen.clear()
    assert await refused(f"{address}/away/bytes/3") == "it redirects to another host"
    assert Pages.seen == ["/away/bytes/3"]
    assert await refused(f"{address}/file") == "status 302"
    assert await refused(f"{address}/loop/") == "status 302"


@pytest.mark.parametrize("status", [204, 404, 500, 503])
async def test_a_status_other_than_200_is_an_error(address: str, status: int) -> None:
    assert await refused(f"{address}/{status}") == f"status {status}"


async def test_what_is_no_whole_answer_is_an_error(address: str) -> None:
    assert await refused(f"{address}/noise") == "no answer of HTTP (BadStatusLine)"
    assert await refused(f"{address}/short") == "it ends early"


async def test_what_is_no_address_of_http_is_never_opened() -> None:
    for url in ("file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "/etc/hostname"):
        assert await refused(url) == "not a URL of HTTP"


async def test_an_address_where_nothing_listens_is_an_error() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    port = server.server_address[1]
    server.server_close()
    assert "refused" in await refused(f"http://127.0.0.1:{port}/bytes/1")


async def test_over_tls_the_certificate_must_be_trusted_and_for_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, simple = Authority(), Authority(identifies_keys=False)
    for issuer, hosts, trusted, error in (
        (authority, ("127.0.0.1",), authority, None),
        (simple, ("127.0.0.1",), simple, None),
        (authority, ("127.0.0.1",), Authority(), "certificate verify failed"),
        (authority, ("other.example",), authority, "certificate verify failed"),
    ):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issuer.issue("keys", hosts).pem_file(tmp_path / "server.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted.pem_file(tmp_path / "ca.pem")))
        server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"https://127.0.0.1:{server.server_address[1]}/bytes/3"
            if error is None:
                assert await fetch_document(url, BYTES_MAX) == b"xxx"
            else:
                assert error in await refused(url)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


async def test_a_fetch_that_is_given_up_leaves_nothing_to_wait_for(address: str) -> None:
    task = asyncio.create_task(fetch_document(f"{address}/endless", 2**40))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
