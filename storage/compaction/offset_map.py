"""Which record of the dirty part is the newest of its key.

The keys are exact: two that differ are never taken for one (Apache Kafka compares their MD5 sums). A key longer than
`KEY_BYTES_MAX` is replaced by a BLAKE2b digest of one byte more, so that no key can equal another's digest.

Records are numbered in their order, and a key's number is its newest record's. When all are added, the numbers become
an array of flags: the second pass reads a batch's flags instead of its keys, because a lookup in a large dictionary
costs more, in cache misses, than all other work on a record.

What is counted against the bound is what all this takes in this process. For an entry: a bytes object (33 bytes and
the key, rounded up to 16), a number (32) and its share of the dictionary's table (30 to 60); that is 110 to 140 bytes
with a key of 12 to 15, where Apache Kafka's map takes 24 whatever the key. For a record one byte, for a batch 16. The
table doubles as it grows; while it is copied both are there, half as much again as the table, for a moment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

KEY_BYTES_MAX: Final = 63
DIGEST_BYTES: Final = KEY_BYTES_MAX + 1
_OBJECT_BYTES: Final = 33 + 32
"""Of a bytes object, beside its bytes, and of a number."""
_ROUNDING_BYTES: Final = 8
"""Lost on average, as memory comes in pieces of 16."""
_TABLE_ENTRY_BYTES: Final = 24
_TABLE_INDEX_BYTES: Final = 4
_BATCH_BYTES: Final = 16
_AHEAD_MAX: Final = 1024


class OffsetMap:
    """A bounded map from key to its newest record; batches are added in the order of the log."""

    __slots__ = (
        "_batches",
        "_bytes_max",
        "_checked_records",
        "_firsts",
        "_has_digests",
        "_newest",
        "_object_bytes",
        "_records",
        "_stays",
        "tombstoned",
    )

    def __init__(self, bytes_max: int) -> None:
        self.tombstoned: set[int] = set()
        """The batches with a tombstone, by last offset."""
        self._newest: dict[bytes, int] = {}
        self._records = 0
        self._stays: bytearray | None = None
        """One for each record: whether it is its key's newest. Computed at its first use."""
        self._batches = array("q")
        """The batches' last offsets, which no cleaning changes."""
        self._firsts = array("q")
        """The number of each batch's first record."""
        self._bytes_max = bytes_max
        self._object_bytes = 0
        self._has_digests = False
        self._checked_records = 0
        """The bound is checked to hold up to this number of records, so that small batches need no check."""

    def __len__(self) -> int:
        return len(self._newest)

    @property
    def fullness(self) -> float:
        """Of what the map may take; above 1 when a first batch needed more."""
        return self._bytes(0, 0) / self._bytes_max

    def has_room(self, records: int) -> bool:
        """Whether a batch of this number of records fits, if all keys are new and of the average length so far.

        An empty map has room for any batch: a round without progress would be repeated endlessly.
        """
        total = self._records + records
        if total <= self._checked_records:
            return True
        entries = len(self._newest)
        if entries == 0:
            return True
        # Check for some more records at once, so that not every small batch needs a check.
        ahead = records + min(entries // 8, _AHEAD_MAX)
        mean = self._object_bytes // entries
        if self._bytes(ahead, mean) <= self._bytes_max:
            self._checked_records = total + ahead - records
            return True
        return self._bytes(records, mean) <= self._bytes_max

    def add(self, keys: Sequence[Any], batch: int) -> None:
        """Note the keys of all records of the batch that ends at offset `batch`, the newest so far.

        A key is bytes, or None for a record without a key.
        """
        first = self._records
        self._batches.append(batch)
        self._firsts.append(first)
        self._records += len(keys)
        self._stays = None
        numbers: Sequence[int] = range(first, self._records)
        if None in keys:
            numbers = [number for number, key in zip(numbers, keys, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
        sizes = list(map(len, keys))
        if max(sizes, default=0) > KEY_BYTES_MAX:
            self._has_digests = True
            keys = _shortened(keys)
        newest = self._newest
        before = len(newest)
        # No Python code runs per record: most of the time is the cache miss of each key's slot.
        newest.update(zip(keys, numbers, strict=True))
        if added := len(newest) - before:
            mean = min(sum(sizes) // len(sizes), DIGEST_BYTES)
            self._object_bytes += added * (mean + _OBJECT_BYTES + _ROUNDING_BYTES)

    def are_outdated(self, keys: Iterable[bytes]) -> list[bool]:
        """For the keys of records older than the mapped part: whether there is a newer record."""
        if self._has_digests:
            keys = _shortened(keys)
        return list(map(self._newest.__contains__, keys))

    def staying(self, batch: int, count: int) -> bytearray:
        """1 for each of the `count` records of a batch that is its key's newest, 0 for the others.

        Raises LookupError when no such batch was added: the log is not what it was during the first walk.
        """
        index = bisect_left(self._batches, batch)
        if index == len(self._batches) or self._batches[index] != batch:
            raise LookupError(f"no batch that ends at offset {batch} was mapped")
        first = self._firsts[index]
        stays = self._stays if self._stays is not None else self._flags()
        return stays[first : first + count]

    def _flags(self) -> bytearray:
        stays = self._stays = bytearray(self._records)
        for number in self._newest.values():
            stays[number] = 1
        return stays

    def _bytes(self, more_records: int, entry_bytes: int) -> int:
        return (
            self._object_bytes
            + more_records * entry_bytes
            + table_bytes(len(self._newest) + more_records)
            + self._records
            + more_records
            + len(self._batches) * _BATCH_BYTES
        )


def _shortened(keys: Iterable[bytes]) -> list[bytes]:
    """The keys as the map has them: long ones by their digests."""
    return [key if len(key) <= KEY_BYTES_MAX else blake2b(key, digest_size=DIGEST_BYTES).digest() for key in keys]


def table_bytes(entries: int) -> int:
    """The bytes of a dictionary's table for this number of entries: two thirds of a power of two are used."""
    size = 8
    while size * 2 // 3 < entries:
        size *= 2
    return size * _TABLE_INDEX_BYTES + size * 2 // 3 * _TABLE_ENTRY_BYTES
