"""Which record of the dirty part is the newest of its key.

Records are numbered in their order, and a key's number is its newest record's (`packed_keys`). When all are added, the
numbers become an array of flags: the second pass reads a batch's flags instead of its keys, because a lookup of a key
costs more, in cache misses, than all other work on a record.

What is counted against the bound is what all this takes in this process: for an entry 24 bytes and up to an eighth more
for the growth of its buffer, for a record one byte, for a batch 16. A superseded record has an entry, too, until the
bound is reached: then the entries of superseded records are removed, and the map is full when few of them were found.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from sordini.storage.compaction.packed_keys import NUMBER_MAX, PackedKeys

_BATCH_BYTES: Final = 16
_AHEAD_MAX: Final = 8192
_SETTLED_SHARE_MIN: Final = 16
"""Entries are searched for superseded ones when at least one in so many is new since the last search."""


class OffsetMap:
    """A bounded map from key to its newest record; batches are added in the order of the log."""

    __slots__ = (
        "_batches",
        "_bytes_max",
        "_checked_records",
        "_firsts",
        "_keys",
        "_records",
        "_stays",
        "tombstoned",
    )

    def __init__(self, bytes_max: int) -> None:
        self.tombstoned: set[int] = set()
        """The batches with a tombstone, by last offset."""
        self._keys = PackedKeys()
        self._records = 0
        self._stays: bytearray | None = None
        """One for each record: whether it is its key's newest. Computed at its first use."""
        self._batches = array("q")
        """The batches' last offsets, which no cleaning changes."""
        self._firsts = array("q")
        """The number of each batch's first record."""
        self._bytes_max = bytes_max
        self._checked_records = 0
        """The bound is checked to hold up to this number of records, so that small batches need no check."""

    def __len__(self) -> int:
        return self._flags().count(1)

    @property
    def fullness(self) -> float:
        """Of what the map may take; above 1 when a first batch needed more."""
        return self._bytes(0) / self._bytes_max

    def has_room(self, records: int) -> bool:
        """Whether a batch of this number of records fits, if all keys are new; may remove superseded entries.

        An empty map has room for any batch: a round without progress would be repeated endlessly.
        """
        if self._records + records <= self._checked_records or self._keys.entries == 0:
            return True
        # Check for some more records at once, so that not every small batch needs a check.
        ahead = records + min(self._keys.entries // 8, _AHEAD_MAX)
        if self._fits(ahead):
            self._checked_records = self._records + ahead
            return True
        if self._fits(records):
            return True
        if self._keys.unsettled * _SETTLED_SHARE_MIN < self._keys.entries:
            return False
        self._keys.settle()
        return self._fits(records)

    def add(self, keys: Sequence[Any], batch: int) -> None:
        """Note the keys of all records of the batch that ends at offset `batch`, the newest so far.

        A key is bytes, or None for a record without a key. Not after `are_outdated`.
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
        self._keys.add(keys, numbers)

    def are_outdated(self, keys: Sequence[bytes]) -> list[bool]:
        """For the keys of records older than the mapped part: whether there is a newer record."""
        self._flags()  # The numbers are discarded now.
        return self._keys.contained(keys)

    def staying(self, batch: int, count: int) -> bytearray:
        """1 for each of the `count` records of a batch that is its key's newest, 0 for the others.

        Raises LookupError when no such batch was added: the log is not what it was during the first walk.
        """
        index = bisect_left(self._batches, batch)
        if index == len(self._batches) or self._batches[index] != batch:
            raise LookupError(f"no batch that ends at offset {batch} was mapped")
        first = self._firsts[index]
        return self._flags()[first : first + count]

    def _flags(self) -> bytearray:
        if self._stays is None:
            self._stays = bytearray(self._records)
            for number in self._keys.newest_numbers():
                self._stays[number] = 1
        return self._stays

    def _fits(self, more_records: int) -> bool:
        return self._bytes(more_records) <= self._bytes_max and self._records + more_records <= NUMBER_MAX

    def _bytes(self, more_records: int) -> int:
        return self._keys.size(more_records) + self._records + more_records + len(self._batches) * _BATCH_BYTES
