"""InitProducerId: get an id under which batches are numbered, so that none is appended twice (KIP-98).

v2 is flexible; v3 lets a producer raise its own epoch (KIP-360); v4 knows PRODUCER_FENCED; v6 serves
two-phase commit (KIP-939).
"""

from __future__ import annotations

from sordini.protocol.codecs import message, since
from sordini.protocol.primitives import Bool, Int16, Int32, Int64, NullableString


@message(versions=range(7), flexible=2)
class InitProducerIdRequest:
    """Who wants an id."""

    transactional_id: NullableString = ""  # None: idempotent only.
    transaction_timeout_ms: Int32 = 0  # An open transaction older than this is aborted.
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable_2pc: Bool = since(6, default=False)
    keep_prepared_txn: Bool = since(6, default=False)


@message(versions=range(7), flexible=2)
class InitProducerIdResponse:
    """The id, and the epoch that fences earlier producers of this id."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
