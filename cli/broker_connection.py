"""One connection from the command line to one broker, with our own compiled messages.

    link = await BrokerConnection.open(Address("127.0.0.1", 9092))     # connects and asks which versions the broker speaks
    answer = await link.ask(MetadataRequest(topics=None))  # in the newest version that both speak

aiokafka's admin client lacks too many of the requests that the commands need, hence this. One request is under way
at a time; nothing is retried here (see `cluster`).
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from sordini import __version__
from sordini.cli.common.options import Failure
from sordini.protocol import schema
from sordini.protocol.api import APIS, Api, ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_ID: Final = "sordini-cli"
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
"""A length beyond this is no answer of a broker but the first bytes of another protocol."""
CONNECT_SECONDS_MAX: Final = 10.0

_LENGTH = struct.Struct(">i")
_CODE = struct.Struct(">h")
_API_OF: Final[dict[type, Api]] = {api.request: api for api in APIS.values()}
_FIRST_VERSION: Final = 3  # Of ApiVersions: the first in which a client says who it is.


class Unreachable(Failure):
    """There is no broker at an address."""


class Disconnected(Failure):
    """The connection ended before the answer came: whether the request was carried out is not known."""


class NotServed(Failure):
    """The broker does not know this kind of request, or no version of it that we know."""


class Refused(Failure):
    """The cluster answered with an error."""

    def __init__(self, subject: str, code: int, reason: str | None = None) -> None:
        self.code = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
        name = self.code.name if self.code == code else f"error {code}"
        super().__init__(f"{subject}: {reason} ({name})" if reason else f"{subject}: {_plain(name)}")


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerConnection:
    """An open connection whose versions are negotiated."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}

    @classmethod
    async def open(cls, address: Address) -> Self:
        """Connect and negotiate. Raises Unreachable."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                reader, writer = await asyncio.open_connection(*address)
        except TimeoutError:
            raise Unreachable(f"cannot reach {address}: no answer within {CONNECT_SECONDS_MAX:g} s") from None
        except OSError as error:
            raise Unreachable(f"cannot reach {address}: {_reason(error)}") from None
        except UnicodeError:  # Of the codec for host names: an empty or a long label, or bytes that are no text.
            raise Unreachable(f"cannot reach {address}: {address.host!a} is no host name") from None
        link = cls(address, reader, writer)
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await link._negotiate()
        except (Disconnected, WireError, TimeoutError):
            link.close()
            raise Unreachable(
                f"{address} accepts connections and does not answer as a broker does: "
                "is this a plaintext Kafka listener?"
            ) from None
        except BaseException:  # Raised again - given back on the way out of a cancellation, too.
            link.close()
            raise
        return link

    async def ask(self, request: Any, *, at_most: int | None = None) -> Any:
        """Send a request in the newest version both sides know, or `at_most`; the answer's message.

        Raises NotServed, Disconnected, and Failure for an answer that makes no sense.
        """
        api = _API_OF[type(request)]
        version = self.version(api, at_most)
        try:
            return self._decoded(api, version, await self._exchange(api, version, request))
        except WireError as error:
            self.close()
            raise Failure(f"{self.address} sent an answer that cannot be read: {error}") from None

    def version(self, api: Api, at_most: int | None = None) -> int:
        """The version in which a kind of request is sent here; raises NotServed."""
        oldest, newest = self._versions.get(api.key, (0, -1))
        version = min(newest, api.max_version, api.max_version if at_most is None else at_most)
        if version < max(oldest, api.min_version):
            name = api.key.name.replace("_", " ").title().replace(" ", "")
            raise NotServed(f"the broker at {self.address} does not serve {name} requests")
        return version

    def close(self) -> None:
        """Hang up without waiting."""
        self._writer.close()

    async def closed(self) -> None:
        """Hang up, and wait until the connection is gone."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _negotiate(self) -> None:
        api = APIS[ApiKey.API_VERSIONS]
        request = ApiVersionsRequest(client_software_name="sordini", client_software_version=__version__)
        version = _FIRST_VERSION
        frame = await self._exchange(api, version, request)
        if _CODE.unpack_from(frame, _LENGTH.size)[0] == ErrorCode.UNSUPPORTED_VERSION:
            version = 0  # What an older broker's refusal is written in, and what it understands.
            frame = await self._exchange(api, version, request)
        answer: ApiVersionsResponse = self._decoded(api, version, frame)
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    async def _exchange(self, api: Api, version: int, request: Any) -> memoryview:
        async with self._turn:
            self._correlation_id += 1
            body = request_header(api, version, self._correlation_id, CLIENT_ID) + schema.encode(request, version)
            try:
                self._writer.write(_LENGTH.pack(len(body)) + body)
                await self._writer.drain()
                (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if not _LENGTH.size + _CODE.size <= size <= RESPONSE_BYTES_MAX:
                    raise WireError(f"an answer of {size} bytes")
                return memoryview(await self._reader.readexactly(size))
            except (OSError, asyncio.IncompleteReadError):
                raise Disconnected(f"{self.address} closed the connection before it answered") from None
            except BaseException:  # Raised again - cancelled half-way: the answer that still comes is nobody's.
                self.close()
                raise

    def _decoded(self, api: Api, version: int, frame: memoryview) -> Any:
        correlation_id, position = read_response_header(api, version, frame)
        if correlation_id != self._correlation_id:
            raise WireError(f"answer {correlation_id} to request {self._correlation_id}")
        return schema.decode(api.response, version, frame, position)[0]


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """Read `HOST:PORT,HOST:PORT`; the port may be left out (9092). Raises ValueError."""
    found = []
    for part in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]"):
            host, port = part, "9092"
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not HOST:PORT")
        found.append(Address(host, int(port)))
    if not found:
        raise ValueError("no address is given")
    return found


def _reason(error: OSError) -> str:
    """What the system says, without numbers: of several addresses tried, the first one's reason."""
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _plain(name: str) -> str:
    """`TOPIC_ALREADY_EXISTS` as people say it, with the name to search for."""
    return f"{name.replace('_', ' ').lower()} ({name})"
