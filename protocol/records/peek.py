"""Facts read from the first bytes of records, before the records are validated or while they are still in a file."""

from __future__ import annotations

import struct
from typing import Final

from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_PREFIX,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)

_MAGIC = 16
_ATTRIBUTES = 22  # The low byte of the two.
_SIZE = struct.Struct(">i")

SIZE_POSITION: Final = 8
"""Where a batch, or a message of an older format, has its size field, in bytes from its first one."""
SIZE_FIELD_BYTES: Final = _SIZE.size


def is_transactional(records: memoryview) -> bool:
    """Whether the first batch is transactional (CVE-2018-17196)."""
    if len(records) <= _ATTRIBUTES:
        return False
    return records[_ATTRIBUTES] & TRANSACTIONAL_BIT != 0 and records[_MAGIC] == CURRENT_MAGIC


def first_header(records: memoryview | None) -> BatchHeader | None:
    """The header of the first batch, if there is a whole one; messages of the older formats have none."""
    if records is None or len(records) < HEADER_SIZE or records[_MAGIC] != CURRENT_MAGIC:
        return None
    return read_header(records)


def batch_bytes(size_field: bytes) -> int:
    """The bytes of a whole batch, from its size field."""
    (length,) = _SIZE.unpack(size_field)
    return LENGTH_PREFIX + int(length)
