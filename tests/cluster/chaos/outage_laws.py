"""What must hold while ZooKeeper is away from brokers that all run: I15. Pure, as `laws`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.cluster.chaos.events import OK, History, Outage

Times = dict[str, list[float]]


class Service(NamedTuple):
    """What went on in one outage; counts are of its second half and of the partition with the fewest.

    `silence` is the longest time in the whole outage without an acknowledged write of some partition, in seconds.
    """

    outage: Outage
    writes: int
    reads: int
    commits: int
    silence: float


def services(history: History) -> list[Service]:
    """Every outage of ZooKeeper with what went on in it."""
    kinds = _done(history)
    return [
        Service(
            outage,
            *(min((_count(times, outage) for times in done.values()), default=0) for done in kinds.values()),
            silence=max((_silence(times, outage) for times in kinds["acknowledged write"].values()), default=0.0),
        )
        for outage in sorted(history.outages, key=lambda one: one.t0)
    ]


def availability(history: History) -> Iterator[str]:
    """I15: with all brokers up, each partition is written, read and committed in an outage's second half, too.

    The second half, since a broker that stops for want of a store does so by the end of its session. When a broker
    is killed meanwhile, no in-sync set can shrink, and no record can be acknowledged by all of it.
    """
    for outage in history.outages:
        if outage.hit:
            continue
        for what, done in _done(history).items():
            for tp, times in sorted(done.items()):
                if not _count(times, outage):
                    seconds = outage.t1 - outage.t0
                    yield f"I15 {tp} has no {what} in the second half of {seconds:.1f} s of ZooKeeper {outage.way}"


def _done(history: History) -> dict[str, Times]:
    """When each partition that was written to was written, read and committed."""
    partitions = {one.tp for one in history.sends}
    return {
        "acknowledged write": _times(partitions, ((one.tp, one.t1) for one in history.acknowledged)),
        "read": _times(partitions, ((one.tp, one.t1) for one in history.polls)),
        "group commit": _times(partitions, ((one.tp, one.t1) for one in history.commits if one.result == OK)),
    }


def _times(partitions: Iterable[str], moments: Iterable[tuple[str, float]]) -> Times:
    by_partition: Times = defaultdict(list)
    for tp, moment in moments:
        by_partition[tp].append(moment)
    return {tp: sorted(by_partition[tp]) for tp in partitions}


def _count(times: list[float], outage: Outage) -> int:
    """How many of these moments are in an outage's second half."""
    return bisect_right(times, outage.t1) - bisect_left(times, (outage.t0 + outage.t1) / 2)


def _silence(times: list[float], outage: Outage) -> float:
    within = times[bisect_left(times, outage.t0) : bisect_right(times, outage.t1)]
    return max(after - before for before, after in pairwise([outage.t0, *within, outage.t1]))
