"""EndTxn: a producer commits or aborts its transaction (KIP-98).

v2 knows PRODUCER_FENCED, v3 is flexible, v4 knows TRANSACTION_ABORTABLE. From v5 on the producer's epoch is raised with
each transaction, and the response has the id and epoch for the next one (KIP-890).
"""

from __future__ import annotations

from sordini.protocol.codecs import message, since
from sordini.protocol.primitives import Bool, Int16, Int32, Int64, String


@message(versions=range(6), flexible=3)
class EndTxnRequest:
    """The producer, and the end of its transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False  # False: aborted.


@message(versions=range(6), flexible=3)
class EndTxnResponse:
    """Whether the end is decided; the markers are written afterwards."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1)
    producer_epoch: Int16 = since(5, default=-1)
