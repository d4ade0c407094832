"""AllocateProducerIds: a broker requests a block of producer ids from the controller (KIP-730)."""

from __future__ import annotations

from sordini.protocol.codecs import message
from sordini.protocol.primitives import Int16, Int32, Int64


@message(versions=range(1), flexible=0)
class AllocateProducerIdsRequest:
    """The requesting broker."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@message(versions=range(1), flexible=0)
class AllocateProducerIdsResponse:
    """The block; no other broker gets any of its ids."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
