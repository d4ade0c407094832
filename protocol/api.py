"""The API keys of the protocol, and the versions that this broker serves.

`APIS` is the one list of Kafka's: the response to ApiVersions and the table of docs/apis.md follow it. `OWN_APIS` are
requests of Sordini's commands that Kafka has no request for; only clients that name themselves `sordini` learn of them.
Served are the versions from the oldest that Apache Kafka 3.9 accepts to the newest of 4.4, and each message is declared
for them. Requests between brokers of a ZooKeeper cluster end with 3.9, the last release with ZooKeeper.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

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
from sordini.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from sordini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
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
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from sordini.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from sordini.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from sordini.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from sordini.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from sordini.protocol.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
)
from sordini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from sordini.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from sordini.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from sordini.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from sordini.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from sordini.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from sordini.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sordini.protocol.messages.fetch import FetchRequest, FetchResponse
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from sordini.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
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
from sordini.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from sordini.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from sordini.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from sordini.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from sordini.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from sordini.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse


class ApiKey(IntEnum):
    """The API keys of all requests up to Apache Kafka 4.4, and from 32200 on those of Sordini alone."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    DESCRIBE_GROUP_HISTORY = 32200


FIRST_OWN_KEY: Final = 32200
"""The first key of Sordini's own requests (`OWN_APIS`)."""


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
        _served(ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest, AllocateProducerIdsResponse),
        _served(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest, ListConfigResourcesResponse),
        _served(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
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
    }
)
"""Requests that no client sends: they are served on the inter-broker listener only."""

OWN_APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (_served(ApiKey.DESCRIBE_GROUP_HISTORY, DescribeGroupHistoryRequest, DescribeGroupHistoryResponse),)
}
"""Requests of Sordini's own commands, 32200 to 32255: Kafka numbers its own from 0, other vendors theirs from 500. The
lower byte of each key is of no other key (`broker/metrics/latency.py`)."""

ALL_APIS: Final[dict[int, Api]] = {**APIS, **OWN_APIS}
"""All that can be decoded and dispatched."""
