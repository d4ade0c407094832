"""A range of bytes in a segment, to be sent.

`sendfile` sends by reference: until the bytes are sent, the descriptor must not be closed or reused. So a slice pins
its segment's file, and its receiver releases it, once or more often. The bytes are never rewritten in place; before a
truncation `LogDirHandle.before_truncate` is called, so that connections with a slice beyond the new end are reset.
"""

from __future__ import annotations

from sordini.protocol.types import TopicPartition
from sordini.storage.disk import File
from sordini.storage.open_files import Handle


class FileSlice:
    """`size` bytes of `file` from `position`: whole batches, except that the last may be incomplete."""

    __slots__ = ("_handle", "base", "end_offset", "file", "position", "size", "topic_partition")

    def __init__(
        self, handle: Handle, position: int, size: int, base: int, end_offset: int, topic_partition: TopicPartition
    ) -> None:
        self.file: File = handle.pin_to_send()
        self._handle: Handle | None = handle
        self.position = position
        self.size = size
        self.base = base
        """The base offset of the first batch: the requested offset, or less."""
        self.end_offset = end_offset
        """No record in the slice is at or after this offset."""
        self.topic_partition = topic_partition

    def read(self) -> bytes:
        """The bytes; fewer than `size` only when the file was truncated. Raises OSError."""
        return self.file.read_at(self.position, self.size)

    def release(self) -> None:
        """Unpin the file; the slice must not be read again."""
        handle = self._handle
        if handle is not None:
            self._handle = None
            handle.unpin()
