"""Who was elected to lead a partition and when, and what each broker had learned of it: which brokers were superseded.

A broker leads until a command names a newer leader epoch. When its session has expired no command reaches it, and
commands may be late. Until then it answers from its own log, which may lack what its successor has committed, as
Apache Kafka's brokers do.
"""

from __future__ import annotations

from typing import NamedTuple

from sordini.protocol.types import BrokerId


class _Election(NamedTuple):
    at: float
    epoch: int
    leader: BrokerId | None


class Leaderships:
    """Those of one partition."""

    def __init__(self) -> None:
        self._elections: list[_Election] = []
        self._begun: dict[BrokerId, list[tuple[float, int]]] = {}

    def elected(self, at: float, epoch: int, leader: BrokerId | None) -> None:
        """The store has a new state."""
        self._elections.append(_Election(at, epoch, leader))

    def begun(self, at: float, broker_id: BrokerId, epoch: int) -> None:
        """A broker became the leader."""
        self._begun.setdefault(broker_id, []).append((at, epoch))

    def is_superseded(self, at: float, broker_id: BrokerId) -> bool:
        """Whether another broker had been elected since the newest leader epoch that this one knew it leads in."""
        known = max((epoch for begun, epoch in self._begun.get(broker_id, ()) if begun <= at), default=-1)
        return any(
            election.at <= at and election.epoch > known and election.leader != broker_id
            for election in self._elections
        )
