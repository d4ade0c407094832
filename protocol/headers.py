"""The headers of requests and responses.

    request   int16 api key, int16 version, int32 correlation id, string client id [, tagged fields]
    response  int32 correlation id [, tagged fields]

Flexible versions of a request (header v2 instead of v1) and of a response (v1 instead of v0) have tagged fields.
One request is older than client ids and has none: version 0 of ControlledShutdown (header v0). The response to
ApiVersions never has tagged fields, so that a client that does not know the broker's versions can read it. The
client id keeps its classic length in every version.
"""

from __future__ import annotations

import struct
from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import skip_tags
from sordini.protocol.served_apis import ALL_APIS, Api
from sordini.system.named_tuple import NamedTuple

_REQUEST: Final = struct.Struct(">hhih")
_BARE: Final = struct.Struct(">hhi")
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_REST: Final = struct.Struct(">ih")
_RESPONSE: Final = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request; the response repeats the correlation id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Read a request's header; returns it and the position where the body begins.

    Raises WireError when the bytes are no header, and when the API or its version is not served: Apache Kafka
    closes the connection then, too. ApiVersions is accepted in every version, so that a client newer than the
    broker learns the versions to use: its header can be read, its body must not be.
    """
    try:
        api_key, version = _KEY_AND_VERSION.unpack_from(frame)
    except struct.error as problem:
        raise WireError(f"request header: {problem}") from problem
    api = ALL_APIS.get(api_key)
    if api is None:
        raise WireError(f"{_api_name(api_key)} is not served")
    if not api.min_version <= version <= api.max_version and api_key != ApiKey.API_VERSIONS:
        raise WireError(f"{_api_name(api_key)} v{version} is not served")
    correlation_id, client_id, position = read_rest_of_header(frame, request_header_version(api, version))
    return RequestHeader(api_key, version, correlation_id, client_id), position


def request_header_version(api: Api, version: int) -> int:
    """The header version of a request: 0 without a client id, 1, or 2 with tagged fields."""
    if version >= api.flexible_from:
        return 2
    return 0 if api.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0 else 1


def read_rest_of_header(frame: memoryview, header_version: int) -> tuple[int, str | None, int]:
    """Read the header after the API key and version: (correlation id, client id, position of the body).

    For callers that know the API and version already. Raises WireError when the bytes are no header.
    """
    try:
        if not header_version:
            return _RESPONSE.unpack_from(frame, 4)[0], None, 8
        correlation_id, size = _REST.unpack_from(frame, 4)
        position = 10
        client_id = None
        if size >= 0:
            position += size
            client_id = str(frame[10:position], "utf-8")
        if header_version == 2:
            first = frame[position]
            position += 1
            if first:
                position = skip_tags(frame, position, first)
    except (struct.error, IndexError, ValueError) as problem:
        raise WireError(f"request header: {problem}") from problem
    if position > len(frame):
        raise WireError("request header: the client id ends after the frame")
    return correlation_id, client_id, position


def request_header(api: Api, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """Write a request's header; the client id is left out where the header has none."""
    header_version = request_header_version(api, version)
    if not header_version:
        return _BARE.pack(api.key, version, correlation_id)
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\0" if header_version == 2 else b""
    return _REQUEST.pack(api.key, version, correlation_id, size) + name + tags


def read_response_header(api: Api, version: int, frame: memoryview) -> tuple[int, int]:
    """Read a response's header; returns the correlation id and the position where the body begins."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame)
        position = _RESPONSE.size
        if version >= api.flexible_from and api.key is not ApiKey.API_VERSIONS:
            position = skip_tags(frame, position + 1, frame[position])
    except (struct.error, IndexError) as problem:
        raise WireError(f"response header: {problem}") from problem
    return correlation_id, position


def _api_name(api_key: int) -> str:
    known = ApiKey._value2member_map_.get(api_key)
    return f"API {api_key}" if known is None else str(known.name)
