"""How long requests take, per API: from the moment the dispatcher has them to the moment it has their answers.

Stands in front of the dispatcher only when metrics are on, so that a broker without them pays nothing. A duration is
counted under the number of bits of its nanoseconds: one list store, no search, and buckets that double.
A parked answer counts when it is answered; one that is abandoned never does, nor does a request that closes its
connection.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.network.ports import Parts, Peer, Pending, Service

BITS = 64
KEYS = 256
"""What the second byte of a request, the API key's lower one, can be: all keys there are fit into it."""


class Latencies:
    """The durations by API key: how many had so many bits, and their sum in nanoseconds."""

    def __init__(self) -> None:
        self.counts = [[0] * (BITS + 1) for _ in range(KEYS)]
        self.nanoseconds = [0] * KEYS

    def add(self, key: int, nanoseconds: int) -> None:
        self.counts[key][nanoseconds.bit_length()] += 1
        self.nanoseconds[key] += nanoseconds


class TimedService:
    """A service that another one stands behind, and whose answers are timed."""

    __slots__ = ("latencies", "serve")

    def __init__(self, service: Service, now_ns: Callable[[], int]) -> None:
        self.latencies = Latencies()
        self.serve = _timed(service.serve, now_ns, self.latencies)


def _timed(
    serve: Callable[[Peer, memoryview], Parts | Pending | None], now_ns: Callable[[], int], latencies: Latencies
) -> Callable[[Peer, memoryview], Parts | Pending | None]:
    """A function over cells instead of a method over attributes: 0.1 µs less for each request."""
    table, sums = latencies.counts, latencies.nanoseconds

    def timed(peer: Peer, frame: memoryview) -> Parts | Pending | None:
        began_ns = now_ns()
        answer = serve(peer, frame)
        if type(answer) is Pending and not answer.is_answered:
            count_when_answered(answer, frame[1], began_ns)
            return answer
        passed_ns = now_ns() - began_ns
        # It was served, so its frame begins with a known key, whose number is in the second byte.
        key = frame[1]
        table[key][passed_ns.bit_length()] += 1
        sums[key] += passed_ns
        return answer

    def count_when_answered(pending: Pending, key: int, began_ns: int) -> None:
        pending.on_answer = lambda: latencies.add(key, now_ns() - began_ns)

    return timed
