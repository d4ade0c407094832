"""Who was elected to lead a partition and when, and what each broker had learned of it: which leaders were superseded.

A broker leads until a command names a newer leader epoch. When its session has expired no command reaches it, and
commands may be late. Until then it answers from its own log, which may lack what its successor has committed, as
Apache Kafka's brokers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sordini.broker.coordinators.partitioning import partition_for
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.transactions.history import OFFSETS, STATE_TOPIC

STATE_PARTITIONS = 2


class _Election(NamedTuple):
    at: float
    epoch: int
    leader: BrokerId | None


class _Role(NamedTuple):
    """What a broker learned."""

    at: float
    epoch: int
    is_leader: bool


class Leaderships:
    """Those of one partition."""

    def __init__(self) -> None:
        self._elections: list[_Election] = []
        self._roles: dict[BrokerId, list[_Role]] = {}

    def elected(self, at: float, epoch: int, leader: BrokerId | None) -> None:
        """The store has a new state."""
        self._elections.append(_Election(at, epoch, leader))

    def learned(self, at: float, broker_id: BrokerId, epoch: int, *, is_leader: bool) -> None:
        """A broker became the leader or a follower."""
        self._roles.setdefault(broker_id, []).append(_Role(at, epoch, is_leader))

    def started(self, at: float, broker_id: BrokerId) -> None:
        """A broker's process starts, and knows of no leader."""
        self._roles[broker_id] = [*self._roles.get(broker_id, ()), _Role(at, -1, is_leader=False)]

    def is_superseded(self, at: float, broker_id: BrokerId) -> bool:
        """Whether another broker had been elected in a newer leader epoch than this one knew."""
        known = max((role.epoch for role in self._roles.get(broker_id, ()) if role.at <= at), default=-1)
        return self._has_successor(broker_id, known, at)

    def had_superseded(self, start: float, end: float) -> bool:
        """Whether any broker led at some time between although another had been elected."""
        for broker_id, roles in self._roles.items():
            ends = [role.at for role in roles[1:]] + [end]
            for role, until in zip(roles, ends, strict=True):
                overlaps = role.at <= end and until >= start
                if role.is_leader and overlaps and self._has_successor(broker_id, role.epoch, end):
                    return True
        return False

    def _has_successor(self, broker_id: BrokerId, epoch: int, at: float) -> bool:
        return any(
            election.at <= at and election.epoch > epoch and election.leader != broker_id
            for election in self._elections
        )


class Coordinators:
    """The leaderships of the coordinators' partitions."""

    def __init__(self, leaderships: Mapping[TopicPartition, Leaderships], brokers: Mapping[Address, BrokerId]) -> None:
        self._leaderships = leaderships
        self._brokers = brokers

    def is_superseded(self, at: float, address: Address) -> bool:
        """Whether a broker did not know at a time that another one coordinates the groups."""
        return self._leaderships[OFFSETS].is_superseded(at, self._brokers[address])

    def had_superseded_groups(self, start: float, end: float) -> bool:
        """Whether the groups had a coordinator between that did not know that there was another."""
        return self._leaderships[OFFSETS].had_superseded(start, end)

    def had_superseded(self, transactional_id: str, start: float, end: float) -> bool:
        """Whether a transactional id had a coordinator between that did not know that there was another."""
        partition = TopicPartition(STATE_TOPIC, partition_for(transactional_id, STATE_PARTITIONS))
        return self._leaderships[partition].had_superseded(start, end)
