"""Requests that need permission: what each asks, and of which entries Apache Kafka's documentation says that it needs.

A question is about names of its own: `{t}` a topic that exists, `{n}` one that does not, `{g}` a group, `{x}` a
transactional id. Each is asked in several variants (`VARIANTS`), which say what entries there are then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.compat.situations.batches import batch

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
THE_CLUSTER = "kafka-cluster"


class Names(NamedTuple):
    """Of one question in one variant."""

    t: str
    n: str
    g: str
    x: str


class Need(NamedTuple):
    """An operation on one of the names."""

    kind: int
    which: str
    operation: int

    def name(self, names: Names) -> str:
        found: str = THE_CLUSTER if self.kind == CLUSTER else getattr(names, self.which)
        return found


class Question(NamedTuple):
    """One request."""

    title: str
    api: str
    version: int
    needs: tuple[Need, ...]
    fields: Callable[[Names], dict[str, Any]]
    has_topic: bool = False
    is_brokers: bool = False
    """What follows permission would disturb the cluster, so no principal gets it."""


def topic(which: str, operation: int) -> Need:
    return Need(TOPIC, which, operation)


def group(operation: int) -> Need:
    return Need(GROUP, "g", operation)


def cluster(operation: int) -> Need:
    return Need(CLUSTER, "", operation)


def transactional(operation: int) -> Need:
    return Need(TRANSACTIONAL_ID, "x", operation)


def _records() -> bytes:
    return batch()


_PARTITION_OF = {"partition_index": 0}
NO_PRODUCER = {"producer_id": 4711, "producer_epoch": 0}


def _brokers(title: str, version: int, **fields: Any) -> Question:
    return Question(title, title, version, (cluster(CLUSTER_ACTION),), lambda _: fields, is_brokers=True)


def _replica_fetch(n: Names) -> dict[str, Any]:
    return {"replica_id": 0, "max_wait_ms": 0, "topics": [{"topic": n.t, "partitions": [{"partition": 0}]}]}


def _offsets_as(replica_id: int) -> Callable[[Names], dict[str, Any]]:
    row = {"partition_index": 0, "timestamp": -1}
    return lambda n: {"replica_id": replica_id, "topics": [{"name": n.t, "partitions": [row]}]}


def _epoch_as(replica_id: int) -> Callable[[Names], dict[str, Any]]:
    row = {"partition": 0, "leader_epoch": 0}
    return lambda n: {"replica_id": replica_id, "topics": [{"topic": n.t, "partitions": [row]}]}


def _debugging_fetch(n: Names) -> dict[str, Any]:
    row = {"partition": 0, "partition_max_bytes": 1000}
    return {
        "replica_id": DEBUGGING,
        "max_wait_ms": 0,
        "session_epoch": -1,
        "topics": [{"topic": n.t, "partitions": [row]}],
    }


A_REPLICA, DEBUGGING = 0, -2
"""What clients say of themselves that are no consumers: a broker's id, and kafka-replica-verification's id."""

QUESTIONS = [
    Question(
        "Produce",
        "Produce",
        9,
        (topic("t", WRITE),),
        lambda n: {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": n.t, "partition_data": [{"index": 0, "records": _records()}]}],
        },
        has_topic=True,
    ),
    Question(
        "Produce to a topic that is not there",
        "Produce",
        9,
        (topic("n", WRITE),),
        lambda n: {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": n.n, "partition_data": [{"index": 0, "records": _records()}]}],
        },
    ),
    Question(
        "Fetch",
        "Fetch",
        12,
        (topic("t", READ),),
        lambda n: {
            "replica_id": -1,
            "max_wait_ms": 0,
            "session_epoch": -1,
            "topics": [{"topic": n.t, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
        },
        has_topic=True,
    ),
    Question(
        "Fetch of a topic that is not there",
        "Fetch",
        12,
        (topic("n", READ),),
        lambda n: {
            "replica_id": -1,
            "max_wait_ms": 0,
            "session_epoch": -1,
            "topics": [{"topic": n.n, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
        },
    ),
    Question(
        "Fetch as a replica", "Fetch", 12, (cluster(CLUSTER_ACTION),), _replica_fetch, has_topic=True, is_brokers=True
    ),
    Question("Fetch to debug", "Fetch", 12, (topic("t", READ),), _debugging_fetch, has_topic=True),
    Question(
        "ListOffsets as a replica", "ListOffsets", 6, (topic("t", DESCRIBE),), _offsets_as(A_REPLICA), has_topic=True
    ),
    Question("ListOffsets to debug", "ListOffsets", 6, (topic("t", DESCRIBE),), _offsets_as(DEBUGGING), has_topic=True),
    Question(
        "OffsetForLeaderEpoch as a replica",
        "OffsetForLeaderEpoch",
        3,
        (topic("t", DESCRIBE),),
        _epoch_as(A_REPLICA),
        has_topic=True,
    ),
    Question(
        "OffsetForLeaderEpoch as a replica with a broker's right",
        "OffsetForLeaderEpoch",
        3,
        (cluster(CLUSTER_ACTION),),
        _epoch_as(A_REPLICA),
        has_topic=True,
    ),
    Question(
        "OffsetForLeaderEpoch of a client with a broker's right",
        "OffsetForLeaderEpoch",
        4,
        (cluster(CLUSTER_ACTION),),
        _epoch_as(-1),
        has_topic=True,
    ),
    Question(
        "ListOffsets",
        "ListOffsets",
        6,
        (topic("t", DESCRIBE),),
        lambda n: {
            "replica_id": -1,
            "topics": [{"name": n.t, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        has_topic=True,
    ),
    Question(
        "Metadata of a topic",
        "Metadata",
        9,
        (topic("t", DESCRIBE),),
        lambda n: {"topics": [{"name": n.t}], "allow_auto_topic_creation": False},
        has_topic=True,
    ),
    Question(
        "Metadata of a topic with the operations",
        "Metadata",
        9,
        (topic("t", DESCRIBE),),
        lambda n: {
            "topics": [{"name": n.t}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
        has_topic=True,
    ),
    Question(
        "Metadata of a topic that is not there",
        "Metadata",
        9,
        (topic("n", DESCRIBE),),
        lambda n: {"topics": [{"name": n.n}], "allow_auto_topic_creation": False},
    ),
    Question(
        "Metadata that would create a topic",
        "Metadata",
        9,
        (topic("n", DESCRIBE), topic("n", CREATE)),
        lambda n: {"topics": [{"name": n.n}], "allow_auto_topic_creation": True},
    ),
    Question(
        "Metadata that would create a topic, by the cluster",
        "Metadata",
        9,
        (topic("n", DESCRIBE), cluster(CREATE)),
        lambda n: {"topics": [{"name": n.n}], "allow_auto_topic_creation": True},
    ),
    Question(
        "OffsetCommit",
        "OffsetCommit",
        8,
        (group(READ), topic("t", READ)),
        lambda n: {
            "group_id": n.g,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": n.t, "partitions": [{**_PARTITION_OF, "committed_offset": 3}]}],
        },
        has_topic=True,
    ),
    Question(
        "OffsetFetch of one group",
        "OffsetFetch",
        7,
        (group(DESCRIBE), topic("t", DESCRIBE)),
        lambda n: {"group_id": n.g, "topics": [{"name": n.t, "partition_indexes": [0]}]},
        has_topic=True,
    ),
    Question(
        "OffsetFetch of groups",
        "OffsetFetch",
        8,
        (group(DESCRIBE), topic("t", DESCRIBE)),
        lambda n: {"groups": [{"group_id": n.g, "topics": [{"name": n.t, "partition_indexes": [0]}]}]},
        has_topic=True,
    ),
    Question(
        "OffsetFetch of all topics",
        "OffsetFetch",
        8,
        (group(DESCRIBE),),
        lambda n: {"groups": [{"group_id": n.g, "topics": None}]},
    ),
    Question(
        "FindCoordinator of a group",
        "FindCoordinator",
        3,
        (group(DESCRIBE),),
        lambda n: {"key": n.g, "key_type": 0},
    ),
    Question(
        "FindCoordinator of groups",
        "FindCoordinator",
        4,
        (group(DESCRIBE),),
        lambda n: {"key_type": 0, "coordinator_keys": [n.g]},
    ),
    Question(
        "FindCoordinator of transactional ids",
        "FindCoordinator",
        4,
        (transactional(DESCRIBE),),
        lambda n: {"key_type": 1, "coordinator_keys": [n.x]},
    ),
    Question(
        "JoinGroup",
        "JoinGroup",
        7,
        (group(READ),),
        lambda n: {
            "group_id": n.g,
            "session_timeout_ms": 300_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    ),
    Question(
        "Heartbeat",
        "Heartbeat",
        4,
        (group(READ),),
        lambda n: {"group_id": n.g, "generation_id": 1, "member_id": "m"},
    ),
    Question(
        "LeaveGroup",
        "LeaveGroup",
        4,
        (group(READ),),
        lambda n: {"group_id": n.g, "members": [{"member_id": "m"}]},
    ),
    Question(
        "SyncGroup",
        "SyncGroup",
        5,
        (group(READ),),
        lambda n: {
            "group_id": n.g,
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    Question(
        "DescribeGroups",
        "DescribeGroups",
        5,
        (group(DESCRIBE),),
        lambda n: {"groups": [n.g], "include_authorized_operations": True},
    ),
    Question("ListGroups", "ListGroups", 4, (cluster(DESCRIBE),), lambda _: {}),
    Question("DeleteGroups", "DeleteGroups", 2, (group(DELETE),), lambda n: {"groups_names": [n.g]}),
    Question(
        "OffsetDelete",
        "OffsetDelete",
        0,
        (group(DELETE), topic("t", READ)),
        lambda n: {"group_id": n.g, "topics": [{"name": n.t, "partitions": [_PARTITION_OF]}]},
        has_topic=True,
    ),
    Question(
        "CreateTopics",
        "CreateTopics",
        6,
        (topic("n", CREATE),),
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.n, "num_partitions": 1, "replication_factor": 1}],
        },
    ),
    Question(
        "CreateTopics, by the cluster",
        "CreateTopics",
        6,
        (cluster(CREATE),),
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.n, "num_partitions": 1, "replication_factor": 1}],
        },
    ),
    Question(
        "CreateTopics to validate",
        "CreateTopics",
        6,
        (topic("n", CREATE), topic("n", DESCRIBE_CONFIGS)),
        lambda n: {
            "timeout_ms": 5_000,
            "validate_only": True,
            "topics": [{"name": n.n, "num_partitions": 1, "replication_factor": 1}],
        },
    ),
    Question(
        "DeleteTopics",
        "DeleteTopics",
        5,
        (topic("t", DELETE), topic("t", DESCRIBE)),
        lambda n: {"timeout_ms": 5_000, "topic_names": [n.t]},
        has_topic=True,
    ),
    Question(
        "DeleteTopics of one that is not there",
        "DeleteTopics",
        5,
        (topic("n", DELETE), topic("n", DESCRIBE)),
        lambda n: {"timeout_ms": 5_000, "topic_names": [n.n]},
    ),
    Question(
        "DeleteRecords",
        "DeleteRecords",
        2,
        (topic("t", DELETE),),
        lambda n: {
            "timeout_ms": 5_000,
            "topics": [{"name": n.t, "partitions": [{"partition_index": 0, "offset": 0}]}],
        },
        has_topic=True,
    ),
    Question(
        "CreatePartitions",
        "CreatePartitions",
        2,
        (topic("t", ALTER),),
        lambda n: {"timeout_ms": 5_000, "topics": [{"name": n.t, "count": 2, "assignments": None}]},
        has_topic=True,
    ),
    Question(
        "DescribeConfigs of a topic",
        "DescribeConfigs",
        4,
        (topic("t", DESCRIBE_CONFIGS),),
        lambda n: {"resources": [{"resource_type": 2, "resource_name": n.t, "configuration_keys": ["retention.ms"]}]},
        has_topic=True,
    ),
    Question(
        "DescribeConfigs of a broker",
        "DescribeConfigs",
        4,
        (cluster(DESCRIBE_CONFIGS),),
        lambda _: {"resources": [{"resource_type": 4, "resource_name": "0", "configuration_keys": ["broker.id"]}]},
    ),
    Question(
        "AlterConfigs of a topic",
        "AlterConfigs",
        2,
        (topic("t", ALTER_CONFIGS),),
        lambda n: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n.t,
                    "configs": [{"name": "retention.ms", "value": "60000"}],
                }
            ]
        },
        has_topic=True,
    ),
    Question(
        "IncrementalAlterConfigs of a topic",
        "IncrementalAlterConfigs",
        1,
        (topic("t", ALTER_CONFIGS),),
        lambda n: {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n.t,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "60000"}],
                }
            ]
        },
        has_topic=True,
    ),
    Question(
        "IncrementalAlterConfigs of a broker",
        "IncrementalAlterConfigs",
        1,
        (cluster(ALTER_CONFIGS),),
        lambda _: {
            "resources": [
                {
                    "resource_type": 4,
                    "resource_name": "0",
                    "configs": [{"name": "log.retention.ms", "config_operation": 1, "value": None}],
                }
            ]
        },
    ),
    Question(
        "InitProducerId of an idempotent producer",
        "InitProducerId",
        4,
        (cluster(IDEMPOTENT_WRITE),),
        lambda _: {"transactional_id": None, "transaction_timeout_ms": 1_000},
    ),
    Question(
        "InitProducerId of an idempotent producer that may write to a topic",
        "InitProducerId",
        4,
        (topic("t", WRITE),),
        lambda _: {"transactional_id": None, "transaction_timeout_ms": 1_000},
    ),
    Question(
        "InitProducerId of a transactional id",
        "InitProducerId",
        4,
        (transactional(WRITE),),
        lambda n: {"transactional_id": n.x, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1},
    ),
    Question(
        "OffsetForLeaderEpoch",
        "OffsetForLeaderEpoch",
        4,
        (topic("t", DESCRIBE),),
        lambda n: {
            "replica_id": -1,
            "topics": [{"topic": n.t, "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        },
        has_topic=True,
    ),
    Question(
        "AddPartitionsToTxn",
        "AddPartitionsToTxn",
        3,
        (transactional(WRITE), topic("t", WRITE)),
        lambda n: {
            "v3_and_below_transactional_id": n.x,
            "v3_and_below_producer_id": 4711,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": n.t, "partitions": [0]}],
        },
        has_topic=True,
    ),
    Question(
        "AddOffsetsToTxn",
        "AddOffsetsToTxn",
        3,
        (transactional(WRITE), group(READ)),
        lambda n: {"transactional_id": n.x, "group_id": n.g, **NO_PRODUCER},
    ),
    Question(
        "EndTxn",
        "EndTxn",
        3,
        (transactional(WRITE),),
        lambda n: {"transactional_id": n.x, "committed": True, **NO_PRODUCER},
    ),
    Question(
        "TxnOffsetCommit",
        "TxnOffsetCommit",
        3,
        (transactional(WRITE), group(READ), topic("t", READ)),
        lambda n: {
            "transactional_id": n.x,
            "group_id": n.g,
            **NO_PRODUCER,
            "topics": [{"name": n.t, "partitions": [{**_PARTITION_OF, "committed_offset": 3}]}],
        },
        has_topic=True,
    ),
    Question(
        "DescribeAcls",
        "DescribeAcls",
        3,
        (cluster(DESCRIBE),),
        lambda n: {
            "resource_type_filter": TOPIC,
            "resource_name_filter": n.n,
            "pattern_type_filter": LITERAL,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
    ),
    Question(
        "CreateAcls",
        "CreateAcls",
        3,
        (cluster(ALTER),),
        lambda n: {
            "creations": [
                {
                    "resource_type": TOPIC,
                    "resource_name": n.n,
                    "resource_pattern_type": LITERAL,
                    "principal": "User:nobody",
                    "host": "*",
                    "operation": READ,
                    "permission_type": ALLOW,
                }
            ]
        },
    ),
    Question(
        "DeleteAcls",
        "DeleteAcls",
        3,
        (cluster(ALTER),),
        lambda n: {
            "filters": [
                {
                    "resource_type_filter": TOPIC,
                    "resource_name_filter": n.n,
                    "pattern_type_filter": LITERAL,
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
    ),
    Question("DescribeLogDirs", "DescribeLogDirs", 3, (cluster(DESCRIBE),), lambda _: {"topics": []}),
    Question("AlterReplicaLogDirs", "AlterReplicaLogDirs", 2, (cluster(ALTER),), lambda _: {"dirs": []}),
    Question(
        "ElectLeaders",
        "ElectLeaders",
        2,
        (cluster(ALTER),),
        lambda n: {
            "election_type": 0,
            "topic_partitions": [{"topic": n.n, "partitions": [0]}],
            "timeout_ms": 5_000,
        },
    ),
    Question(
        "AlterPartitionReassignments",
        "AlterPartitionReassignments",
        0,
        (cluster(ALTER),),
        lambda n: {"timeout_ms": 5_000, "topics": [{"name": n.n, "partitions": [{"partition_index": 0}]}]},
    ),
    Question(
        "ListPartitionReassignments",
        "ListPartitionReassignments",
        0,
        (cluster(DESCRIBE),),
        lambda _: {"timeout_ms": 5_000, "topics": None},
    ),
    Question(
        "DescribeCluster with the operations",
        "DescribeCluster",
        0,
        (cluster(DESCRIBE),),
        lambda _: {"include_cluster_authorized_operations": True},
    ),
    Question(
        "DescribeProducers",
        "DescribeProducers",
        0,
        (topic("t", READ),),
        lambda n: {"topics": [{"name": n.t, "partition_indexes": [0]}]},
        has_topic=True,
    ),
    Question(
        "DescribeTransactions",
        "DescribeTransactions",
        0,
        (transactional(DESCRIBE),),
        lambda n: {"transactional_ids": [n.x]},
    ),
    Question("ListTransactions", "ListTransactions", 0, (transactional(DESCRIBE),), lambda _: {}),
    Question(
        "DescribeUserScramCredentials",
        "DescribeUserScramCredentials",
        0,
        (cluster(DESCRIBE),),
        lambda _: {"users": [{"name": "nobody"}]},
    ),
    Question(
        "AlterUserScramCredentials",
        "AlterUserScramCredentials",
        0,
        (cluster(ALTER),),
        lambda _: {"deletions": [{"name": "nobody", "mechanism": 1}]},
    ),
    _brokers("LeaderAndIsr", 4, controller_id=0, controller_epoch=0, broker_epoch=0, live_leaders=[]),
    _brokers("StopReplica", 3, controller_id=0, controller_epoch=0, broker_epoch=0, topic_states=[]),
    _brokers("UpdateMetadata", 6, controller_id=0, controller_epoch=0, broker_epoch=0, live_brokers=[]),
    _brokers("ControlledShutdown", 3, broker_id=0, broker_epoch=0),
    _brokers("WriteTxnMarkers", 1, markers=[]),
    _brokers("AlterPartition", 2, broker_id=0, broker_epoch=0, topics=[]),
    _brokers("AllocateProducerIds", 0, broker_id=0, broker_epoch=0),
]

VARIANTS = ("nothing", "another name", "a part", "everything", "a prefix", "everybody", "denied", "all operations")


def applies(question: Question, variant: str) -> bool:
    """Whether a variant of the question says something of its own, and changes nothing for the others."""
    if variant == "a part":
        return len(question.needs) > 1
    if question.is_brokers:
        return variant in ("nothing", "another name", "denied")
    if variant in ("a prefix", "another name"):
        return any(need.kind != CLUSTER for need in question.needs)
    return True


class Entry(NamedTuple):
    """One access control entry, as CreateAcls has it."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    operation: int
    permission_type: int
    host: str = "*"


def entries_of(question: Question, variant: str, names: Names, principal: str) -> list[Entry]:
    """The entries of a variant."""
    if variant == "nothing":
        return []
    found = []
    for need in question.needs:
        name = need.name(names)
        is_cluster = need.kind == CLUSTER
        entry = Entry(need.kind, name, LITERAL, principal, need.operation, ALLOW)
        if variant == "another name" and not is_cluster:
            entry = entry._replace(resource_name=f"{name}-x")
        elif variant == "another name":
            entry = entry._replace(operation=IDEMPOTENT_WRITE)
        elif variant == "a prefix" and not is_cluster:
            entry = entry._replace(resource_name=name[:-1], resource_pattern_type=PREFIXED)
        elif variant == "everybody":
            entry = entry._replace(principal="User:*")
        elif variant == "all operations":
            entry = entry._replace(operation=ALL)
        found.append(entry)
    if variant == "a part":
        return found[:1]
    if variant == "denied":
        found.append(found[-1]._replace(permission_type=DENY))
    return found
