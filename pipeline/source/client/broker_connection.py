"""One connection to one broker: versions negotiated, logged in, requests written and answers read.

A connection on which something failed is closed: nobody knows where the next answer would begin.

A request may be sent before its answer is wanted (`send`, then `receive`), which is how a fetch is under way while the
one before is worked on; answers come in the order of the requests. Nothing is tried twice here.
"""

from __future__ import annotations

import secrets
import struct
from typing import Any, Final, NamedTuple, Self

from sordini import __version__
from sordini.client.scram import Scram, ScramError
from sordini.pipeline.errors import NotServed, Unauthorized, Unreachable
from sordini.pipeline.source.client.settings import Address, ClientSettings, Sasl
from sordini.pipeline.source.client.transport import Lost, Outside, Transport
from sordini.protocol import schema
from sordini.protocol.api import APIS, Api, ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

RESPONSE_BYTES_MAX: Final = 512 * 1024 * 1024
"""A length beyond this is no answer of a broker but the first bytes of another protocol."""

_GREETING_BYTES_MAX: Final = 1024 * 1024
"""The same for the first answers, which are short; the bytes of some strangers make a length below the other one."""

_LENGTH: Final = struct.Struct(">i")
_CODE: Final = struct.Struct(">h")
_API_OF: Final[dict[type, Api]] = {api.request: api for api in APIS.values()}
_FIRST_VERSION: Final = 3
"""Of ApiVersions: the first in which a client says who it is."""
_WRAPPED: Final = 1
"""The SaslHandshake after which a mechanism's bytes travel inside SaslAuthenticate (Apache Kafka 1.0)."""
_LIFETIME_USED: Final = 0.8
"""How much of a session's lifetime passes before a new connection is made (KIP-368)."""
_STRANGERS: Final = {b"HTTP": "HTTP", b"SSH-": "SSH", b"\x15\x03": "TLS"}


class Sent(NamedTuple):
    """A request that is under way."""

    api: Api
    version: int
    correlation_id: int


