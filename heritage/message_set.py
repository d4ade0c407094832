"""A fetched message set: an iterator over the messages in a buffer, whose last message may be cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sordini.heritage.errors import HeritageError
from sordini.protocol.records.batch import Record
from sordini.protocol.records.fetch_validation import check_fetched
from sordini.protocol.records.legacy import read_any
from sordini.protocol.types import TopicPartition

_PREFIX_BYTES: Final = 12
"""Of an offset and the size of the message."""


class MessageAndOffset(NamedTuple):
    """A message, its offset, and the one to ask for next."""

    offset: int
    key: bytes | None
    message: bytes | None

    @property
    def next_offset(self) -> int:
        return self.offset + 1


class MessageSet:
    """The result of one fetch of one partition; iterating raises what there is instead of messages."""

    def __init__(
        self, partition: TopicPartition, fetch_offset: int, data: memoryview, error: HeritageError | None = None
    ) -> None:
        self.partition = partition
        self.fetch_offset = fetch_offset
        self._data = data
        self._error = error

    def __iter__(self) -> Iterator[MessageAndOffset]:
        """The whole messages from the fetched offset on. Raises as `check`, and BrokerError for damaged ones."""
        self.check()
        for record in self._records():
            yield MessageAndOffset(record.offset, record.key, record.value)

    def check(self) -> None:
        """Raise OffsetOutOfRange, RequestRefused or MessageSizeTooLarge, if that is the result."""
        if self._error is not None:
            raise self._error

    @property
    def is_only_a_part(self) -> bool:
        """Whether there are bytes, but not one whole message: the buffer was too small."""
        return bool(self._data) and len(self._data) < _PREFIX_BYTES + int.from_bytes(self._data[8:_PREFIX_BYTES])

    def _records(self) -> Iterator[Record]:
        # A message that is not whole is left out; the size in front of each one shows which.
        buffer, headers = check_fetched(self._data)
        for position, header in headers:
            for record in read_any(buffer[position : position + header.size], header):
                # A compressed set is sent whole, also when the offset is in the middle of it.
                if record.offset >= self.fetch_offset and not header.is_control:
                    yield record
