"""Groups whose coordinator assigns (KIP-848) beside Apache Kafka 4.4.0: assignments, heartbeats, restarts, memory.

The members are frames over one connection, the same to both brokers, so that the brokers are measured and not clients.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench import starting, table
from bench.clusters import Labels
from bench.consumer_members import Crowd, Gaps, beat_all, settled
from bench.goals import Goal, at_most, ours_at_most, summary
from bench.procfs import cpu_seconds, resident_bytes
from bench.sides import Say
from tests.outside.java import KRaftProcess
from tests.outside.processes import BrokerProcess
from tests.support.wire_client import Client

PART: Final = "consumer-protocol"
THEIRS: Final = "Apache Kafka 4.4.0"
SETTINGS: Final[dict[str, object]] = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
    "group.coordinator.rebalance.protocols": "classic,consumer",
}
ROUNDS_MAX: Final = 3
NO_LATER: Final = at_most(1.0)
GOAL: Final = ours_at_most(60, "µs")


class Size(NamedTuple):
    """How much is measured."""

    members: tuple[int, ...] = (1, 50, 500)
    beating: tuple[int, ...] = (1, 1_000)
    beats: int = 20_000
    restarted: int = 50
    groups: int = 1_000
    settling: int = 5


QUICK: Final = Size(members=(1, 5), beating=(1, 10), beats=100, restarted=3, groups=5, settling=1)
MEMBERS_PER_GROUP: Final = 10
PARTITIONS_PER_MEMBER: Final = 4
IN_FLIGHT: Final = 100
SETTLING_BEATS: Final = 2


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` both brokers are Apache Kafka's, which proves the harness."""
    size, rounds = (QUICK, 1) if quick else (Size(), min(rounds, ROUNDS_MAX))
    found = [table.head(THEIRS, labels.ours, goals=True)]
    with ExitStack() as running:
        benches = []
        for name, make in (("theirs", _newest), ("ours", _newest if apache_only else _sordini)):
            broker = make(directory / name)
            starting.timed_start(broker, watch_idle=False)
            running.callback(broker.stop)
            client = running.enter_context(Client("127.0.0.1", broker.port, 60))
            benches.append(Bench(broker, client, say))
        for count in size.members:
            found += _first_assignments(benches, count, size.settling, rounds)
        for count in size.beating:
            goal = GOAL if count == size.beating[-1] else None
            found += _heartbeats(benches, count, size.beats, rounds, goal)
        found += _restarts(benches, size.restarted)
        found += _many_groups(benches, size.groups)
    say(summary(found))
    return found


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    rounds = min(rounds, ROUNDS_MAX)
    how = "one round" if rounds == 1 else f"medians of {rounds} rounds"
    return f"{how}; restarts and memory once. Again: {again}."


def _newest(directory: Path) -> BrokerProcess:
    return KRaftProcess(directory, SETTINGS)


def _sordini(directory: Path) -> BrokerProcess:
    return starting.sordini(directory, SETTINGS)


class Bench:
    """One broker, and the connection of all members."""

    def __init__(self, broker: BrokerProcess, client: Client, say: Say) -> None:
        self.broker = broker
        self.client = client
        self._say = say
        self._number = 0

    def say(self, line: str) -> None:
        self._say(f"{self.broker.name}: {line}")

    def name(self) -> str:
        """Of a new group, and of its topic."""
        self._number += 1
        return f"group-{self._number}"

    def crowd(self, members: int, partitions: int) -> Crowd:
        """Members of a new group that have not joined yet."""
        return Crowd(self.client, self.name(), members, partitions)

    def cpu(self) -> float:
        return cpu_seconds(self.broker.pid)


def _first_assignments(benches: Sequence[Bench], count: int, settling: int, rounds: int) -> list[str]:
    """From the first join until each of as many members as partitions has its own."""
    seen: list[list[tuple[float, float]]] = [[], []]
    for number in range(settling + rounds):
        for side, bench in zip(seen, benches, strict=True):
            took = _first_assignment(bench, count)
            if number >= settling:  # A JVM compiles what it has run often.
                side.append(took)
    (theirs, theirs_cpu), (ours, ours_cpu) = ([median(part) * 1e3 for part in zip(*side, strict=True)] for side in seen)
    return [
        table.judged_row(f"first assignment of {_members(count)}", "ms", theirs, ours, NO_LATER, digits=1),
        table.judged_row("", "broker CPU, ms", theirs_cpu, ours_cpu, None, digits=1),
    ]


