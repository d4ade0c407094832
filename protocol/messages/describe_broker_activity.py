"""DescribeBrokerActivity: what a broker does, and what it did to its logs lately. Sordini's own request.

Apache Kafka has no such request. Each broker knows of itself only. Times are in milliseconds: `*_at_ms` since the epoch
by the broker's clock, others durations; -1 is unknown. The kinds of events are those of
`broker/administration/activity/event_log.py`; a client shows those it does not know as numbers.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, Int64, NullableString, String


@message(versions=range(1), flexible=0)
class DescribeBrokerActivityRequest:
    """Which of its events."""

    events_since_ms: Int64 = -1  # Those that ended then or later; -1 for all that are kept.
    events_max: Int32 = -1  # The newest so many; -1 for all, 0 for none.


@message(versions=range(1), flexible=0)
class DescribeBrokerActivityResponse:
    """The broker now, and its events, oldest first."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    broker_id: Int32 = -1
    version: String = ""  # Of Sordini.
    now_ms: Int64 = -1
    uptime_ms: Int64 = -1  # Since the broker was ready.
    cpu_ms: Int32 = 0  # CPU time of the event loop's thread within the window.
    cpu_window_ms: Int32 = 0  # Up to a minute; 0 while it is not known.
    listeners: Array[ListenerConnections] = EMPTY
    events_remembered_max: Int32 = 0
    events: Array[BrokerEventRow] = EMPTY


@struct
class ListenerConnections:
    """One listener."""

    name: String = ""
    connections: Int32 = 0  # Open now.


@struct
class BrokerEventRow:
    """One event, or many of a kind in one topic within a minute."""

    kind: Int8 = 0
    began_at_ms: Int64 = -1
    ended_at_ms: Int64 = -1
    topic: NullableString = None  # Null for an event that is no topic's.
    partitions: Int32 = 0
    segments: Int32 = 0  # Deleted, or written anew.
    bytes_removed: Int64 = 0
