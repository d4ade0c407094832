"""Latency of requests per API: from the call of the dispatcher to the complete response.

Wraps the dispatcher only when metrics are on, so that a broker without them pays nothing. A duration is counted under
the number of bits of its nanoseconds: one list store, no search, and buckets that double. A delayed response is counted
when it is complete; an abandoned one is never counted, nor is a request that closes its connection.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.network.ports import DelayedResponse, Parts, Peer, Service

BITS = 64
KEYS = 256
"""Values of the second byte of a request, the lower byte of the API key: the keys of Kafka fit into it, and
those of `OWN_APIS` have a lower byte of their own."""


class Latencies:
    """The durations by API key: counts by number of bits, and their sum in nanoseconds."""

    def __init__(self) -> None:
        self.counts = [[0] * (BITS + 1) for _ in range(KEYS)]
        self.nanoseconds = [0] * KEYS

    def add(self, key: int, nanoseconds: int) -> None:
        self.counts[key][nanoseconds.bit_length()] += 1
        self.nanoseconds[key] += nanoseconds


class TimedService:
    """A service that times the requests of another one."""

    __slots__ = ("latencies", "serve")

    def __init__(self, service: Service, now_ns: Callable[[], int]) -> None:
        self.latencies = Latencies()
        self.serve = _timed(service.serve, now_ns, self.latencies)


def _timed(
    serve: Callable[[Peer, memoryview], Parts | DelayedResponse | None], now_ns: Callable[[], int], latencies: Latencies
) -> Callable[[Peer, memoryview], Parts | DelayedResponse | None]:
    """A function over cells instead of a method over attributes: 0.1 µs less for each request."""
    table, sums = latencies.counts, latencies.nanoseconds

    def timed(peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        began_ns = now_ns()
        answer = serve(peer, frame)
        if type(answer) is DelayedResponse and not answer.is_answered:
            count_when_answered(answer, frame[1], began_ns)
            return answer
        passed_ns = now_ns() - began_ns
        # It was served, so its frame begins with a known key, whose number is in the second byte.
        key = frame[1]
        table[key][passed_ns.bit_length()] += 1
        sums[key] += passed_ns
        return answer

    def count_when_answered(pending: DelayedResponse, key: int, began_ns: int) -> None:
        pending.on_answer = lambda: latencies.add(key, now_ns() - began_ns)

    return timed
