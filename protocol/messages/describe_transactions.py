"""DescribeTransactions: the state of transactional ids, as their coordinator has it (KIP-664)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, String


@message(versions=range(1), flexible=0)
class DescribeTransactionsRequest:
    """The requested ids."""

    transactional_ids: Array[String] = EMPTY


@message(versions=range(1), flexible=0)
class DescribeTransactionsResponse:
    """The state of each id."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState] = EMPTY


@struct
class TransactionState:
    """One transactional id, or an error."""

    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[TopicData] = EMPTY  # Once the end is decided, only partitions without a marker.


@struct
class TopicData:
    """Partitions of one topic that belong to the ongoing transaction."""

    topic: String = ""
    partitions: Array[Int32] = EMPTY
