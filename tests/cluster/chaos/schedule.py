"""Which fault comes when: a seed's plan. The same seed and length give the same plan.

quiet | slot: the fault, its heal, a pause | slot | ... | quiet, then everything is read and judged

A slot has `SLOT_SECONDS`, but for the two in which ZooKeeper is away: for a minute in a whole plan, for twenty seconds
in a shorter one. A plan of two minutes has one of them, one of three minutes both.
"""

from __future__ import annotations

import random
from enum import Enum
from itertools import cycle
from typing import Final, NamedTuple

SLOT_SECONDS: Final = 11.0
"""From one fault to the next: the fault, its heal, and a pause if there is time."""
LENGTH_MINUTES: Final = 10.0
"""Of the whole plan, in which every fault comes as often as `OFTEN` says."""
BEFORE_SECONDS: Final = (15.0, 40.0)
AFTER_SECONDS: Final = 30.0
"""Quiet before the first fault, of short runs and of whole ones; and after the last."""


class Kind(Enum):
    """What is done to the cluster."""

    KILL_LEADER = "kill the leader"
    KILL_CONTROLLER = "kill the controller"
    KILL_TWO = "kill two brokers together"
    KILL_ALL = "kill all brokers"
    FREEZE_LEADER = "freeze the leader for longer than its session"
    FREEZE_FOLLOWER = "freeze a follower"
    LEADER_FROM_PEERS = "cut the leader from its peers, not from ZooKeeper"
    LEADER_FROM_ZOOKEEPER = "cut the leader from ZooKeeper only"
    ONE_WAY = "lose what the leader sends to one follower"
    LEADER_FROM_CLIENTS = "cut the clients from the leader"
    BAD_LINK = "let a broker's link lose or delay packets"
    ELECTION = "elect or reassign, and kill in the middle"
    BAD_DISK = "let a broker's disk refuse"
    TORN = "kill at a sync or rename, and damage what is left"
    CLOCK = "turn a broker's wall clock by an hour"
    KILL_IN_TRANSACTION = "kill a transactional client in the middle, its successor comes after"
    SUPERSEDE = "stop a transactional client in the middle, continue it when its successor is at work"
    KILL_COORDINATOR = "kill the coordinator of an open transaction"
    FREEZE_COORDINATOR = "freeze the coordinator of an open transaction for longer than its session"
    KILL_OPEN_LEADER = "kill the leader of a partition with an open transaction"
    LATE_END = "let what clients send to a transaction's coordinator, or are answered, come late"
    ZOOKEEPER_AWAY = "take ZooKeeper away, all brokers up"
    ZOOKEEPER_AWAY_AND_KILL = "take ZooKeeper away, kill a broker in the middle and start it again"


