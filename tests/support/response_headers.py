"""Response headers as a server writes them; the broker itself writes them with the frame (`Call.frame`)."""

import struct

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import Api

_RESPONSE = struct.Struct(">i")
_FLEXIBLE_RESPONSE = struct.Struct(">ix")  # The pad byte is a zero: no tagged fields.


def response_header(api: Api, version: int, correlation_id: int) -> bytes:
    """The header of a response, as bytes."""
    if version >= api.flexible_from and api.key is not ApiKey.API_VERSIONS:
        return _FLEXIBLE_RESPONSE.pack(correlation_id)
    return _RESPONSE.pack(correlation_id)
