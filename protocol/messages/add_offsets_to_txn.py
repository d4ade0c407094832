"""AddOffsetsToTxn: a producer is about to commit offsets of a group inside its transaction (KIP-98).

The coordinator adds the group's partition of __consumer_offsets to the transaction. v2 knows PRODUCER_FENCED, v3 is
flexible, v4 knows TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from sordini.protocol.codecs import message
from sordini.protocol.primitives import Int16, Int32, Int64, String


@message(versions=range(5), flexible=3)
class AddOffsetsToTxnRequest:
    """The producer, and the group whose offsets it commits."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(versions=range(5), flexible=3)
class AddOffsetsToTxnResponse:
    """Whether the group's partition belongs to the transaction now."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
