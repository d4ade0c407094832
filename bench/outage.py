"""How long clients wait while ZooKeeper is frozen for half a minute, and in the minute after it continues.

Each cluster of three brokers has a ZooKeeper of its own, and only one of them has clients at a time. A silence is that
of the partition, or of the group's coordinator, that was silent for longest.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from bench import clusters
from bench.clusters import IDS, SESSION_MS, Labels, Three
from bench.sides import Say
from bench.silences import KINDS, Times, clients, longest
from tests.outside.java import ZooKeeperProcess
from tests.outside.versions import APACHE_KAFKA, OLDER_APACHE_KAFKA

PART = "outage"
TOPIC = "written"
ROUNDS_MAX = 2
PARTITIONS = len(IDS)
"""Of the topic and of the groups' own: each broker leads one of both."""
GROUPS = [f"group-{number}" for number in range(PARTITIONS)]
"""String.hashCode of each name is one more than that of the one before: each is in a partition of its own."""
SETTINGS: dict[str, object] = {
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
}


class Extent(NamedTuple):
    """Seconds of quiet work before, without ZooKeeper, and of what is looked at afterwards."""

    before: float
    away: float
    after: float


PAPER = Extent(10.0, 30.0, 60.0)
QUICK = Extent(3.0, 12.0, 10.0)


class Seen(NamedTuple):
    """The longest silences of one kind, in seconds."""

    before: float
    away: float
    after: float


class Side(NamedTuple):
    three: Three
    zookeeper: ZooKeeperProcess


def rows(directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool) -> list[str]:
    """The table's lines. With `apache_only` the last side is an Apache Kafka as well, which proves the harness."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # Connections are lost here on purpose.
    extent = QUICK if quick else PAPER
    versions = {f"Apache Kafka {OLDER_APACHE_KAFKA}": OLDER_APACHE_KAFKA, labels.theirs: APACHE_KAFKA}
    versions[labels.ours] = APACHE_KAFKA if apache_only else ""
    with ExitStack() as running:
        sides = [
            running.enter_context(_side(directory / str(number), label, version))
            for number, (label, version) in enumerate(versions.items())
        ]
        seen: list[list[dict[str, Seen]]] = [[] for _ in sides]
        for _ in range(min(rounds, ROUNDS_MAX)):
            for side, taken in zip(sides, seen, strict=True):
                taken.append(_measure(side, extent))
                say(f"{side.three.label}: " + ", ".join(f"{kind} {_line(one)}" for kind, one in taken[-1].items()))
    return rows_of(list(versions), seen, extent)


def note(rounds: int) -> str:
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"session of {SESSION_MS // 1_000} s, the longest of {min(rounds, ROUNDS_MAX)} outages. Again: {again}."


def rows_of(labels: list[str], seen: list[list[dict[str, Seen]]], extent: Extent = PAPER) -> list[str]:
    """For each kind of work and each time the longest silence of all rounds, of every side."""
    lines = [
        "| longest silence, s | when | " + " | ".join(labels) + " |",
        "| --- | --- |" + " --: |" * len(labels),
    ]
    for kind in KINDS:
        for when, field in (
            (f"{extent.before:g} s before", "before"),
            (f"ZooKeeper frozen for {extent.away:g} s", "away"),
            (f"{extent.after:g} s after", "after"),
        ):
            values = (max(getattr(one[kind], field) for one in rounds) for rounds in seen)
            name = kind if field == "before" else ""
            lines.append(f"| {name} | {when} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return lines


def _line(seen: Seen) -> str:
    return " / ".join(f"{value:.2f} s" for value in seen)


@contextmanager
def _side(home: Path, label: str, version: str) -> Iterator[Side]:
    """A cluster of an Apache Kafka, or of ours where there is no version, with the topic and with all groups."""
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(home / "zookeeper"))
        three = running.enter_context(
            clusters.three(home, label, zookeeper, "cluster", version=version, settings=SETTINGS)
        )
        _create(three)
        yield Side(three, zookeeper)


def _create(three: Three) -> None:
    admin = AdminClient({"bootstrap.servers": three.bootstrap, "log_level": 0})
    # The client's first metadata may name no controller, and it requests metadata again only with the next call.
    three.wait(
        lambda: admin.list_topics(timeout=clusters.SECONDS_MAX).controller_id in IDS, "clients know a controller"
    )
    replicas = [[*IDS[number:], *IDS[:number]] for number in range(PARTITIONS)]
    wanted = NewTopic(TOPIC, PARTITIONS, replica_assignment=replicas)
    for created in admin.create_topics([wanted], request_timeout=clusters.SECONDS_MAX).values():
        created.result()

    def is_full() -> bool:
        found = admin.list_topics(TOPIC, clusters.SECONDS_MAX).topics[TOPIC].partitions.values()
        return len(found) == PARTITIONS and all(len(one.isrs) == len(IDS) for one in found)

    three.wait(is_full, f"all replicas of {TOPIC} are in sync")


def _measure(side: Side, extent: Extent) -> dict[str, Seen]:
    with clients(side.three.bootstrap, TOPIC, PARTITIONS, GROUPS) as times:
        side.three.wait(lambda: _are_at_work(times), "every client is at work")
        began = time.monotonic()
        time.sleep(extent.before)
        os.kill(side.zookeeper.pid, signal.SIGSTOP)
        try:
            frozen = time.monotonic()
            time.sleep(extent.away)
        finally:
            os.kill(side.zookeeper.pid, signal.SIGCONT)
        thawed = time.monotonic()
        time.sleep(extent.after)
        ended = time.monotonic()
    windows = [(began, frozen), (frozen, thawed), (thawed, ended)]
    return {kind: Seen(*(longest(done, *window) for window in windows)) for kind, done in times.items()}


def _are_at_work(times: Times) -> bool:
    """Whether every partition has been written and read, and every group has committed, more than once."""
    return all(sum(len(moments) > 1 for moments in done.values()) == PARTITIONS for done in times.values())
