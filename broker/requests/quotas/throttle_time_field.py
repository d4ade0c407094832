"""Sets `throttle_time_ms` in a response that is encoded already. Pure.

Most responses begin with it: four bytes are written over. The others are decoded and encoded again, which is seldom: a
throttled client sends nothing more for that time.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from sordini.broker.network.ports import Parts
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.served_apis import Api

_INT32: Final = struct.Struct(">i")
_SIZE_AND_CORRELATION: Final = 8
_MARK: Final = 0x5AA5_C33C


def set_throttle_time(api: Api, version: int, parts: Parts, wait_ms: int) -> Parts:
    """A response's parts with this throttle time, if it is more than they have. Versions without the field are kept."""
    position = _position(api, version)
    head = parts[0]
    if position is None or not isinstance(head, (bytes, bytearray, memoryview)):
        return parts
    header = _SIZE_AND_CORRELATION + (version >= api.flexible_from and api.key != ApiKey.API_VERSIONS)
    if position == 0:
        writable = bytearray(head) if isinstance(head, bytes) else head
        before = _INT32.unpack_from(writable, header)[0]
        _INT32.pack_into(writable, header, max(before, wait_ms))
        return [writable, *parts[1:]]
    if len(parts) > 1:
        return parts
    message: Any = codecs.decode(api.response, version, memoryview(head), header)[0]
    message.throttle_time_ms = max(message.throttle_time_ms, wait_ms)
    body = codecs.encode(message, version)
    return [b"".join((_INT32.pack(header - 4 + len(body)), head[4:header], body))]


@lru_cache(512)
def _position(api: Api, version: int) -> int | None:
    """Where the field is in an empty response's body; None in versions that do not have it."""
    if "throttle_time_ms" not in getattr(api.response, "__annotations__", {}):
        return None
    found = codecs.encode(api.response(throttle_time_ms=_MARK), version).find(_INT32.pack(_MARK))
    return None if found < 0 else found
