"""The list of situations of consumer groups and share groups, and the brokers' settings under which each is played."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.compat.consumer_groups.story import Story

Play = Callable[[Story], None]

SETTINGS: dict[str, object] = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 10,
    "group.consumer.max.size": 4,
    "group.min.session.timeout.ms": 100,
    "group.max.size": 4,
    "group.share.min.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.session.timeout.ms": 100,
    "group.share.min.heartbeat.interval.ms": 10,
    "group.share.max.size": 4,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "auto.create.topics.enable": "false",
    "default.replication.factor": 1,
}
"""Nothing depends on time, and the limits of members are soon reached."""

FLAVOURS: dict[str, dict[str, object]] = {
    "": {},
    "disabled": {"group.consumer.migration.policy": "disabled"},
    "upgrade": {"group.consumer.migration.policy": "upgrade"},
    "downgrade": {"group.consumer.migration.policy": "downgrade"},
    "timed": {
        "group.consumer.session.timeout.ms": 6_000,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.share.session.timeout.ms": 6_000,
        "group.share.heartbeat.interval.ms": 500,
    },
    "batched": {"group.consumer.assignment.interval.ms": 10_000},
}
"""What a broker has beside that; those with a name are slow, as each is a broker of its own.

What must not end within a situation is long also on a busy machine: a session is three times as long as any timeout
that a situation waits for, and an interval of assignments is longer than a few requests.
"""

TOPICS = {"foo": 3, "bar": 2}
"""The topics that are there in every situation, with their partitions."""


class Situation(NamedTuple):
    """family: its module and the name of its transcript; flavour: a key of FLAVOURS."""

    family: str
    sentence: str
    play: Play
    flavour: str


SITUATIONS: list[Situation] = []


def situation(sentence: str, *, flavour: str = "") -> Callable[[Play], Play]:
    """Register a function as a situation of its module's family."""

    def register(play: Play) -> Play:
        SITUATIONS.append(Situation(play.__module__.rpartition(".")[2], sentence, play, flavour))
        return play

    return register