OFTEN: Final[dict[Kind, int]] = {
    Kind.KILL_LEADER: 3,
    Kind.KILL_CONTROLLER: 2,
    Kind.KILL_TWO: 2,
    Kind.KILL_ALL: 1,
    Kind.FREEZE_LEADER: 2,
    Kind.FREEZE_FOLLOWER: 1,
    Kind.LEADER_FROM_PEERS: 2,
    Kind.LEADER_FROM_ZOOKEEPER: 2,
    Kind.ONE_WAY: 2,
    Kind.LEADER_FROM_CLIENTS: 1,
    Kind.BAD_LINK: 2,
    Kind.ELECTION: 2,
    Kind.BAD_DISK: 2,
    Kind.TORN: 2,
    Kind.CLOCK: 1,
    Kind.KILL_IN_TRANSACTION: 2,
    Kind.SUPERSEDE: 1,
    Kind.KILL_COORDINATOR: 1,
    Kind.FREEZE_COORDINATOR: 1,
    Kind.KILL_OPEN_LEADER: 2,
    Kind.LATE_END: 1,
    Kind.ZOOKEEPER_AWAY: 1,
    Kind.ZOOKEEPER_AWAY_AND_KILL: 1,
}
OUTAGES: Final = (Kind.ZOOKEEPER_AWAY, Kind.ZOOKEEPER_AWAY_AND_KILL)
AWAY_SECONDS: Final = (20.0, 60.0)
"""How long ZooKeeper is away in a short plan and in a whole one; a session has four seconds."""
PAUSES_SECONDS: Final[dict[Kind, tuple[float, float]]] = {
    Kind.ZOOKEEPER_AWAY: (11.0, 6.0),
    Kind.ZOOKEEPER_AWAY_AND_KILL: (11.0, 17.0),
}
"""What their slots have beyond that, in a short plan and in a whole one."""
LONGEST: Final[dict[Kind, tuple[float, float]]] = {
    Kind.FREEZE_LEADER: (5.0, 6.0),
    Kind.FREEZE_FOLLOWER: (2.0, 6.0),
    Kind.KILL_LEADER: (2.0, 5.0),
    Kind.FREEZE_COORDINATOR: (5.0, 6.0),
    Kind.LATE_END: (5.0, 6.0),
}
"""How long a fault lasts, where it is not the usual. A session has four seconds, and so has a request of a client."""
_USUAL: Final = (3.0, 5.0)
_BETWEEN_OUTAGES: Final = 5
"""Other faults of a short plan between its two outages, if it has room for both."""


class Slot(NamedTuple):
    """One fault: when it begins, in seconds from the first record, how long it lasts, and what chooses its victims."""

    number: int
    at: float
    kind: Kind
    seconds: float
    choice: int


def plan(seed: int, minutes: float = LENGTH_MINUTES) -> list[Slot]:
    """The slots that fit. A whole plan has every fault as often as it should; a shorter one different ones first."""
    chance = random.Random(seed)
    is_whole = minutes >= LENGTH_MINUTES
    kinds = _whole(chance) if is_whole else _different_first(chance, seed)
    before = BEFORE_SECONDS[is_whole]
    chosen = _that_fit(kinds, minutes * 60 - before - AFTER_SECONDS, is_whole=is_whole)
    chance.shuffle(chosen)
    slots, at = [], before
    for number, kind in enumerate(chosen):
        longest = (AWAY_SECONDS[is_whole],) * 2 if kind in OUTAGES else LONGEST.get(kind, _USUAL)
        slots.append(Slot(number, at, kind, chance.uniform(*longest), chance.getrandbits(32)))
        at += room(kind, is_whole=is_whole)
    return slots


def room(kind: Kind, *, is_whole: bool) -> float:
    """Seconds from the beginning of a fault to that of the next one."""
    return AWAY_SECONDS[is_whole] + PAUSES_SECONDS[kind][is_whole] if kind in OUTAGES else SLOT_SECONDS


def _that_fit(kinds: list[Kind], seconds: float, *, is_whole: bool) -> list[Kind]:
    """As many as there is time for, from the first one on and again; one that is too long is left out."""
    chosen = []
    for kind in cycle(kinds):
        if seconds < SLOT_SECONDS:
            break
        if room(kind, is_whole=is_whole) <= seconds:
            chosen.append(kind)
            seconds -= room(kind, is_whole=is_whole)
    return chosen


def _whole(chance: random.Random) -> list[Kind]:
    kinds = [kind for kind, often in OFTEN.items() for _ in range(often)]
    chance.shuffle(kinds)
    return kinds


def _different_first(chance: random.Random, seed: int) -> list[Kind]:
    """Each kind once before any comes again; which come first goes by how often they should.

    An outage comes before all others, with all brokers up in the plans of odd seeds.
    """
    first, second = OUTAGES if seed % 2 else OUTAGES[::-1]
    others = (kind for kind in OFTEN if kind not in OUTAGES)
    once = sorted(others, key=lambda kind: -(chance.random() ** (1 / OFTEN[kind])))
    return [first, *once[:_BETWEEN_OUTAGES], second, *once[_BETWEEN_OUTAGES:], *_whole(chance)]
