"""WriteTxnMarkers: a transaction coordinator sends a leader the end of a transaction (KIP-98).

v1 is flexible. From v2 on each marker has the transaction.version of its producer (KIP-890 part 2).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, Int64, MarkerInt32, String


@message(versions=range(3), flexible=1)
class WriteTxnMarkersRequest:
    """The markers to be written."""

    markers: Array[WritableTxnMarker] = EMPTY


@struct
class WritableTxnMarker:
    """How one producer's transaction ended, in some of its partitions."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False  # True: committed, False: aborted.
    topics: Array[WritableTxnMarkerTopic] = EMPTY
    coordinator_epoch: Int32 = 0  # The leader epoch of the coordinator's partition of __transaction_state.
    transaction_version: Int8 = since(2, default=0)  # 2: the epoch is higher than that of the transaction's records.


@struct
class WritableTxnMarkerTopic:
    """The partitions of one topic."""

    name: String = ""
    partition_indexes: Array[MarkerInt32] = EMPTY


@message(versions=range(3), flexible=1)
class WriteTxnMarkersResponse:
    """The results of all markers in each partition."""

    markers: Array[WritableTxnMarkerResult] = EMPTY


@struct
class WritableTxnMarkerResult:
    """One producer's partitions."""

    producer_id: Int64 = 0
    topics: Array[WritableTxnMarkerTopicResult] = EMPTY


@struct
class WritableTxnMarkerTopicResult:
    """The partitions of one topic."""

    name: String = ""
    partitions: Array[WritableTxnMarkerPartitionResult] = EMPTY


@struct
class WritableTxnMarkerPartitionResult:
    """One partition's error code; 0 is success."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
