"""Streams of messages, each for one thread, and the partitions that feed them while this member owns them.

A partition feeds one stream only. What was fetched of it is delivered while it is owned: not after its release, and not
while the lease of the session in which it was claimed is over, when another member may own it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Lock
from typing import Final, NamedTuple, Self

from examples.heritage.errors import ConsumerTimeout, HeritageError
from examples.heritage.offsets import NO_OFFSET
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition

LEASE_POLL_S: Final = 0.02


class MessageAndMetadata(NamedTuple):
    topic: str
    partition: int
    offset: int
    key: bytes | None
    message: bytes | None


class OwnedPartition:
    """A partition that this member has claimed, and how far it was fetched and consumed. Threads share it."""

    def __init__(
        self, partition: TopicPartition, stream: KafkaStream, offset: int, lease_s: Callable[[], float]
    ) -> None:
        self.partition = partition
        self.stream = stream
        self.fetch_offset = self.consumed_offset = offset
        self.is_released = False
        self._lease_s = lease_s
        self._lock = Lock()

    @property
    def lease_s(self) -> float:
        """For how many seconds from now on no other member can own it; 0 when one may."""
        return 0.0 if self.is_released else self._lease_s()

    def begin(self, offset: int) -> None:
        """Fetch from there on; without a committed offset, that is the one to commit."""
        self.fetch_offset = offset
        self.consumed_offset = offset if self.consumed_offset == NO_OFFSET else self.consumed_offset

    def release(self) -> None:
        """Nothing is fetched or consumed from now on."""
        with self._lock:
            self.is_released = True

    def fetched(self, next_offset: int) -> bool:
        """Accept what was fetched; False when it is to be dropped, because another member may own the partition."""
        with self._lock:
            is_owned = self.lease_s > 0
            self.fetch_offset = next_offset if is_owned else self.fetch_offset
            return is_owned

    def consume(self, offset: int) -> bool:
        """Count a message as consumed, once the lease holds; False: the partition was released."""
        while not self.is_released:
            with self._lock:
                if self.lease_s:
                    self.consumed_offset = offset + 1
                    return True
            time.sleep(LEASE_POLL_S)
        return False


class FetchedChunk(NamedTuple):
    """Messages of one partition; or the error that the iterator raises."""

    owned: OwnedPartition
    messages: Iterable[Record]
    error: HeritageError | None = None


class KafkaStream:
    """An iterator over messages of one or more partitions; it blocks, and ends when the connector shuts down."""

    def __init__(self, chunks_max: int, timeout_ms: int) -> None:
        self._queue: Queue[FetchedChunk | None] = Queue(chunks_max)
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._messages: Iterator[MessageAndMetadata] = iter(())

    def put(self, chunk: FetchedChunk) -> None:
        """Queue a chunk; waits for room while its partition is owned."""
        is_queued = False
        while not (is_queued or chunk.owned.is_released):
            with suppress(Full):
                self._queue.put(chunk, timeout=LEASE_POLL_S)
                is_queued = True

    def end(self) -> None:
        """Make the iterator end. What is queued would be dropped: its partitions were released."""
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        self._queue.put(None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata:
        """The next message; it counts as consumed when it is returned. Raises ConsumerTimeout, HeritageError."""
        while True:
            for message in self._messages:
                return message
            self._messages = self._next_chunk()

    def _next_chunk(self) -> Iterator[MessageAndMetadata]:
        try:
            chunk = self._queue.get(timeout=self._timeout_s)
        except Empty:
            raise ConsumerTimeout(f"no message within {self._timeout_s:g} s") from None
        if chunk is None:
            self._queue.put(None)  # The iterator stays at its end.
            raise StopIteration
        if chunk.error is not None and not chunk.owned.is_released:
            raise chunk.error
        return self._consumed(chunk)

    def _consumed(self, chunk: FetchedChunk) -> Iterator[MessageAndMetadata]:
        for one in chunk.messages:
            if not chunk.owned.consume(one.offset):
                return
            yield MessageAndMetadata(*chunk.owned.partition, one.offset, one.key, one.value)
