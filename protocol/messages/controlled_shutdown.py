"""ControlledShutdown: a stopping broker requests the controller to move its leaderships (ZooKeeper clusters).

In v0 the request's header has no client id; v2 carries the sender's broker epoch (KIP-380); v3 is flexible.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, String


@message(versions=range(4), flexible=3)
class ControlledShutdownRequest:
    """Who is about to stop."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = since(2, default=-1)


@message(versions=range(4), flexible=3)
class ControlledShutdownResponse:
    """What the sender still leads."""

    error_code: Int16 = 0
    remaining_partitions: Array[RemainingPartition] = EMPTY


@struct
class RemainingPartition:
    """A partition that no other broker could lead."""

    topic_name: String = ""
    partition_index: Int32 = 0
