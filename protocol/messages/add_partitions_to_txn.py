"""AddPartitionsToTxn: a producer tells its transaction coordinator which partitions it is about to write to (KIP-98).

Up to v3 the request is of one producer and has one transaction. From v4 on it has several, and brokers send it: with
`verify_only` the coordinator adds nothing and answers whether the partitions belong to the ongoing transaction
(KIP-890). v2 knows PRODUCER_FENCED, v3 is flexible, v5 knows TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct, until
from sordini.protocol.primitives import Array, Bool, Int16, Int32, Int64, RowInt32, String


@message(versions=range(6), flexible=3)
class AddPartitionsToTxnRequest:
    """The transactions and their partitions; the fields of the one transaction up to v3."""

    transactions: Array[AddPartitionsToTxnTransaction] = since(4, default=EMPTY)
    v3_and_below_transactional_id: String = until(3, default="")
    v3_and_below_producer_id: Int64 = until(3, default=0)
    v3_and_below_producer_epoch: Int16 = until(3, default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = until(3, default=EMPTY)


@struct
class AddPartitionsToTxnTransaction:
    """One transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic] = EMPTY


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String = ""
    partitions: Array[RowInt32] = EMPTY


@message(versions=range(6), flexible=3)
class AddPartitionsToTxnResponse:
    """The result for each partition: by transaction from v4 on, of the one transaction before."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0)
    results_by_transaction: Array[AddPartitionsToTxnResult] = since(4, default=EMPTY)
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = until(3, default=EMPTY)


@struct
class AddPartitionsToTxnResult:
    """One transaction's partitions."""

    transactional_id: String = ""
    topic_results: Array[AddPartitionsToTxnTopicResult] = EMPTY


@struct
class AddPartitionsToTxnTopicResult:
    """Partitions of one topic."""

    name: String = ""
    results_by_partition: Array[AddPartitionsToTxnPartitionResult] = EMPTY


@struct
class AddPartitionsToTxnPartitionResult:
    """One partition's error code; 0: it belongs to the transaction."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0
