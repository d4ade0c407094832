"""Writes a pack: batch by batch into a file beside the one that is wanted, which then takes its name.

    with PackWriter(path, header, codec) as pack:
        for number, slice in enumerate(header.slices):
            pack.begin(number)
            pack.add(record, is_log_append_time=False)     # offsets rise
            pack.end(end_offset)
        pack.finish()

Without `finish` nothing is left. At most one batch of records is in memory.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from sordini.packs.pack_format import (
    BATCH,
    BEGINNING,
    COVERED_MAX,
    ENDING,
    HEADER,
    SLICE,
    Ending,
    Header,
    ending_json,
    framed,
    gap,
    header_json,
)
from sordini.protocol.records.batch import Record, build_batch

BATCH_BYTES: Final = 256 * 1024
"""Of records that are not compressed; only a single record may have more."""
RECORD_BYTES: Final = 10
"""Added for each record: its lengths and differences."""
INT64_MAX: Final = 2**63 - 1


class PackWriter:
    """One file."""

    def __init__(self, path: str, header: Header, codec: int) -> None:
        """Raises OSError."""
        self._path = Path(path)
        self._header = header
        self._codec = codec
        self._checksum = 0
        self._number = 0
        self._position = 0
        """The offset up to which the slice's batches reach."""
        self._records: list[Record] = []
        self._bytes = 0
        self._is_log_append_time = False
        self._counts = [0] * len(header.slices)
        self._ends = [one.start_offset for one in header.slices]
        self._file = self._open()
        self._file.write(BEGINNING)
        self._write(HEADER, header_json(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._file.close()
            Path(self._file.name).unlink()

    def begin(self, number: int) -> None:
        """Begin a slice."""
        self._number = number
        self._position = self._header.slices[number].start_offset

    def add(self, record: Record, *, is_log_append_time: bool) -> None:
        """Add the next record of the slice."""
        size = RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        size += sum(RECORD_BYTES + len(name) + len(value or b"") for name, value in record.headers)
        if self._records and not self._fits(record, size, is_log_append_time=is_log_append_time):
            self._flush(record.offset)
        while not self._records and record.offset - self._position >= COVERED_MAX:
            self._cover(self._position + COVERED_MAX)
        self._is_log_append_time = is_log_append_time
        self._records.append(record)
        self._bytes += size
        self._counts[self._number] += 1

    def end(self, end_offset: int) -> None:
        """End the slice at an offset, up to which there are no more records."""
        if self._records:
            self._flush(end_offset)
        while self._position < end_offset:
            self._cover(min(end_offset, self._position + COVERED_MAX))
        self._ends[self._number] = end_offset

    def finish(self) -> int:
        """Give the file its name, once it is on the disk; its size in bytes. Raises OSError."""
        self._write(ENDING, ending_json(Ending(tuple(self._counts), tuple(self._ends))))
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        Path(self._file.name).rename(self._path)
        self._file.close()
        return size

    def _open(self) -> IO[bytes]:
        """A new file beside the one that is wanted, readable by its owner alone."""
        name = f".{self._path.name}."
        return tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=name, delete=False)

    def _fits(self, record: Record, size: int, *, is_log_append_time: bool) -> bool:
        """Whether a record can be in one batch with those before."""
        first = self._records[0]
        if is_log_append_time != self._is_log_append_time or (
            is_log_append_time and record.timestamp != first.timestamp
        ):
            return False
        is_near = abs(record.timestamp - first.timestamp) <= INT64_MAX
        return is_near and record.offset - self._position < COVERED_MAX and self._bytes + size <= BATCH_BYTES

    def _flush(self, end_offset: int) -> None:
        """Write a batch of the records, up to the offset of what follows."""
        end_offset = min(end_offset, self._position + COVERED_MAX)
        batch = build_batch(
            self._records,
            codec=self._codec,
            base_offset=self._position,
            end_offset=end_offset,
            log_append_time=self._is_log_append_time,
        )
        self._write_batch(batch, end_offset)
        self._records, self._bytes = [], 0

    def _cover(self, end_offset: int) -> None:
        self._write_batch(gap(self._position, end_offset), end_offset)

    def _write_batch(self, batch: bytes | bytearray, end_offset: int) -> None:
        self._write(BATCH, SLICE.pack(self._number) + batch)
        self._position = end_offset

    def _write(self, kind: int, content: bytes) -> None:
        frame, self._checksum = framed(kind, content, self._checksum)
        self._file.write(frame)
