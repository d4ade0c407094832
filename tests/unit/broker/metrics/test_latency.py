"""How long requests take is counted per API, whenever the answer is sent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.metrics.exporter import BUCKET_BITS, _buckets
from sordini.broker.metrics.latency import BITS, Latencies, TimedService
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.errors import WireError

PRODUCE, FETCH = 0, 1
PEER: Any = None


def a_frame(key: int) -> memoryview:
    return memoryview(bytearray(key.to_bytes(2, "big") + bytes(20)))


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ns = 1_000

    def __call__(self) -> int:
        return self.ns


class Scripted:
    """A service that takes `cost_ns` and gives the prepared answer."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.cost_ns = 0
        self.answer: Any = [b"x"]

    def serve(self, peer: Any, frame: memoryview) -> Any:
        self.watch.ns += self.cost_ns
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Timed:
    def __init__(self) -> None:
        self.watch = Watch()
        self.inner = Scripted(self.watch)
        self.service = TimedService(self.inner, self.watch)

    def durations(self, key: int) -> tuple[dict[int, int], int]:
        """Counts by number of bits, and the sum."""
        latencies = self.service.latencies
        return {bits: count for bits, count in enumerate(latencies.counts[key]) if count}, latencies.nanoseconds[key]


def test_an_answer_at_once_counts_with_the_time_it_took_under_its_api() -> None:
    timed = Timed()
    timed.inner.cost_ns = 1000
    assert timed.service.serve(PEER, a_frame(FETCH)) == [b"x"]
    timed.inner.answer = None
    assert timed.service.serve(PEER, a_frame(FETCH)) is None, "acks=0 has no answer and takes its time"
    assert timed.durations(FETCH) == ({10: 2}, 2000)
    assert timed.durations(PRODUCE) == ({}, 0)


def test_a_parked_answer_counts_when_it_is_answered_with_all_its_waiting() -> None:
    timed = Timed()
    pending = timed.inner.answer = DelayedResponse()
    timed.inner.cost_ns = 100
    assert timed.service.serve(PEER, a_frame(PRODUCE)) is pending
    assert timed.durations(PRODUCE) == ({}, 0)
    timed.watch.ns += 5000
    pending.resolve([b"late"])
    assert timed.durations(PRODUCE) == ({13: 1}, 5100)


def test_an_answer_that_was_parked_and_complete_when_it_came_counts_once() -> None:
    timed = Timed()
    pending = timed.inner.answer = DelayedResponse()
    pending.resolve([b"x"])
    timed.inner.cost_ns = 7
    timed.service.serve(PEER, a_frame(PRODUCE))
    assert timed.durations(PRODUCE) == ({3: 1}, 7)


def test_an_abandoned_answer_and_a_closed_connection_never_count() -> None:
    timed = Timed()
    pending = timed.inner.answer = DelayedResponse()
    timed.service.serve(PEER, a_frame(PRODUCE))
    pending.abandon()
    pending.resolve([b"not read"])
    timed.inner.answer = WireError("wrong")
    try:
        timed.service.serve(PEER, a_frame(PRODUCE))
    except WireError:
        pass
    else:
        raise AssertionError("the connection must close")
    assert timed.durations(PRODUCE) == ({}, 0)


@given(st.lists(st.integers(0, 2**BITS - 1), max_size=50))
def test_a_bucket_holds_exactly_the_durations_below_its_bound(nanoseconds: list[int]) -> None:
    latencies = Latencies()
    for duration in nanoseconds:
        latencies.add(FETCH, duration)
    buckets = _buckets(latencies.counts[FETCH])
    assert [bound for bound, _ in buckets] == [str(2**bits / 1e9) for bits in BUCKET_BITS] + ["+Inf"]
    assert [count for _, count in buckets] == [
        *(sum(duration < 2**bits for duration in nanoseconds) for bits in BUCKET_BITS),
        len(nanoseconds),
    ]
    assert latencies.nanoseconds[FETCH] == sum(nanoseconds)
