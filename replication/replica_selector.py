"""Which copy a consumer should rather read from than the leader's (KIP-392).

Pure. The leader chooses among the copies in the consumer's rack: itself if it stands there, else the one that has come
furthest and, of several, the one that was caught up last. Only who is in sync is chosen, and who has the offset: a copy
that lags would be chosen again and again, and its reader fall behind with it.
"""

from __future__ import annotations

from collections.abc import Collection

from sordini.protocol.types import BrokerId
from sordini.replication.leader import Leader


def preferred_read_replica(leader: Leader, fetch_offset: int, near: Collection[BrokerId]) -> BrokerId | None:
    """Where to read on from `fetch_offset`; None for the leader. `near` are the living brokers in the reader's rack."""
    if leader.broker_id in near:
        return None
    holding = [
        (replica.end_offset, replica.caught_up_ms, broker_id)
        for broker_id, replica in leader.replicas.items()
        if broker_id in near and broker_id in leader.isr and replica.start_offset <= fetch_offset <= replica.end_offset
    ]
    return max(holding)[2] if holding else None
