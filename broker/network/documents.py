"""Fetches small documents over HTTP and HTTPS, in a thread that waits: at most so many bytes, in so much time.

A redirect is followed to the same scheme, host and port only. Certificates are verified by the system's trust store.
Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
import threading
import urllib.error
import urllib.request
from typing import IO, Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 10.0
"""Of each wait for the network."""
WHOLE_TIMEOUT_S: Final = 30.0
_PIECE_BYTES: Final = 65_536


class _SameHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if _origin(newurl) != _origin(req.full_url):
            fp.close()
            raise urllib.error.URLError("it redirects to another host")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


async def fetch_document(url: str, bytes_max: int) -> bytes:
    """The document at an http or https URL. Raises OSError: for a longer one, for a status other than 200, and late."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[bytes] = loop.create_future()
    is_abandoned = threading.Event()

    def fetch() -> None:
        try:
            document, error = _get(url, bytes_max, is_abandoned), None
        except OSError as failure:
            document, error = b"", failure
        with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile.
            loop.call_soon_threadsafe(_answer, answered, document, error)

    # Not a thread of the executor: the process would wait for it at its end.
    threading.Thread(target=fetch, name="sordini-document", daemon=True).start()
    try:
        async with asyncio.timeout(WHOLE_TIMEOUT_S):
            return await answered
    except TimeoutError:
        raise OSError(f"no answer within {WHOLE_TIMEOUT_S:g} s") from None
    finally:
        is_abandoned.set()


def _answer(answered: asyncio.Future[bytes], document: bytes, error: OSError | None) -> None:
    if answered.done():  # Cancelled, or too late.
        return
    if error is None:
        answered.set_result(document)
    else:
        answered.set_exception(error)


def _get(url: str, bytes_max: int, is_abandoned: threading.Event) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise OSError("not a URL of HTTP")
    context = ssl.create_default_context()
    # From Python 3.13 on it would refuse certificates of simple tools, which every other TLS client here accepts.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    https = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), https, _SameHost())
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above.
    data = bytearray()
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            if response.status != http.HTTPStatus.OK:
                raise OSError(f"status {response.status}")
            while len(data) <= bytes_max and (piece := response.read1(_PIECE_BYTES)):
                data += piece
                if is_abandoned.is_set():
                    raise OSError("abandoned")
            if len(data) <= bytes_max and response.length:
                raise OSError("it ends early")
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"status {error.code}") from None
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"no answer of HTTP ({type(error).__name__})") from None
    if len(data) > bytes_max:
        raise OSError(f"it has more than {bytes_max} bytes")
    return bytes(data)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
