"""What a partition's leader knows of its copies: who is in sync, how far each has come, and the high watermark.

Pure: no clock, no network, no log. On the hot path, hence a mutable object whose methods say what changed.

Invariants, held after every call:
  - the high watermark never moves back while this leader leads;
  - high_watermark <= the end offset of every in-sync replica;
  - the leader itself is in the in-sync set.
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset


class Leader:
    """One term of leading one partition (document 000, "HW & LEO")."""

    __slots__ = ("_ends", "broker_id", "high_watermark", "leader_epoch")

    def __init__(
        self,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        in_sync_replicas: Iterable[BrokerId],
        *,
        high_watermark: Offset,
        log_end_offset: Offset,
    ) -> None:
        """Begin a term; what other replicas hold is unknown until they fetch, so they hold the watermark down."""
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self._ends: dict[BrokerId, Offset] = dict.fromkeys(in_sync_replicas, Offset(0))
        assert broker_id in self._ends, f"leader {broker_id} is not in its in-sync set"
        self._ends[broker_id] = log_end_offset
        self.high_watermark = Offset(min(high_watermark, log_end_offset))
        self._advance()

    @property
    def in_sync_replicas(self) -> list[BrokerId]:
        """The brokers whose copies hold the watermark."""
        return list(self._ends)

    def appended(self, log_end_offset: Offset) -> bool:
        """The leader's own log grew; says whether the high watermark moved."""
        ends = self._ends
        ends[self.broker_id] = log_end_offset
        if len(ends) > 1:
            return self._advance()
        # Alone in sync, its own log decides: the way of every append on one broker.
        if log_end_offset <= self.high_watermark:
            return False
        self.high_watermark = log_end_offset
        return True

    def _advance(self) -> bool:
        lowest = min(self._ends.values())
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True
