"""Compares a segment's indexes with its log in one pass: each check gets every batch, in order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from sordini.cli.commands.log.dump.kafka_indexes import rows
from sordini.cli.commands.log.verify.findings import Collector, Finding
from sordini.storage import names, offset_index, time_index
from sordini.storage.disk import Disk, File
from sordini.storage.segment import SHORT_INDEX_BYTES
from sordini.system.named_tuple import NamedTuple

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class IndexedBatch(NamedTuple):
    """The fields of a batch that indexes refer to."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_sound: bool
    """If not, its offsets and timestamps are unreliable."""
    is_whole: bool = True
    """Whether the base offset is that of the first record; in old wrapper messages it is that of the last."""


class IndexFacts(NamedTuple):
    """One index, and what the state of its segment allows."""

    path: str
    base: int
    may_be_padded: bool
    """Zeros after the entries are valid in the active segment, also after a crash."""


class _Index:
    """Shared by both kinds of index: reading the entries, and damage of the file itself."""

    def __init__(self, disk: Disk, facts: IndexFacts, entry: struct.Struct, prefix: str) -> None:
        self.entries = 0
        self._next: tuple[int, tuple[int, ...]] | None = None
        self._facts = facts
        self._prefix = prefix
        self._file: File | None = None
        self._found = Collector()
        self._rows: Iterator[tuple[int, tuple[int, ...]]] = iter(())
        try:
            self._file = disk.open(facts.path, writable=False)
        except FileNotFoundError:
            self._find("missing", "there is no such file", None)
            return
        rest = self._file.size() % entry.size
        if rest:
            self._find("half-entry", f"{rest} bytes are left, an entry has {entry.size}", self._file.size() - rest)
        self._rows = self._trimmed(rows(self._file, entry))
        self._next = next(self._rows, None)

    def findings(self) -> list[Finding]:
        return self._found.listed()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _trimmed(self, entries: Iterator[tuple[int, tuple[int, ...]]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The entries without the zeros that may follow them."""
        assert self._file is not None
        for at, fields in entries:
            if not any(fields):
                if not self._facts.may_be_padded:
                    left = self._file.size() - at
                    self._find("padded", f"{left} bytes of zeros follow the entries: the index was never trimmed", at)
                return
            self.entries += 1
            yield at, fields

    def _find(self, kind: str, explanation: str, position: int | None, offset: int | None = None) -> None:
        self._found.add(Finding(f"{self._prefix}-{kind}", self._facts.path, explanation, position, offset))


class OffsetIndexCheck(_Index):
    """Each entry must be the last offset and the position of a batch; both must rise."""

    def __init__(self, disk: Disk, facts: IndexFacts) -> None:
        self._previous = (-1, -1)
        self._indexed_to = 0
        super().__init__(disk, facts, _INDEX_ENTRY, "index")

    def batch(self, batch: IndexedBatch) -> None:
        while self._next is not None:
            at, (relative, position) = self._next
            offset = self._facts.base + relative
            if relative <= self._previous[0] or position <= self._previous[1]:
                self._find(
                    "disorder", f"offset {offset} at byte {position} does not come after the one before", at, offset
                )
            elif position > batch.position:
                break
            elif position != batch.position or (offset != batch.last_offset and batch.is_sound):
                what = (
                    "the batch there ends with another offset"
                    if position == batch.position
                    else "no batch begins there"
                )
                self._find("wrong", f"offset {offset} is said to be at byte {position}: {what}", at, offset)
            self._previous = (max(relative, self._previous[0]), max(position, self._previous[1]))
            self._indexed_to = position
            self._next = next(self._rows, None)

    def end(self, log_bytes: int, interval_bytes: int) -> None:
        """Check the remaining entries after the last batch."""
        while self._next is not None:
            at, (relative, position) = self._next
            offset = self._facts.base + relative
            self._find("wrong", f"offset {offset} is said to be at byte {position}, past the last batch", at, offset)
            self._next = next(self._rows, None)
        if self._file is not None and log_bytes - self._indexed_to > interval_bytes + SHORT_INDEX_BYTES:
            what = f"the last entry is of byte {self._indexed_to} of {log_bytes}"
            self._find("short", what, self.entries * offset_index.ENTRY_SIZE)


class TimeIndexCheck(_Index):
    """Each entry must be the largest timestamp so far and an offset in the batch that has it.

    Kafka versions differ in the offset: that of the batch's last record, or of the record with that timestamp.
    """

    def __init__(self, disk: Disk, facts: IndexFacts) -> None:
        self._previous = (-1, -1)
        self._greatest = -1
        self._last_timestamp = -1
        self._is_sure = True
        super().__init__(disk, facts, _TIME_ENTRY, "time-index")

    def batch(self, batch: IndexedBatch) -> None:
        self._is_sure = self._is_sure and batch.is_sound
        if not self._is_sure:
            return  # An entry may refer to a batch of which only the size is known.
        while self._next is not None:
            at, (timestamp, relative) = self._next
            offset = self._facts.base + relative
            if timestamp <= self._previous[0] or relative < self._previous[1]:
                self._find("disorder", f"time {timestamp} at offset {offset} is not after the one before", at, offset)
            elif offset > batch.last_offset:
                break
            elif offset < batch.base_offset:
                self._find(
                    "wrong", f"no batch holds offset {offset}, which is said to be of time {timestamp}", at, offset
                )
            elif timestamp != batch.max_timestamp or timestamp <= self._greatest:
                what = f"offset {offset} is said to be of time {timestamp}, and is of {batch.max_timestamp}"
                self._find("wrong", what, at, offset)
            self._previous = (max(timestamp, self._previous[0]), max(relative, self._previous[1]))
            self._last_timestamp = max(self._last_timestamp, timestamp)
            self._next = next(self._rows, None)
        self._greatest = max(self._greatest, batch.max_timestamp)

    def end(self, *, is_closed: bool) -> None:
        """Check the remaining entries; in a closed segment the last entry must be the largest timestamp."""
        while self._next is not None and self._is_sure:
            at, (timestamp, relative) = self._next
            offset = self._facts.base + relative
            self._find("wrong", f"time {timestamp} is said to be at offset {offset}, which is not there", at, offset)
            self._next = next(self._rows, None)
        if (
            is_closed
            and self._is_sure
            and self._file is not None
            and self._greatest > max(self._last_timestamp, 0)
            and not self.findings()
        ):
            what = f"the largest timestamp is {self._greatest}, the last entry's {self._last_timestamp}"
            self._find("short", what, self.entries * time_index.ENTRY_SIZE)


def index_path(directory: str, base: int, suffix: str) -> str:
    return f"{directory}/{names.file_name(base, suffix)}"
