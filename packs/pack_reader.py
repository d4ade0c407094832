"""Reads a pack, frame by frame: one batch is in memory at a time.

Everything in a frame is checked before it is used: its checksum, which covers all frames before it, and whether it is
the batch that must follow. So what is wrong is found where it is, and a file that was cut off is never taken as whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, Final

from sordini.packs.pack_format import (
    BATCH,
    BEGINNING,
    ENDING,
    FRAME,
    HEADER,
    NAME,
    SLICE,
    Ending,
    Header,
    PackedSlice,
    PackedTopic,
    PackError,
    checksum_of,
    ending_of,
    header_of,
)
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Record,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.system.named_tuple import NamedTuple

VERSION_BYTES_MAX: Final = 20


class PackedBatch(NamedTuple):
    """A batch of a slice."""

    number: int
    """Of the slice."""
    data: bytes
    header: BatchHeader


class Pack(NamedTuple):
    """What is in a file, all of which was checked."""

    path: str
    size: int
    header: Header
    ending: Ending

    @property
    def topics(self) -> dict[str, PackedTopic]:
        """By name."""
        return {one.name: one for one in self.header.topics}

    @property
    def slices(self) -> list[PackedSlice]:
        """With the offsets where they end."""
        return [
            one._replace(end_offset=end) for one, end in zip(self.header.slices, self.ending.end_offsets, strict=True)
        ]


def open_pack(path: str) -> Pack:
    """Read a file to its end, and say what is in it. Raises PackError."""
    with _opened(path) as file:
        reader = PackReader(path, file)
        for _ in reader.batches():
            pass
        assert reader.ending is not None
        return Pack(path, reader.size, reader.header, reader.ending)


def batches_of(path: str) -> Iterator[PackedBatch]:
    """The batches of a file, slice by slice. Raises PackError."""
    with _opened(path) as file:
        yield from PackReader(path, file).batches()


def records_of(path: str, topics: Sequence[str] | None = None) -> Iterator[tuple[PackedSlice, Record, bool]]:
    """The records of a file, or those of some of its topics, partition by partition, in the order of their offsets.

    Each comes with its slice, and whether its time is that of the append. Raises PackError, and ValueError for a topic
    that is not in the file.
    """
    with _opened(path) as file:
        reader = PackReader(path, file)
        wanted = chosen_topics(reader.header, topics)
        for batch in reader.batches():
            one = reader.header.slices[batch.number]
            if one.topic in wanted:
                for record in reader.records(batch):
                    yield one, record, batch.header.is_log_append_time


def chosen_topics(header: Header, topics: Sequence[str] | None) -> Sequence[str]:
    """The names given, or all of a pack. Raises ValueError for one that is not there."""
    there = [one.name for one in header.topics]
    chosen = there if topics is None else topics
    for name in chosen:
        if name not in there:
            raise ValueError(f"topics: {name!r} is not in the pack; these are: {', '.join(there)}")
    return chosen


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")  # noqa: PTH123 - the caller closes it.
    except OSError as error:
        raise PackError(f"{path}: {(error.strerror or str(error)).lower()}") from None


class PackReader:
    """One open file."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        """Reads the header. Raises PackError."""
        self._path = path
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self._position = self._next = 0
        """Where the frame that was read last begins, and the one after it."""
        self._checksum = 0
        self._is_at = "in its header"
        self.ending: Ending | None = None
        self._check_beginning()
        kind, content = self._frame()
        if kind != HEADER:
            raise self._wrong("its first frame is no header")
        try:
            self.header = header_of(content)
        except (ValueError, KeyError, TypeError) as error:
            raise self._wrong(f"its header cannot be read: {error!r}") from None

    def batches(self) -> Iterator[PackedBatch]:
        """All batches; then `ending` is known. Raises PackError."""
        number, position = -1, 0
        ends: list[int] = []
        counts = [0] * len(self.header.slices)
        while True:
            kind, content = self._frame()
            if kind == ENDING:
                break
            found = self._batch(kind, content)
            while number < found.number:
                ends += [position] if number >= 0 else []
                number += 1
                position = self.header.slices[number].start_offset
            if found.number < number or found.header.base_offset != position:
                raise self._wrong(f"a batch from offset {found.header.base_offset} on is not what follows")
            position = found.header.next_offset
            counts[number] += found.header.record_count
            yield found
        self.ending = self._ending(content)
        ends += [position] if number >= 0 else []
        ends += [one.start_offset for one in self.header.slices[len(ends) :]]
        if self.ending != (tuple(counts), tuple(ends)):
            raise self._wrong("its batches are not those that its end names")

    def records(self, batch: PackedBatch) -> list[Record]:
        """The records of the batch that was read last. Raises PackError."""
        try:
            return list(read_records(batch.data, batch.header))
        except BrokerError as error:
            raise self._wrong(str(error)) from None

    def _check_beginning(self) -> None:
        beginning = self._file.read(len(BEGINNING))
        if beginning == BEGINNING:
            self._next = len(BEGINNING)
            return
        if beginning.startswith(NAME):
            version = (beginning + self._file.read(VERSION_BYTES_MAX)).removeprefix(NAME).split(b"\n")[0]
            shown = version.decode(errors="backslashreplace")
            raise PackError(f"{self._path}: version {shown} of packs; this release reads version 1")
        raise PackError(f"{self._path}: this is no file that `sordini topics pack` has written")

    def _frame(self) -> tuple[int, bytes]:
        """The next frame's kind and content. Raises PackError."""
        self._position = self._next
        head = self._file.read(FRAME.size)
        if len(head) < FRAME.size:
            raise self._cut_off("in" if head else "before", "another frame")
        kind, size, checksum = FRAME.unpack(head)
        if size > self.size - self._position - FRAME.size:
            raise self._cut_off("in", f"the frame of {size} bytes that begins at byte {self._position}")
        content = self._file.read(size)
        found = checksum_of(kind, content, self._checksum)
        if len(content) != size or found != checksum:
            raise self._wrong(f"the checksum is {checksum:08x}, and its bytes have {found:08x}")
        self._next += FRAME.size + size
        self._checksum = checksum
        return kind, content

    def _batch(self, kind: int, content: bytes) -> PackedBatch:
        if kind != BATCH or len(content) < SLICE.size + HEADER_SIZE:
            raise self._wrong("a frame is neither a batch nor the end")
        (number,) = SLICE.unpack_from(content)
        data = content[SLICE.size :]
        header = read_header(data)
        is_plain = header.producer_id < 0 and not header.attributes & ~(CODEC_MASK | LOG_APPEND_TIME_BIT)
        is_whole = header.size == len(data) and header.magic == CURRENT_MAGIC and header.last_offset_delta >= 0
        if not (is_plain and is_whole and number < len(self.header.slices) and crc_is_right(data, 0, header)):
            raise self._wrong("a batch is none that a pack may have")
        one = self.header.slices[number]
        self._is_at = f"after offset {header.last_offset} of partition {one.partition} of topic {one.topic!r}"
        return PackedBatch(number, data, header)

    def _ending(self, content: bytes) -> Ending:
        try:
            ending = ending_of(content, self.header.slices)
        except (ValueError, KeyError, TypeError) as error:
            raise self._wrong(f"its end cannot be read: {error!r}") from None
        if self._file.read(1):
            raise self._wrong(f"bytes follow its end at byte {self._next}")
        return ending

    def _cut_off(self, where: str, missing: str) -> PackError:
        return PackError(f"{self._path} was cut off: it ends at byte {self.size}, {where} {missing}, {self._is_at}")

    def _wrong(self, reason: str) -> PackError:
        return PackError(f"{self._path} is damaged in the frame at byte {self._position}, {self._is_at}: {reason}")
