"""Which rule each API has. docs/security.md shows this table, and a test compares it with the APIs that are served."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.requests.fetch_sessions import FetchSessions
from sordini.broker.security.rules.group_rules import (
    FindCoordinatorRule,
    GroupOperationsRule,
    ListGroupsRule,
    OffsetDeleteRule,
    OffsetFetchRule,
)
from sordini.broker.security.rules.record_rules import FetchRule, ProduceRule
from sordini.broker.security.rules.rule import Rule
from sordini.broker.security.rules.simple_rules import (
    Both,
    Choice,
    ClusterOr,
    OnCluster,
    OnGroup,
    OnGroups,
    OnTopics,
    OnTransactionalId,
    OnTransactionalIds,
)
from sordini.broker.security.rules.topic_rules import (
    ClusterOperationsRule,
    ConfigsRule,
    CreateTopicsRule,
    DeleteTopicsRule,
    MetadataRule,
    TopicPagesRule,
)
from sordini.broker.security.rules.transaction_rules import (
    AddPartitionsRule,
    InitProducerIdRule,
    ListTransactionsRule,
    TransactionTopicsRule,
)
from sordini.protocol.api import ApiKey
from sordini.replication.metadata_store.acl_model import AclOperation as Op

BROKERS = OnCluster(Op.CLUSTER_ACTION)
"""Requests that only brokers send. They must also arrive on the brokers' listener."""
OPEN = None
"""Served to every peer that may connect: what comes before or with the login."""


def rules(sessions: FetchSessions) -> Mapping[ApiKey, Rule | None]:
    """The rules of a broker with these fetch sessions."""
    group_read = OnGroup(Op.READ)
    return {
        ApiKey.PRODUCE: ProduceRule(),
        ApiKey.FETCH: FetchRule(sessions),
        ApiKey.LIST_OFFSETS: Choice(
            _is_replica, ClusterOr(Op.CLUSTER_ACTION, OnTopics(Op.DESCRIBE)), OnTopics(Op.DESCRIBE)
        ),
        ApiKey.METADATA: MetadataRule(),
        ApiKey.LEADER_AND_ISR: BROKERS,
        ApiKey.STOP_REPLICA: BROKERS,
        ApiKey.UPDATE_METADATA: BROKERS,
        ApiKey.CONTROLLED_SHUTDOWN: BROKERS,
        ApiKey.OFFSET_COMMIT: Both(group_read, OnTopics(Op.READ)),
        ApiKey.OFFSET_FETCH: OffsetFetchRule(),
        ApiKey.FIND_COORDINATOR: FindCoordinatorRule(),
        ApiKey.JOIN_GROUP: group_read,
        ApiKey.HEARTBEAT: group_read,
        ApiKey.LEAVE_GROUP: group_read,
        ApiKey.SYNC_GROUP: group_read,
        ApiKey.DESCRIBE_GROUPS: Both(OnGroups(Op.DESCRIBE, "groups", "groups"), GroupOperationsRule()),
        ApiKey.LIST_GROUPS: ListGroupsRule(),
        ApiKey.SASL_HANDSHAKE: OPEN,
        ApiKey.API_VERSIONS: OPEN,
        ApiKey.CREATE_TOPICS: CreateTopicsRule(),
        ApiKey.DELETE_TOPICS: DeleteTopicsRule(),
        ApiKey.DELETE_RECORDS: OnTopics(Op.DELETE),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRule(),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: ClusterOr(Op.CLUSTER_ACTION, OnTopics(Op.DESCRIBE)),
        ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsRule(),
        ApiKey.ADD_OFFSETS_TO_TXN: Both(OnTransactionalId(Op.WRITE), group_read),
        ApiKey.END_TXN: OnTransactionalId(Op.WRITE),
        ApiKey.WRITE_TXN_MARKERS: BROKERS,
        ApiKey.TXN_OFFSET_COMMIT: Both(Both(OnTransactionalId(Op.WRITE), group_read), OnTopics(Op.READ)),
        ApiKey.DESCRIBE_ACLS: OnCluster(Op.DESCRIBE),
        ApiKey.CREATE_ACLS: OnCluster(Op.ALTER),
        ApiKey.DELETE_ACLS: OnCluster(Op.ALTER),
        ApiKey.DESCRIBE_CONFIGS: ConfigsRule(Op.DESCRIBE_CONFIGS, "results"),
        ApiKey.ALTER_CONFIGS: ConfigsRule(Op.ALTER_CONFIGS, "responses"),
        ApiKey.ALTER_REPLICA_LOG_DIRS: OnCluster(Op.ALTER),
        ApiKey.DESCRIBE_LOG_DIRS: OnCluster(Op.DESCRIBE),
        ApiKey.SASL_AUTHENTICATE: OPEN,
        ApiKey.CREATE_PARTITIONS: OnTopics(Op.ALTER, rows="results"),
        ApiKey.DELETE_GROUPS: OnGroups(Op.DELETE, "groups_names", "results"),
        ApiKey.ELECT_LEADERS: OnCluster(Op.ALTER),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigsRule(Op.ALTER_CONFIGS, "responses"),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: OnCluster(Op.ALTER),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: OnCluster(Op.DESCRIBE),
        ApiKey.OFFSET_DELETE: OffsetDeleteRule(),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: OnCluster(Op.DESCRIBE_CONFIGS),
        ApiKey.ALTER_CLIENT_QUOTAS: OnCluster(Op.ALTER_CONFIGS),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: OnCluster(Op.DESCRIBE),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: OnCluster(Op.ALTER),
        ApiKey.ALTER_PARTITION: BROKERS,
        ApiKey.DESCRIBE_CLUSTER: ClusterOperationsRule(),
        ApiKey.DESCRIBE_PRODUCERS: OnTopics(Op.READ),
        ApiKey.DESCRIBE_TRANSACTIONS: Both(
            OnTransactionalIds(Op.DESCRIBE, "transactional_ids", "transaction_states"), TransactionTopicsRule()
        ),
        ApiKey.LIST_TRANSACTIONS: ListTransactionsRule(),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: group_read,
        ApiKey.ALLOCATE_PRODUCER_IDS: BROKERS,
        ApiKey.LIST_CONFIG_RESOURCES: OnCluster(Op.DESCRIBE_CONFIGS),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: TopicPagesRule(),
        ApiKey.DESCRIBE_GROUP_HISTORY: OnGroup(Op.DESCRIBE),
    }


def _is_replica(request: object) -> bool:
    replica_id: int = getattr(request, "replica_id", -1)
    return replica_id >= 0
