"""What a broker reports of its own activity: uptime, CPU time of its event loop, connections, and its last events.

Only a Sordini knows the request: of other brokers, and where the principal may not describe the cluster, nothing is
known.
"""

from __future__ import annotations

from typing import Final

from sordini.client.cluster import Link
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_broker_activity import (
    BrokerEventRow,
    DescribeBrokerActivityRequest,
    DescribeBrokerActivityResponse,
)
from sordini.system.named_tuple import NamedTuple

STARTED, SEGMENTS_DELETED, COMPACTED, UNCLEANABLE = 1, 2, 3, 4
"""Kinds of events (`EventKind` of the broker)."""
CPU_WINDOW_MS_MIN: Final = 1_000
"""Of a shorter window a share says nothing."""


class BrokerActivity(NamedTuple):
    """One broker."""

    version: str
    """Of Sordini."""
    uptime_ms: int
    cpu_share: float | None
    """CPU time of the event loop's thread over the last minute: 1 is one core; None while it is not known."""
    connections: int
    """Open now, over all listeners."""
    listeners: dict[str, int]
    events: list[BrokerEventRow]
    """Oldest first."""


async def read_activity(link: Link, *, since_ms: int = -1, events_max: int = -1) -> BrokerActivity | None:
    """None where the broker does not report it. Raises ClientError."""
    if not link.serves(ApiKey.DESCRIBE_BROKER_ACTIVITY):
        return None
    request = DescribeBrokerActivityRequest(events_since_ms=since_ms, events_max=events_max)
    answer: DescribeBrokerActivityResponse = await link.ask(request)
    if answer.error_code != ErrorCode.NONE:
        return None
    is_known = answer.cpu_window_ms >= CPU_WINDOW_MS_MIN
    return BrokerActivity(
        answer.version,
        answer.uptime_ms,
        answer.cpu_ms / answer.cpu_window_ms if is_known else None,
        sum(row.connections for row in answer.listeners),
        {row.name: row.connections for row in answer.listeners},
        answer.events,
    )
