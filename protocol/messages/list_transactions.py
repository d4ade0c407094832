"""ListTransactions: the transactional ids that a broker coordinates (KIP-664).

v1 filters by the time a transaction has been open (KIP-994), v2 by a regular expression for the id (KIP-1152).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int16, Int32, Int64, NullableString, String


@message(versions=range(3), flexible=0)
class ListTransactionsRequest:
    """Which ids; a filter without values lets all through."""

    state_filters: Array[String] = EMPTY
    producer_id_filters: Array[Int64] = EMPTY
    duration_filter: Int64 = since(1, default=-1)  # In ms; -1: no filter.
    transactional_id_pattern: NullableString = since(2, nullable=2, default=None)


@message(versions=range(3), flexible=0)
class ListTransactionsResponse:
    """The ids, and those states of the filter that do not exist."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = EMPTY
    transaction_states: Array[TransactionState] = EMPTY


@struct
class TransactionState:
    """One transactional id."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""
