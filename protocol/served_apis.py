"""The APIs and their versions that this broker serves, with the messages of each.

`APIS` is the one list of Kafka's: the response to ApiVersions and the table of docs/apis.md follow it. `OWN_APIS` are
requests of Sordini's commands that Kafka has no request for; only clients that name themselves `sordini` learn of them.
Served are the versions from the oldest that Apache Kafka 3.9 accepts to the newest of 4.4, and each message is declared
for them. Requests between brokers of a ZooKeeper cluster end with 3.9, the last release with ZooKeeper. Not served are
delegation tokens, the requests of KRaft's quorum, and streams groups.
"""

from __future__ import annotations

from typing import Any, Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import flexible_from, versions_of
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from sordini.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from sordini.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from sordini.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from sordini.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from sordini.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from sordini.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from sordini.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from sordini.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from sordini.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from sordini.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sordini.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from sordini.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from sordini.protocol.messages.describe_broker_activity import (
    DescribeBrokerActivityRequest,
    DescribeBrokerActivityResponse,
)
from sordini.protocol.messages.describe_client_instances import (
    DescribeClientInstancesRequest,
    DescribeClientInstancesResponse,
)
from sordini.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from sordini.protocol.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
)
from sordini.protocol.messages.describe_group_progress import (
    DescribeGroupProgressRequest,
    DescribeGroupProgressResponse,
)
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sordini.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from sordini.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from sordini.protocol.messages.describe_segments import DescribeSegmentsRequest, DescribeSegmentsResponse
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sordini.protocol.messages.describe_share_in_flight import (
    DescribeShareInFlightRequest,
    DescribeShareInFlightResponse,
)
from sordini.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from sordini.protocol.messages.describe_unread_records import (
    DescribeUnreadRecordsRequest,
    DescribeUnreadRecordsResponse,
)
from sordini.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from sordini.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from sordini.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sordini.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from sordini.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from sordini.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from sordini.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from sordini.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from sordini.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from sordini.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from sordini.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from sordini.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from sordini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from sordini.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from sordini.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from sordini.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from sordini.protocol.messages.produce import ProduceRequest, ProduceResponse
from sordini.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from sordini.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from sordini.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sordini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from sordini.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sordini.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from sordini.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from sordini.protocol.messages.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from sordini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from sordini.system.named_tuple import NamedTuple


class Api(NamedTuple):
    """One kind of request: its messages, and the versions served (both ends included)."""

    key: ApiKey
    request: type[Any]
    response: type[Any]
    min_version: int
    max_version: int
    flexible_from: int


def _served(key: ApiKey, request: type, response: type) -> Api:
    versions = versions_of(request)
    assert versions == versions_of(response)
    assert flexible_from(request) == flexible_from(response)
    return Api(key, request, response, versions[0], versions[-1], flexible_from(request))


APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _served(ApiKey.PRODUCE, ProduceRequest, ProduceResponse),
        _served(ApiKey.FETCH, FetchRequest, FetchResponse),
        _served(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse),
        _served(ApiKey.METADATA, MetadataRequest, MetadataResponse),
        _served(ApiKey.LEADER_AND_ISR, LeaderAndIsrRequest, LeaderAndIsrResponse),
        _served(ApiKey.STOP_REPLICA, StopReplicaRequest, StopReplicaResponse),
        _served(ApiKey.UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse),
        _served(ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownRequest, ControlledShutdownResponse),
        _served(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse),
        _served(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse),
        _served(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse),
        _served(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse),
        _served(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse),
        _served(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse),
        _served(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse),
        _served(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse),
        _served(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse),
        _served(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse),
        _served(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse),
        _served(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse),
        _served(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse),
        _served(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse),
        _served(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse),
        _served(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        _served(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _served(ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _served(ApiKey.END_TXN, EndTxnRequest, EndTxnResponse),
        _served(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        _served(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _served(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse),
        _served(ApiKey.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse),
        _served(ApiKey.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse),
        _served(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse),
        _served(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse),
        _served(ApiKey.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
        _served(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse),
        _served(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse),
        _served(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse),
        _served(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse),
        _served(ApiKey.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse),
        _served(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        _served(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsRequest,
            AlterPartitionReassignmentsResponse,
        ),
        _served(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
        ),
        _served(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse),
        _served(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        _served(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest, AlterClientQuotasResponse),
        _served(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            DescribeUserScramCredentialsRequest,
            DescribeUserScramCredentialsResponse,
        ),
        _served(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
        ),
        _served(ApiKey.ALTER_PARTITION, AlterPartitionRequest, AlterPartitionResponse),
        _served(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse),
        _served(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, DescribeProducersResponse),
        _served(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, DescribeTransactionsResponse),
        _served(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest, ListTransactionsResponse),
        _served(ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        _served(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        _served(ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest, AllocateProducerIdsResponse),
        _served(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
        ),
        _served(ApiKey.PUSH_TELEMETRY, PushTelemetryRequest, PushTelemetryResponse),
        _served(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest, ListConfigResourcesResponse),
        _served(ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        _served(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        _served(ApiKey.SHARE_FETCH, ShareFetchRequest, ShareFetchResponse),
        _served(ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest, ShareAcknowledgeResponse),
        _served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
        _served(
            ApiKey.INITIALIZE_SHARE_GROUP_STATE, InitializeShareGroupStateRequest, InitializeShareGroupStateResponse
        ),
        _served(ApiKey.READ_SHARE_GROUP_STATE, ReadShareGroupStateRequest, ReadShareGroupStateResponse),
        _served(ApiKey.WRITE_SHARE_GROUP_STATE, WriteShareGroupStateRequest, WriteShareGroupStateResponse),
        _served(ApiKey.DELETE_SHARE_GROUP_STATE, DeleteShareGroupStateRequest, DeleteShareGroupStateResponse),
        _served(
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse
        ),
        _served(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
        ),
        _served(ApiKey.ALTER_SHARE_GROUP_OFFSETS, AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
        _served(ApiKey.DELETE_SHARE_GROUP_OFFSETS, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
    )
}

INTER_BROKER_APIS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)
"""Requests that no client sends: they are served on the inter-broker listener only."""

TELEMETRY_APIS: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Served, and named in ApiVersions, only while client telemetry is on: clients do not push otherwise (KIP-714)."""

OWN_APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _served(ApiKey.DESCRIBE_GROUP_HISTORY, DescribeGroupHistoryRequest, DescribeGroupHistoryResponse),
        _served(ApiKey.DESCRIBE_CLIENT_INSTANCES, DescribeClientInstancesRequest, DescribeClientInstancesResponse),
        _served(ApiKey.DESCRIBE_GROUP_PROGRESS, DescribeGroupProgressRequest, DescribeGroupProgressResponse),
        _served(ApiKey.DESCRIBE_UNREAD_RECORDS, DescribeUnreadRecordsRequest, DescribeUnreadRecordsResponse),
        _served(ApiKey.DESCRIBE_BROKER_ACTIVITY, DescribeBrokerActivityRequest, DescribeBrokerActivityResponse),
        _served(ApiKey.DESCRIBE_SEGMENTS, DescribeSegmentsRequest, DescribeSegmentsResponse),
        _served(ApiKey.DESCRIBE_SHARE_IN_FLIGHT, DescribeShareInFlightRequest, DescribeShareInFlightResponse),
    )
}
"""Requests of Sordini's own commands, 32200 to 32255: Kafka numbers its own from 0, other vendors theirs from 500. The
lower byte of each key is of no other key (`broker/metrics/latency.py`)."""

ALL_APIS: Final[dict[int, Api]] = {**APIS, **OWN_APIS}
"""All that can be decoded and dispatched."""
