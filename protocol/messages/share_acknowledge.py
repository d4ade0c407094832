"""ShareAcknowledge: acknowledge records of a share group without fetching others (KIP-932).

v0 was another protocol, of Apache Kafka 4.0's early access, and is not served. v2 renews locks (KIP-1222).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.messages.common import NO_LEADER, AcknowledgementBatch, NodeEndpoint, SharePartitionLeader
from sordini.protocol.primitives import ZERO_UUID, Array, Bool, Int16, Int32, NullableString, Uuid


@message(versions=range(1, 3), flexible=0)
class ShareAcknowledgeRequest:
    """Acknowledgements of what the session holds."""

    group_id: NullableString = None
    member_id: NullableString = ""
    share_session_epoch: Int32 = 0  # -1: close the session; else incremented by each request.
    is_renew_ack: Bool = since(2, default=False)  # Locks are renewed.
    topics: Array[AcknowledgeTopic] = EMPTY


@struct
class AcknowledgeTopic:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[AcknowledgePartition] = EMPTY


@struct
class AcknowledgePartition:
    """One partition."""

    partition_index: Int32 = 0
    acknowledgement_batches: Array[AcknowledgementBatch] = EMPTY


@message(versions=range(1, 3), flexible=0)
class ShareAcknowledgeResponse:
    """What became of them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0)  # For how long renewed records are locked.
    responses: Array[ShareAcknowledgeTopicResponse] = EMPTY
    node_endpoints: Array[NodeEndpoint] = EMPTY


@struct
class ShareAcknowledgeTopicResponse:
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: Array[PartitionData] = EMPTY


@struct
class PartitionData:
    """One partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: SharePartitionLeader = NO_LEADER
