"""The paths in the coordination store: Apache Kafka's own tree.

The tree is a contract with other brokers and with tools; the content of the nodes is in `znodes.py`.

A topic's name is one step of a path: with a slash in it, or as `..`, it would lead to another node. Functions that take
one raise BrokerError INVALID_TOPIC_EXCEPTION for it.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, TopicPartition

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURE = "/feature"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
ACL_CHANGES = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
SORDINI = "/sordini"
"""The only node that is not Apache Kafka's, with its children: see `store_format.py`."""
UNKNOWN_USERS = "/sordini/unknown_users"
"""See `sordini.broker.security.sasl.cluster_secret`."""

TOP_LEVEL = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/consumers",
    CONTROLLER,
    CONTROLLER_EPOCH,
    "/delegation_token",
    FEATURE,
    ISR_CHANGES,
    "/kafka-acl",
    ACL_CHANGES,
    "/kafka-acl-extended",
    EXTENDED_ACL_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    SORDINI,
)
"""The top-level nodes of a cluster; nodes with other names belong to other applications."""

SENSITIVE_PATHS = ("/config/users", "/config/brokers", "/delegation_token/tokens", UNKNOWN_USERS)
"""Beginnings of the paths of nodes that may hold credentials. With access control lists others do not read them."""

OPEN_PATHS = frozenset({"/consumers"})
"""Nodes without an access control list: old consumers write below."""

CHANGE_NOTIFICATIONS = frozenset(
    {CONFIG_CHANGES, ISR_CHANGES, LOG_DIR_EVENTS, ACL_CHANGES, EXTENDED_ACL_CHANGES, "/delegation_token/token_changes"}
)
"""Nodes whose children are change notifications."""

BASE_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
    "/config/groups",
    "/config/client-metrics",
    "/cluster",
)
"""Created by the first broker that starts; empty and persistent."""


def broker(broker_id: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{_step(name)}"


def partitions(name: str) -> str:
    return f"{topic(name)}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    return f"{topic(topic_partition.topic)}/partitions/{topic_partition.partition}"


def state(topic_partition: TopicPartition) -> str:
    return f"{topic(topic_partition.topic)}/partitions/{topic_partition.partition}/state"


def topic_config(name: str) -> str:
    return f"/config/topics/{_step(name)}"


def topic_entity(name: str) -> str:
    """A topic as config change notifications name it."""
    return f"topics/{_step(name)}"


def broker_entity(broker_id: BrokerId | None) -> str:
    """A broker as config change notifications name it; None is all brokers' defaults."""
    return "brokers/<default>" if broker_id is None else f"brokers/{broker_id}"


def config(entity_path: str) -> str:
    """The node of an entity as notifications name it: `topics/orders`, `brokers/1`, `users/<default>/clients/c`."""
    return f"/config/{entity_path}"


def delete_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{_step(name)}"


def parents(path: str) -> list[str]:
    """The nodes above a path, from the top down, without the root: `/a/b/c` has `/a` and `/a/b`."""
    steps = path.split("/")[1:-1]
    return ["/" + "/".join(steps[: count + 1]) for count in range(len(steps))]


def _step(name: str) -> str:
    """The name, if it is one step of a path. Invalid topic names are allowed: other tools created such nodes."""
    if not name or "/" in name or "\0" in name or name in {".", ".."}:
        raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"No node can be named {name!r}.")
    return name
