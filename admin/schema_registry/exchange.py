"""One request of HTTP to a registry, and its answer: bounded in time and in size. It blocks.

A redirect is an answer like others, and is not followed: the login would be sent to another server. Proxies of the
environment are not used. A timer shuts the connection down when the time is over, since a timeout of a socket begins
again with each byte that arrives.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from typing import Final

from sordini.admin.failure import Failure
from sordini.admin.schema_registry.access import RegistryAccess
from sordini.client.tls.system_sockets import failure_text
from sordini.system.named_tuple import NamedTuple

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
"""A schema has at most 1 MiB, of which JSON may make six; a list of 20,000 subjects has less."""
_PIECE_BYTES: Final = 65_536
_JSON: Final = "application/vnd.schemaregistry.v1+json"


class RegistryFailed(Failure):
    """A registry does not answer, or not as one."""


class HttpAnswer(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes
    location: str | None = None
    """Where a redirect leads."""


def exchange(access: RegistryAccess, method: str, path: str, body: bytes | None, timeout_s: float) -> HttpAnswer:
    """Send one request. The time is that of the whole, but for the resolution of the name. Raises RegistryFailed."""
    address = access.address
    connection: http.client.HTTPConnection
    if address.has_tls:
        connection = http.client.HTTPSConnection(address.host, address.port, timeout=timeout_s, context=access.tls)
    else:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    is_late = threading.Event()
    opened: list[socket.socket] = []
    """The connection's own reference is gone when an answer without a length is read."""

    def end() -> None:
        is_late.set()
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, end)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        if is_late.is_set():
            raise TimeoutError
        connection.request(method, address.path + path, body, _headers(access, body))
        with connection.getresponse() as response:
            answer = HttpAnswer(response.status, _body(response, access), response.getheader("location"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _failed(access, error, timeout_s, is_late=is_late.is_set()) from None
    finally:
        timer.cancel()
        connection.close()
    if is_late.is_set():
        raise _failed(access, TimeoutError(), timeout_s, is_late=True)
    return answer


def _headers(access: RegistryAccess, body: bytes | None) -> dict[str, str]:
    found = {"accept": f"{_JSON}, application/json"}
    if body is not None:
        found["content-type"] = _JSON
    if access.authorization is not None:
        found["authorization"] = access.authorization
    return found


def _body(response: http.client.HTTPResponse, access: RegistryAccess) -> bytes:
    data = bytearray()
    while piece := response.read1(_PIECE_BYTES):
        data += piece
        if len(data) > ANSWER_BYTES_MAX:
            raise RegistryFailed(f"the registry {access.address} sent more than {ANSWER_BYTES_MAX} bytes")
    if response.length:
        raise OSError("the answer ends early")
    return bytes(data)


def _failed(access: RegistryAccess, error: Exception, timeout_s: float, *, is_late: bool) -> RegistryFailed:
    if is_late or isinstance(error, TimeoutError):
        return RegistryFailed(f"the registry {access.address} did not answer within {timeout_s:g} s")
    if isinstance(error, http.client.HTTPException) or not isinstance(error, OSError):
        return RegistryFailed(f"the registry {access.address} sent no answer of HTTP ({type(error).__name__})")
    if isinstance(error, ssl.SSLError):
        return RegistryFailed(f"the registry {access.address} is not reached: {failure_text(error)}")
    return RegistryFailed(f"the registry {access.address} is not reached: {(error.strerror or str(error)).lower()}")
