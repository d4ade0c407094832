"""What is fetched and delivered of a partition while its lease holds, and not otherwise."""

from __future__ import annotations

import pytest

from examples.heritage.errors import ConsumerTimeout, HeritageError
from examples.heritage.streams import FetchedChunk, KafkaStream, MessageAndMetadata, OwnedPartition
from sordini.protocol.records.batch import Record
from sordini.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 3)


class Lease:
    """How long it lasts, each time it is asked for; the last value stays. At some call something may happen."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)
        self.calls = 0
        self.at_call: dict[int, object] = {}

    def __call__(self) -> float:
        self.calls += 1
        happens = self.at_call.get(self.calls)
        if happens is not None:
            happens()
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


@pytest.fixture
def stream() -> KafkaStream:
    return KafkaStream(chunks_max=2, timeout_ms=0)


def owned(stream: KafkaStream, lease: Lease, offset: int = 5) -> OwnedPartition:
    return OwnedPartition(ORDERS, stream, offset, lease)


def messages(*offsets: int) -> list[Record]:
    return [Record(offset, 0, b"k", b"%d" % offset) for offset in offsets]


def test_messages_count_as_consumed_when_they_are_returned(stream: KafkaStream) -> None:
    one = owned(stream, Lease(10))
    assert one.fetched(8)
    stream.put(FetchedChunk(one, messages(5, 7)))
    assert (one.fetch_offset, one.consumed_offset) == (8, 5)
    assert next(stream) == MessageAndMetadata("orders", 3, 5, b"k", b"5")
    assert one.consumed_offset == 6
    next(stream)
    assert one.consumed_offset == 8
    with pytest.raises(ConsumerTimeout, match="no message within 0 s"):
        next(stream)


def test_what_was_fetched_after_the_lease_is_dropped(stream: KafkaStream) -> None:
    one = owned(stream, Lease(0))
    assert not one.fetched(8)
    assert one.fetch_offset == 5


def test_nothing_is_delivered_while_the_lease_is_over_and_what_waits_is_delivered_when_it_is_extended(
    stream: KafkaStream,
) -> None:
    lease = Lease(0, 0, 0, 10)
    one = owned(stream, lease)
    stream.put(FetchedChunk(one, messages(5)))
    assert next(stream).offset == 5
    assert lease.calls == 4
    assert one.consumed_offset == 6


def test_what_waits_for_a_lease_is_dropped_when_the_partition_is_released(stream: KafkaStream) -> None:
    lease = Lease(0)
    one = owned(stream, lease)
    # As the balancer would, but in this thread, which has the lock: so without it.
    lease.at_call[3] = lambda: setattr(one, "is_released", True)
    stream.put(FetchedChunk(one, messages(5)))
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert one.consumed_offset == 5


def test_after_a_release_nothing_more_of_a_chunk_is_delivered(stream: KafkaStream) -> None:
    one = owned(stream, Lease(10))
    stream.put(FetchedChunk(one, messages(5, 6)))
    next(stream)
    one.release()
    assert one.lease_s == 0
    assert not one.fetched(9)
    with pytest.raises(ConsumerTimeout):
        next(stream)
    assert one.consumed_offset == 6
    stream.put(FetchedChunk(one, messages(7)))
    stream.put(FetchedChunk(one, messages(8)))
    stream.put(FetchedChunk(one, messages(9)))
    with pytest.raises(ConsumerTimeout):
        next(stream)


def test_an_error_is_raised_by_the_iterator_unless_the_partition_was_released(stream: KafkaStream) -> None:
    one = owned(stream, Lease(10))
    stream.put(FetchedChunk(one, (), HeritageError("damaged")))
    with pytest.raises(HeritageError, match="damaged"):
        next(stream)
    stream.put(FetchedChunk(one, (), HeritageError("damaged")))
    one.release()
    with pytest.raises(ConsumerTimeout):
        next(stream)


def test_without_a_committed_offset_the_first_one_is_what_is_committed(stream: KafkaStream) -> None:
    fresh, going_on = owned(stream, Lease(10), offset=-1), owned(stream, Lease(10), offset=5)
    for one in (fresh, going_on):
        one.begin(40)
    assert (fresh.fetch_offset, fresh.consumed_offset) == (40, 40)
    assert (going_on.fetch_offset, going_on.consumed_offset) == (40, 5)


def test_a_stream_that_has_ended_stays_ended(stream: KafkaStream) -> None:
    stream.put(FetchedChunk(owned(stream, Lease(10)), messages(1)))
    stream.end()
    assert list(stream) == []
    assert list(stream) == []
