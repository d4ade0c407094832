"""The bytes of a pack: slices of partitions in one file, in batches of Kafka's format 2. Pure.

    "sordini-pack 1\n", and frames up to the end of the file:

    0  kind      uint8    H, B or E
    1  size      uint32   of the content
    5  checksum  uint32   CRC-32C of kind, size and content of this frame and of all before it
    9  content
          H  first   JSON: where the records are from, the topics, and the slices (`Header`)
          B          number of the slice, uint32; a batch of format 2
          E  last    JSON: how many records each slice has, and where it ends (`Ending`)

The batches of a slice follow one another without a gap: each begins where the one before ends, the first one at the
slice's start offset and the last one up to its end. Offsets without a record (of transaction markers, aborted or
compacted records, and records that the mask left out) are between or behind a batch's records, as compaction leaves
them. Batches are of no producer, and outside of transactions. With LogAppendTime all records of a batch have one time.

The same records, in the same order, give the same bytes: nothing in a pack depends on when it was written. With
compression they also depend on the library's version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any, Final

from crc32c import crc32c

from sordini.protocol.records.batch import CURRENT_MAGIC, BatchHeader, assemble_batch
from sordini.system.named_tuple import NamedTuple

NAME: Final = b"sordini-pack "
BEGINNING: Final = NAME + b"1\n"
HEADER, BATCH, ENDING = b"HBE"
"""The kinds of frames."""
FRAME: Final = Struct(">BII")
SLICE: Final = Struct(">I")
_CHECKED: Final = Struct(">BI")
COVERED_MAX: Final = 2**31 - 1
"""Offsets that one batch covers."""


class PackError(ValueError):
    """A file is no pack, or is damaged; the text says where."""


class PackedTopic(NamedTuple):
    """A topic, as it was in the cluster."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    """Those that are not at their defaults."""


class PackedSlice(NamedTuple):
    """The records of one partition from `start_offset` on, below `end_offset`."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int


class Header(NamedTuple):
    """What is known before the first record."""

    cluster_id: str | None
    isolation: str
    mask: str | None
    topics: tuple[PackedTopic, ...]
    slices: tuple[PackedSlice, ...]
    """In the order of their batches. A slice may end before its end offset: see `Ending`."""


class Ending(NamedTuple):
    """What is known after the last record, by slice."""

    records: tuple[int, ...]
    end_offsets: tuple[int, ...]


def framed(kind: int, content: bytes, checksum: int) -> tuple[bytes, int]:
    """A frame, and the checksum to continue with; `checksum` is that of the frame before, 0 without one."""
    checksum = checksum_of(kind, content, checksum)
    return FRAME.pack(kind, len(content), checksum) + content, checksum


def checksum_of(kind: int, content: bytes, checksum: int) -> int:
    return crc32c(content, crc32c(_CHECKED.pack(kind, len(content)), checksum))


def gap(start_offset: int, end_offset: int) -> bytes:
    """A batch without records that covers offsets, as compaction leaves them; at most COVERED_MAX."""
    header = BatchHeader(start_offset, 0, -1, CURRENT_MAGIC, 0, 0, end_offset - start_offset - 1, -1, -1, -1, -1, -1, 0)
    return bytes(assemble_batch(header))


def header_json(header: Header) -> bytes:
    return _json(
        {
            "cluster_id": header.cluster_id,
            "isolation": header.isolation,
            "mask": header.mask,
            "slices": [one._asdict() for one in header.slices],
            "topics": [{**one._asdict(), "configs": dict(one.configs)} for one in header.topics],
        }
    )


def header_of(content: bytes) -> Header:
    """The inverse of `header_json`. Raises ValueError, KeyError, TypeError for what is none."""
    given = json.loads(content)
    topics = tuple(PackedTopic(one["name"], int(one["partitions"]), dict(one["configs"])) for one in given["topics"])
    slices = tuple(PackedSlice(**one) for one in given["slices"])
    return Header(given["cluster_id"], given["isolation"], given["mask"], topics, slices)


def ending_json(ending: Ending) -> bytes:
    return _json(ending._asdict())


def ending_of(content: bytes, slices: Sequence[PackedSlice]) -> Ending:
    """The inverse of `ending_json`. Raises ValueError, KeyError, TypeError for what is none of these slices."""
    given = json.loads(content)
    ending = Ending(tuple(map(int, given["records"])), tuple(map(int, given["end_offsets"])))
    if not len(ending.records) == len(ending.end_offsets) == len(slices):
        raise ValueError(f"it has another number of slices than {len(slices)}")
    return ending


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
