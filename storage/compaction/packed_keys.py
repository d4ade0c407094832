"""Keys with the numbers of their records, 24 bytes each, as an entry takes in Apache Kafka's offset map.

    length int8 | key or digest, padded to 19 bytes | number uint32

A key of up to 18 bytes is stored as it is. A longer one is stored as its BLAKE2b digest of 19 bytes: no key equals
another's digest, and two long keys are taken for one only if 152 bits of BLAKE2b collide. (Apache Kafka compares the
MD5 sums of all keys; colliding keys for those can be made.)

The entries are in 256 buffers, by the lowest bits of the key's hash, in the order in which they are added. Nothing is
looked up meanwhile: a dictionary of millions of keys takes five times the memory, and a cache miss for each key. Later
one buffer at a time becomes a dictionary, which fits the processor's cache. For lookups, the keys of each buffer are
sorted into buckets of about 16 keys, which `bytes.find` searches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, chain
from typing import Final

KEY_BYTES_MAX: Final = 18
DIGEST_BYTES: Final = KEY_BYTES_MAX + 1
NUMBER_MAX: Final = 2**32 - 1
# One part by hash becomes a dictionary at a time, which fits the processor's cache. One dictionary of all keys took 110
# to 140 bytes for each and cleaned at 0.5 of Apache Kafka's MB/s; entries of 24 bytes in parts clean at 1.65 of it.
BUFFERS: Final = 256
_BUFFER_BITS: Final = 8
_ENTRY = struct.Struct(f"={DIGEST_BYTES + 1}pI")
_KEY = struct.Struct(f"{DIGEST_BYTES + 1}p")
ENTRY_BYTES: Final = _ENTRY.size
BUCKET_KEYS: Final = 16
"""The average of the fullest buffer. More make a search longer; fewer need more buckets."""
_UNEVEN_ENTRIES: Final = 16
_DICTIONARY_RATIO: Final = 6
"""The bytes of a dictionary with its keys and numbers, by those of the buffer that it is made of."""


class PackedKeys:
    """Keys with numbers, which ascend; a key's last number is its newest."""

    __slots__ = ("_buffers", "_index", "_settled", "entries")

    def __init__(self) -> None:
        self.entries = 0
        """Those of superseded records included, until `settle` removes them."""
        self._settled = 0
        self._buffers = [bytearray() for _ in range(BUFFERS)]
        self._index: _Index | None = None

    def size(self, more: int) -> int:
        """The bytes taken after `more` new entries, with the largest dictionary that is made of a buffer."""
        # The hash spreads keys evenly: no buffer gets so many more than its share.
        added = min(more, 2 * more // BUFFERS + _UNEVEN_ENTRIES)
        fullest = max(map(len, self._buffers)) + added * ENTRY_BYTES
        # A buffer that grows gets an eighth more than it needs.
        return ((self.entries + more) * ENTRY_BYTES + _DICTIONARY_RATIO * fullest) * 9 // 8

    @property
    def unsettled(self) -> int:
        """How many entries were added since the last `settle`."""
        return self.entries - self._settled

    def add(self, keys: Sequence[bytes], numbers: Iterable[int]) -> None:
        """Add an entry for each key; not after `contained`."""
        assert self._index is None, "the entries are sorted"
        buffers, pack, mask = self._buffers, _ENTRY.pack, BUFFERS - 1
        for key, number in zip(_shortened(keys), numbers, strict=True):
            buffers[hash(key) & mask] += pack(key, number)
        self.entries += len(keys)

    def settle(self) -> None:
        """Remove all entries but each key's newest."""
        for place, buffer in enumerate(self._buffers):
            newest = _newest(buffer)
            if len(newest) * ENTRY_BYTES < len(buffer):
                self._buffers[place] = bytearray().join(map(_ENTRY.pack, newest, newest.values()))
        self.entries = self._settled = sum(map(len, self._buffers)) // ENTRY_BYTES

    def newest_numbers(self) -> Iterator[int]:
        """The number of each key's newest entry, in no order; not after `contained`."""
        return chain.from_iterable(_newest(buffer).values() for buffer in self._buffers)

    def contained(self, keys: Sequence[bytes]) -> list[bool]:
        """For each key, whether it has an entry."""
        if self._index is None:
            self._index = _Index(self._buffers)
        return list(map(self._index.contains, _shortened(keys)))


class _Index:
    """The keys of all buffers, each buffer's in buckets by further bits of the hash; the buffers are emptied."""

    __slots__ = ("_mask", "_parts")

    def __init__(self, buffers: list[bytearray]) -> None:
        fullest = max(map(len, buffers)) // ENTRY_BYTES
        self._mask = (1 << (fullest // BUCKET_KEYS).bit_length()) - 1
        self._parts: list[tuple[bytes, list[int]]] = []
        """For each buffer its keys, and the positions at which its buckets begin."""
        for place, buffer in enumerate(buffers):
            self._parts.append(self._part(_newest(buffer)))
            buffers[place] = bytearray()

    def _part(self, keys: Iterable[bytes]) -> tuple[bytes, list[int]]:
        mask = self._mask
        buckets: list[list[bytes]] = [[] for _ in range(mask + 1)]
        for key in keys:
            buckets[hash(key) >> _BUFFER_BITS & mask].append(key)
        starts = list(accumulate((len(bucket) * _KEY.size for bucket in buckets), initial=0))
        return b"".join(map(_KEY.pack, chain.from_iterable(buckets))), starts

    def contains(self, key: bytes) -> bool:
        """Whether a buffer had this key, as it is stored."""
        bits = hash(key)
        keys, starts = self._parts[bits & BUFFERS - 1]
        bucket = bits >> _BUFFER_BITS & self._mask
        start, end = starts[bucket], starts[bucket + 1]
        sought = _KEY.pack(key)
        position = keys.find(sought, start, end)
        # The same bytes may also begin in the middle of another key.
        while position > 0 and position % _KEY.size:
            position = keys.find(sought, position + 1, end)
        return position >= 0


def _newest(buffer: bytearray) -> dict[bytes, int]:
    return dict(_ENTRY.iter_unpack(buffer))


def _shortened(keys: Sequence[bytes]) -> Sequence[bytes]:
    """The keys as they are stored: long ones as their digests."""
    if max(map(len, keys), default=0) <= KEY_BYTES_MAX:
        return keys
    return [key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=DIGEST_BYTES).digest() for key in keys]
