"""Which fault comes when: a seed's plan. The same seed and length give the same plan.

quiet | slot: the fault, its heal, a pause | slot | ... | quiet, then everything is read and judged
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Final, NamedTuple

SLOT_SECONDS: Final = 11.0
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
    KILL_FOLLOWER = "kill a follower"


OFTEN: Final[dict[Kind, int]] = {
    Kind.KILL_LEADER: 8,
    Kind.KILL_CONTROLLER: 4,
    Kind.KILL_TWO: 3,
    Kind.KILL_ALL: 1,
    Kind.FREEZE_LEADER: 4,
    Kind.FREEZE_FOLLOWER: 3,
    Kind.LEADER_FROM_PEERS: 5,
    Kind.LEADER_FROM_ZOOKEEPER: 4,
    Kind.ONE_WAY: 3,
    Kind.LEADER_FROM_CLIENTS: 2,
    Kind.BAD_LINK: 3,
    Kind.ELECTION: 2,
    Kind.BAD_DISK: 2,
    Kind.TORN: 2,
    Kind.CLOCK: 1,
    Kind.KILL_FOLLOWER: 1,  # In the place of a client killed in a transaction, while there are no transactions.
}
LONGEST: Final[dict[Kind, tuple[float, float]]] = {
    Kind.FREEZE_LEADER: (5.0, 6.0),
    Kind.FREEZE_FOLLOWER: (2.0, 6.0),
    Kind.KILL_LEADER: (2.0, 5.0),
}
"""How long a fault lasts, where it is not the usual."""
_USUAL: Final = (3.0, 5.0)


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
    before = BEFORE_SECONDS[minutes >= LENGTH_MINUTES]
    count = int((minutes * 60 - before - AFTER_SECONDS) / SLOT_SECONDS + 1e-9)
    kinds = _whole(chance) if minutes >= LENGTH_MINUTES else _different_first(chance)
    kinds = [kinds[index % len(kinds)] for index in range(count)]
    chance.shuffle(kinds)
    return [
        Slot(
            number,
            before + number * SLOT_SECONDS,
            kind,
            chance.uniform(*LONGEST.get(kind, _USUAL)),
            chance.getrandbits(32),
        )
        for number, kind in enumerate(kinds)
    ]


def _whole(chance: random.Random) -> list[Kind]:
    kinds = [kind for kind, often in OFTEN.items() for _ in range(often)]
    chance.shuffle(kinds)
    return kinds


def _different_first(chance: random.Random) -> list[Kind]:
    """Each kind once before any comes again; which come first goes by how often they should."""
    once = sorted(OFTEN, key=lambda kind: -(chance.random() ** (1 / OFTEN[kind])))
    return once + _whole(chance)
