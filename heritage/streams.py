"""Streams of messages, each for one thread, and the partitions that feed them while this member owns them.

A partition feeds one stream only. What was fetched of a partition is delivered while the partition is owned: not after
its release, and not after the lease of the session in which it was claimed, when another member may own it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Lock
from typing import Final, NamedTuple, Self

from sordini.heritage.errors import ConsumerTimeout, HeritageError
from sordini.heritage.message_set import MessageAndOffset
from sordini.protocol.types import TopicPartition

Decoder = Callable[[bytes], object]
LEASE_POLL_S: Final = 0.02


class MessageAndMetadata(NamedTuple):
    """One message of a stream."""

    topic: str
    partition: int
    offset: int
    key: object
    message: object


class OwnedPartition:
    """A partition that this member has claimed, and how far it was fetched and consumed. Threads share it."""

    def __init__(
        self, partition: TopicPartition, stream: KafkaStream, offset: int, lease_s: Callable[[], float]
    ) -> None:
        self.partition = partition
        self.stream = stream
        self.fetch_offset = offset
        self.consumed_offset = offset
        """The next offset to read: that after the last message that an iterator returned."""
        self._lease_s = lease_s
        self._lock = Lock()
        self._is_released = False

    @property
    def is_released(self) -> bool:
        return self._is_released

    @property
    def lease_s(self) -> float:
        """For how many seconds from now on no other member can own it; 0 when one may."""
        return 0.0 if self._is_released else self._lease_s()

    def release(self) -> None:
        """Nothing is fetched or consumed from now on."""
        with self._lock:
            self._is_released = True

    def fetched(self, next_offset: int) -> bool:
        """Accept what was fetched; False when it is to be dropped, because another member may own the partition."""
        with self._lock:
            if not self.lease_s:
                return False
            self.fetch_offset = next_offset
            return True

    def consume(self, offset: int) -> bool | None:
        """Count a message as consumed. False: drop it, the partition was released; None: wait, the lease is over."""
        with self._lock:
            if self._is_released:
                return False
            if not self.lease_s:
                return None
            self.consumed_offset = offset + 1
            return True


class FetchedChunk(NamedTuple):
    """Messages of one partition; or the error that the iterator raises."""

    owned: OwnedPartition
    messages: Iterable[MessageAndOffset]
    error: HeritageError | None = None


class KafkaStream:
    """An iterator over the messages of the partitions of one thread; it blocks, and ends when the connector shuts down."""

    def __init__(self, chunks_max: int, timeout_ms: int, key_decoder: Decoder, decoder: Decoder) -> None:
        self._queue: Queue[FetchedChunk | None] = Queue(chunks_max)
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._key_decoder = key_decoder
        self._decoder = decoder
        self._owned: OwnedPartition | None = None
        self._messages: Iterator[MessageAndOffset] = iter(())
        self._is_over = False

    def put(self, chunk: FetchedChunk) -> None:
        """Queue a chunk; waits for room while its partition is owned."""
        while not chunk.owned.is_released and not self._is_over:
            with suppress(Full):
                self._queue.put(chunk, timeout=LEASE_POLL_S)
                return

    def end(self) -> None:
        """Make the iterator end; what is queued is dropped, as its partitions were released."""
        self._is_over = True
        self.clear()
        self._queue.put(None)

    def clear(self) -> None:
        """Drop what is queued."""
        with suppress(Empty):
            while True:
                self._queue.get_nowait()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata:
        """The next message; it counts as consumed when it is returned. Raises ConsumerTimeout, HeritageError."""
        while True:
            for one in self._messages:
                if self._is_consumable(one):
                    return self._decoded(one)
            self._next_chunk()

    def _is_consumable(self, one: MessageAndOffset) -> bool:
        assert self._owned is not None
        while (verdict := self._owned.consume(one.offset)) is None:
            time.sleep(LEASE_POLL_S)  # Until the session is extended, or known to be over.
        return verdict

    def _next_chunk(self) -> None:
        try:
            chunk = self._queue.get(timeout=self._timeout_s)
        except Empty:
            raise ConsumerTimeout(f"no message within {self._timeout_s:g} s") from None
        if chunk is None:
            self._queue.put(None)  # The iterator stays at its end.
            raise StopIteration
        if chunk.owned.is_released:
            return
        if chunk.error is not None:
            raise chunk.error
        self._owned, self._messages = chunk.owned, iter(chunk.messages)

    def _decoded(self, one: MessageAndOffset) -> MessageAndMetadata:
        assert self._owned is not None
        topic, number = self._owned.partition
        key = None if one.key is None else self._key_decoder(one.key)
        return MessageAndMetadata(
            topic, number, one.offset, key, None if one.message is None else self._decoder(one.message)
        )
