"""The replica that a consumer should read from instead of the leader (KIP-392). Pure.

The leader chooses among the in-sync replicas in the consumer's rack that have the fetch offset: itself if it is one,
else the one with the highest log end offset and, of equal ones, the one that was caught up last. A replica that is not
in sync is never chosen: its consumers would fall behind with it.
"""

from __future__ import annotations

from collections.abc import Collection

from sordini.protocol.types import BrokerId
from sordini.replication.leader import Leader


def preferred_read_replica(leader: Leader, fetch_offset: int, same_rack: Collection[BrokerId]) -> BrokerId | None:
    """The broker to fetch from; None for the leader. `same_rack`: the live brokers in the client's rack."""
    if leader.broker_id in same_rack:
        return None
    candidates = [
        (replica.end_offset, replica.caught_up_ms, broker_id)
        for broker_id, replica in leader.replicas.items()
        if broker_id in same_rack
        and broker_id in leader.isr
        and replica.start_offset <= fetch_offset <= replica.end_offset
    ]
    return max(candidates)[2] if candidates else None