def _first_assignment(bench: Bench, count: int) -> tuple[float, float]:
    """Seconds and CPU seconds."""
    crowd = bench.crowd(count, count)
    began, before = time.monotonic(), bench.cpu()
    crowd.settle()
    took, used = time.monotonic() - began, bench.cpu() - before
    crowd.leave()
    bench.say(f"first assignment of {count} members: {took * 1e3:.1f} ms, CPU {used * 1e3:.1f} ms")
    return took, used


def _heartbeats(benches: Sequence[Bench], count: int, beats: int, rounds: int, goal: Goal | None) -> list[str]:
    """CPU of heartbeats that change nothing."""
    crowds = [bench.crowd(count, count) for bench in benches]
    for crowd in crowds:
        crowd.settle()
    found = []
    for in_flight, judged_by in ((1, None), (IN_FLIGHT, goal)):
        seen: list[list[float]] = [[], []]
        for number in range(SETTLING_BEATS + rounds):
            for side, bench, crowd in zip(seen, benches, crowds, strict=True):
                before = bench.cpu()
                crowd.beat_steadily(beats, in_flight)
                used = (bench.cpu() - before) / beats * 1e6
                bench.say(f"heartbeat of {count} members, {in_flight} in flight: CPU {used:.1f} us")
                if number >= SETTLING_BEATS:
                    side.append(used)
        name = f"steady heartbeat, {_members(count)}, {in_flight} in flight"
        found.append(table.judged_row(name, "broker CPU, µs", *map(median, seen), judged_by, digits=1))
    for crowd in crowds:
        crowd.leave()
    return found


def _restarts(benches: Sequence[Bench], count: int) -> list[str]:
    """How long partitions have no owner while each member leaves, and another joins when the rest is settled."""
    partitions, both = count * PARTITIONS_PER_MEMBER, []
    for bench in benches:
        crowd, gaps = bench.crowd(count, partitions), Gaps()
        crowd.settle()
        crowd.on_change = gaps.changed
        for number in range(count):
            crowd.restart(number)
        crowd.on_change = None
        crowd.leave()
        both.append([seconds * 1e3 for seconds in gaps.seconds])
        bench.say(f"{len(both[-1])} moves, median {median(both[-1]):.1f} ms, worst {max(both[-1]):.1f} ms")
    return [
        table.judged_row(
            f"rolling restart of {count} members, {partitions} partitions", "moves of partitions", *map(len, both), None
        ),
        table.judged_row("", "without owner, median, ms", *map(median, both), NO_LATER, digits=1),
        table.judged_row("", "without owner, worst, ms", *map(max, both), NO_LATER, digits=1),
    ]


def _many_groups(benches: Sequence[Bench], groups: int) -> list[str]:
    """What idle groups keep, and what their heartbeats cost."""
    memory, added, used = [], [], []
    for bench in benches:
        before = resident_bytes(bench.broker.pid) / 2**20
        crowds = settled(bench.client, bench.name(), groups, MEMBERS_PER_GROUP)
        memory.append(resident_bytes(bench.broker.pid) / 2**20)
        added.append(memory[-1] - before)
        seen = []
        for _ in range(ROUNDS_MAX):
            began = bench.cpu()
            count = beat_all(crowds, IN_FLIGHT)
            seen.append((bench.cpu() - began) / count * 1e6)
        used.append(median(seen))
        bench.say(f"{groups} groups: {memory[-1]:.0f} MiB, {added[-1]:.0f} of them new; {used[-1]:.1f} us a heartbeat")
    return [
        table.judged_row(
            f"{groups:,} groups of {MEMBERS_PER_GROUP} members, each with a topic", "memory, MiB", *memory, NO_LATER
        ),
        table.judged_row("", "added by them, MiB", *added, None),
        table.judged_row("", "broker CPU, µs/heartbeat", *used, None, digits=1),
    ]


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count:,} members"
