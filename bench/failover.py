"""The longest gap between two acknowledged writes when the leader is killed, and when it is stopped in order.

One client writes single records with acks=all to a partition of three replicas; of all partitions the one whose
leader is about to go. It requests metadata every 5 ms when it has lost the leader. Every second time the victim is the
controller as well, so that there has to be another one first.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench import clusters, table
from bench.client import conversation, load
from bench.clusters import IDS, SESSION_MS, Labels, Three
from bench.sides import Say

PART = "failover"
KILLS = 10
STOPS = 4
TOPIC = "led-by"
CALM_SECONDS = 1.0
"""Written undisturbed before and after, so that nothing but the fault is in the gap."""


class Gap(NamedTuple):
    """How long nothing was acknowledged, and how much of that came after ZooKeeper had forgotten the victim."""

    was_controller: bool
    seconds: float
    after_session: float


class Gaps(NamedTuple):
    killed: list[Gap]
    stopped: list[Gap]


def rows(
    directory: Path, labels: Labels, rounds: int, say: Say, *, apache_only: bool, quick: bool, ours_only: bool = False
) -> list[str]:
    """The table's lines. With `apache_only` both sides are Apache Kafkas, which proves the harness."""
    kills, stops = counts(rounds, quick=quick)
    with clusters.both(directory, labels, apache_only=apache_only, ours_only=ours_only) as sides:
        for side in sides:
            _create(side)
        found = [Gaps([], []) for _ in sides]
        for number in range(max(kills, stops)):
            for side, gaps in zip(sides, found, strict=True):
                for way, taken, wanted in (("killed", gaps.killed, kills), ("stopped", gaps.stopped, stops)):
                    if number < wanted:
                        taken.append(_gap(side, is_controller=number % 2 == 1, is_killed=way == "killed"))
                        say(f"{side.label}, {way}{', the controller' * taken[-1].was_controller}: {_line(taken[-1])}")
    return [table.head(*labels), *rows_of(found[0], found[-1])]


def counts(rounds: int, *, quick: bool) -> tuple[int, int]:
    """How often a leader is killed, and how often one is stopped; five rounds are the ten kills."""
    return (2, 2) if quick else (min(2 * rounds, KILLS), min(2 * rounds, STOPS))


def note(rounds: int) -> str:
    kills, stops = counts(rounds, quick=False)
    again = f"`make bench ARGS='--only {PART} --write'`"
    return f"medians of {kills} kills and {stops} orderly stops, every second time of the controller. Again: {again}."


def rows_of(theirs: Gaps, ours: Gaps) -> list[str]:
    killed, stopped = [[side.killed for side in (theirs, ours)], [side.stopped for side in (theirs, ours)]]
    return [
        _row(f"the leader is killed, session of {SESSION_MS // 1_000} s", "longest gap, s", killed, "seconds"),
        _row("", "of it after the session's end, s", killed, "after_session"),
        _row("", "the same, the victim not the controller, s", killed, "after_session", was_controller=False),
        _row("", "the same, the victim the controller, s", killed, "after_session", was_controller=True),
        _row("the leader is stopped in order", "longest gap, s", stopped, "seconds"),
        _row("", "the victim not the controller, s", stopped, "seconds", was_controller=False),
        _row("", "the victim the controller, s", stopped, "seconds", was_controller=True),
    ]


def _row(name: str, figure: str, sides: list[list[Gap]], field: str, *, was_controller: bool | None = None) -> str:
    values = (
        median(getattr(one, field) for one in side if was_controller in (None, one.was_controller)) for side in sides
    )
    return table.row(name, figure, *values, digits=3)


def _line(gap: Gap) -> str:
    return f"{gap.seconds:.3f} s, {gap.after_session:.3f} s of it after the session's end"


def _create(side: Three) -> None:
    """A topic for each broker that leads it."""
    for broker in IDS:
        replicas = ",".join(map(str, [broker, *(other for other in IDS if other != broker)]))
        load(side.brokers[broker].bootstrap, "create", f"{TOPIC}-{broker - 1}", partitions=1, replicas=replicas)
    side.settle(TOPIC, "preferred", topics=len(IDS))


def _gap(side: Three, *, is_controller: bool, is_killed: bool) -> Gap:
    """End one leader, write on with another, and put everything back as it was."""
    controller = side.controller()
    victim = controller if is_controller else controller % len(IDS) + 1
    process = side.brokers[victim]
    with conversation(side.bootstrap, "gap", f"{TOPIC}-{victim - 1}") as writing:
        writing.expect("ready")
        writing.go_on()
        time.sleep(CALM_SECONDS)
        forgotten = side.note_change_of_brokers()
        ended = time.monotonic()
        if is_killed:
            process.kill()
        else:
            process.stop()
        side.wait(lambda: bool(forgotten), f"broker {victim} is forgotten")
        side.settle(TOPIC, "led", topics=len(IDS))
        time.sleep(CALM_SECONDS)
        writing.enough()
        seconds = writing.result().gap_us / 1e6
    side.back(victim)
    side.settle(TOPIC, "full", topics=len(IDS))
    load(side.bootstrap, "elect", TOPIC, topics=len(IDS), partitions=1)
    side.settle(TOPIC, "preferred", topics=len(IDS))
    return Gap(is_controller, seconds, max(ended + seconds - forgotten[0], 0.0))