class Link:
    """An open connection; raises Lost, Unreachable, Unauthorized and NotServed."""

    def __init__(self, transport: Transport, address: Address, settings: ClientSettings, outside: Outside) -> None:
        self.address = address
        self.answered = 0
        """How many requests have been answered since the connection was made and we were let in."""
        self.in_flight = 0
        """How many requests are under way."""
        self.is_open = True
        self._transport = transport
        self._settings = settings
        self._bytes_max = _GREETING_BYTES_MAX
        self._seconds_max = settings.limits.request_ms / 1000
        self._monotonic = outside.monotonic
        self._correlation_id = 0
        self._expires_at: float | None = None
        self._versions: dict[int, tuple[int, int]] = {}

    @classmethod
    def open(cls, address: Address, settings: ClientSettings, outside: Outside) -> Self:
        """Connect, learn which versions the broker speaks, and log in."""
        link = cls(outside.connect(address, settings), address, settings, outside)
        try:
            try:
                link._negotiate()
            except Lost as lost:
                # A listener that is made for something else often just hangs up.
                raise Lost(f"{lost} when asked what it speaks: is kafka.security.protocol right?") from None
            if settings.sasl is not None:
                link._log_in(settings.sasl)
        except BaseException:  # Raised again - a connection that is not finished is nobody's.
            link.close()
            raise
        link.answered = 0
        link._bytes_max = RESPONSE_BYTES_MAX
        return link

    @property
    def is_fresh(self) -> bool:
        """Whether the login is good for another request."""
        return self._expires_at is None or self._monotonic() < self._expires_at

    def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """Send a request in the newest version that both sides know, within the bounds; the answer's message."""
        return self.receive(self.send(request, at_least=at_least, at_most=at_most))

    def send(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Sent:
        """Send a request and do not wait."""
        api = _API_OF[type(request)]
        version = self.version(api, at_least, at_most)
        try:
            return self._send(api, version, request)
        except BaseException:  # Raised again - half a request may be written.
            self.close()
            raise

    def receive(self, sent: Sent) -> Any:
        """Wait for the answer to the oldest request that has none; records in it are views of memory of its own."""
        try:
            answer = self._decoded(sent, self._frame())
        except BaseException:  # Raised again - half an answer may be read.
            self.close()
            raise
        self.answered += 1
        return answer

    def version(self, api: Api, at_least: int = 0, at_most: int | None = None) -> int:
        """The version in which a kind of request is sent here; raises NotServed."""
        oldest, newest = self._versions.get(api.key, (0, -1))
        version = min(newest, api.max_version, api.max_version if at_most is None else at_most)
        if version < max(oldest, api.min_version, at_least):
            name = api.key.name.replace("_", " ").title().replace(" ", "")
            spoken = f"knows versions {oldest} to {newest} of" if newest >= 0 else "does not serve"
            raise NotServed(f"the broker at {self.address} {spoken} {name} requests, which is not enough")
        return version

    def close(self) -> None:
        """Hang up; may be called again."""
        self.is_open = False
        self._transport.close()

    def _send(self, api: Api, version: int, request: Any) -> Sent:
        self._correlation_id += 1
        body = request_header(api, version, self._correlation_id, self._settings.client_id)
        body += schema.encode(request, version)
        self._transport.send(_LENGTH.pack(len(body)) + body, self._seconds_max)
        self.in_flight += 1
        return Sent(api, version, self._correlation_id)

    def _frame(self) -> memoryview:
        # The time begins when somebody waits: what was asked ahead may have lain there for long.
        deadline = self._monotonic() + self._seconds_max
        self.in_flight -= 1
        head = self._transport.receive(_LENGTH.size, self._seconds_max)
        (size,) = _LENGTH.unpack(head)
        if not _LENGTH.size + _CODE.size <= size <= self._bytes_max:
            raise Unreachable(self._stranger(bytes(head)))
        return self._transport.receive(size, max(deadline - self._monotonic(), 0.001))

    def _decoded(self, sent: Sent, frame: memoryview) -> Any:
        try:
            correlation_id, position = read_response_header(sent.api, sent.version, frame)
            if correlation_id != sent.correlation_id:
                raise WireError(f"answer {correlation_id} to request {sent.correlation_id}")
            return schema.decode(sent.api.response, sent.version, frame, position)[0]
        except WireError as error:
            raise Lost(f"{self.address} sent an answer that cannot be read: {error}") from None

    def _negotiate(self) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        request = ApiVersionsRequest(client_software_name="sordini", client_software_version=__version__)
        sent = self._send(api, _FIRST_VERSION, request)
        frame = self._frame()
        if _CODE.unpack_from(frame, _LENGTH.size)[0] == ErrorCode.UNSUPPORTED_VERSION:
            sent = self._send(api, 0, request)  # What an older broker understands.
            frame = self._frame()
        answer: ApiVersionsResponse = self._decoded(sent, frame)
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def _log_in(self, sasl: Sasl) -> None:
        """Raises Unauthorized with the broker's own words."""
        answer: SaslHandshakeResponse = self.ask(SaslHandshakeRequest(mechanism=sasl.mechanism), at_least=_WRAPPED)
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise Unauthorized(f"{self.address} does not take {sasl.mechanism}; its SASL mechanisms: {offered}")
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise Unauthorized(f"{self.address} asks nobody to log in: is kafka.security.protocol right?")
        if answer.error_code:
            raise Unauthorized(f"{self.address} refuses to let us log in (error {answer.error_code})")
        if sasl.mechanism == "PLAIN":
            last = self._step(sasl, f"\0{sasl.username}\0{sasl.password}".encode())
        else:
            scram = Scram(sasl.mechanism, sasl.username, sasl.password, secrets.token_urlsafe(24))
            try:
                challenge = self._step(sasl, scram.first())
                last = self._step(sasl, scram.final(challenge.auth_bytes))
                scram.verify(last.auth_bytes)
            except ScramError as error:
                raise Unauthorized(f"logging in at {self.address} as '{sasl.username}': {error}") from None
        if last.session_lifetime_ms > 0:
            self._expires_at = self._monotonic() + last.session_lifetime_ms / 1000 * _LIFETIME_USED

    def _step(self, sasl: Sasl, token: bytes) -> SaslAuthenticateResponse:
        answer: SaslAuthenticateResponse = self.ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            reason = answer.error_message or f"error {answer.error_code}"
            raise Unauthorized(f"{self.address} does not let '{sasl.username}' in ({sasl.mechanism}): {reason}")
        return answer

    def _stranger(self, first: bytes) -> str:
        name = _STRANGERS.get(first) or _STRANGERS.get(first[:2])
        spoken = f"speaks {name}" if name else "does not answer as a broker does"
        advice = "is kafka.security.protocol right?" if name == "TLS" else "is this a Kafka listener?"
        return f"{self.address} {spoken}: {advice}"
