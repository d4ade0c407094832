"""What metadata says of a cluster's health: its controller, its partitions, its internal topics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition
from sordini.protocol.printable import counted
from sordini.system.named_tuple import NamedTuple

EXAMPLES_MAX: Final = 3
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"


_MIN_ISR, _CLEANUP = "min.insync.replicas", "cleanup.policy"
_NOTHING_ENDS: Final = (("retention.ms", "-1"), ("retention.bytes", "-1"))
TOPIC_KEYS: Final = (_MIN_ISR, _CLEANUP, *(key for key, _ in _NOTHING_ENDS))
"""Settings of internal topics that are looked at."""


class InternalTopic(NamedTuple):
    """A topic that the cluster creates for a kind of coordinator, and the keys that it is created by."""

    topic: str
    key: str
    """Of its replication factor."""
    min_isr_key: str
    clients: str
    cleanup: str = "compact"
    """The only `cleanup.policy` that loses no state."""


INTERNAL_TOPICS: Final = (
    InternalTopic(OFFSETS_TOPIC, "offsets.topic.replication.factor", "min.insync.replicas", "consumers with a group"),
    InternalTopic(
        TRANSACTIONS_TOPIC,
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "producers with transactions",
    ),
    InternalTopic(
        SHARE_STATE_TOPIC,
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
        "workers of share groups",
        "delete",
    ),
)


def no_controller(found: MetadataResponse, at: str) -> Finding | None:
    """Whether the controller is one of the brokers."""
    if found.controller_id in {broker.node_id for broker in found.brokers}:
        return None
    return Finding(Fault.NO_CONTROLLER, at)


def partition_findings(found: MetadataResponse, at: str) -> list[Finding]:
    """Partitions without a leader, and those with replicas out of sync."""
    rows = [(topic.name or "", row) for topic in found.topics for row in topic.partitions]
    offline = [(name, row) for name, row in rows if row.leader_id < 0]
    lagging = [(name, row) for name, row in rows if row.leader_id >= 0 and len(row.isr_nodes) < len(row.replica_nodes)]
    findings = []
    if offline:
        facts = _named(offline) | {"brokers": _brokers(replica for _, row in offline for replica in row.replica_nodes)}
        findings.append(Finding(Fault.PARTITIONS_OFFLINE, at, facts | {"topic": offline[0][0]}))
    if lagging:
        missing = (replica for _, row in lagging for replica in set(row.replica_nodes) - set(row.isr_nodes))
        facts = _named(lagging) | {"brokers": _brokers(missing), "bootstrap": at}
        findings.append(Finding(Fault.PARTITIONS_UNDER_REPLICATED, at, facts))
    return findings


def _named(rows: Sequence[tuple[str, MetadataResponsePartition]]) -> dict[str, str]:
    names = [f"{name}-{row.partition_index}" for name, row in rows]
    more = f" and {len(names) - EXAMPLES_MAX} more" if len(names) > EXAMPLES_MAX else ""
    return {"count": counted(len(names), "partition"), "examples": ", ".join(names[:EXAMPLES_MAX]) + more}


def _brokers(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(ids))))


def replication_too_high(one: InternalTopic, value: int, brokers: int, at: str) -> Finding | None:
    """Whether an internal topic that does not exist yet can never be created."""
    if value <= brokers:
        return None
    facts = {
        "key": one.key,
        "value": str(value),
        "brokers": counted(brokers, "broker"),
        "brokers_count": str(brokers),
        "topic": one.topic,
        "who": one.clients,
    }
    return Finding(Fault.INTERNAL_REPLICATION, at, facts)


def min_isr_too_high(one: InternalTopic, value: int, replicas: int, at: str) -> Finding | None:
    """Whether an internal topic that does not exist yet could never be written, for want of replicas."""
    if value <= replicas:
        return None
    facts = _min_isr_facts(one, value, replicas) | {"key": one.min_isr_key}
    remedy = {"where": "in the server.properties of each broker", "remedy": f"{one.min_isr_key}={replicas}"}
    return Finding(Fault.INTERNAL_MIN_ISR, at, facts | remedy)


def topic_findings(
    one: InternalTopic, partitions: Iterable[MetadataResponsePartition], values: Mapping[str, str], at: str
) -> list[Finding]:
    """Whether the settings of an internal topic that exists let it be written, and keep what is written.

    `values` are those that the cluster shows; what is missing is not judged.
    """
    findings = []
    replicas, min_isr = min((len(row.replica_nodes) for row in partitions), default=0), values.get(_MIN_ISR, "")
    if min_isr.isdecimal() and int(min_isr) > replicas:
        facts = _min_isr_facts(one, int(min_isr), replicas) | {"key": _MIN_ISR}
        remedy = f"sordini configs set --topic {one.topic} {_MIN_ISR}={replicas} --bootstrap {at}"
        findings.append(Finding(Fault.INTERNAL_MIN_ISR, at, facts | {"where": "in the cluster", "remedy": remedy}))
    for key, expected in ((_CLEANUP, one.cleanup), *(_NOTHING_ENDS if one.cleanup == "delete" else ())):
        if values.get(key, expected) != expected:
            facts = {"key": key, "value": values[key], "expected": expected, "topic": one.topic, "who": one.clients}
            findings.append(Finding(Fault.INTERNAL_CLEANUP, at, facts | {"bootstrap": at}))
    return findings


def _min_isr_facts(one: InternalTopic, value: int, replicas: int) -> dict[str, str]:
    return {"value": str(value), "replicas": counted(replicas, "replica"), "topic": one.topic, "who": one.clients}


def no_coordinator(one: InternalTopic, reason: str, at: str) -> Finding:
    """A coordinator is requested, and there is none."""
    facts = {"who": one.clients, "who_upper": one.clients[:1].upper() + one.clients[1:]}
    return Finding(Fault.NO_COORDINATOR, at, facts | {"reason": reason, "topic": one.topic, "bootstrap": at})


def state_text(found: MetadataResponse) -> str:
    """The size of a cluster."""
    partitions = sum(len(topic.partitions) for topic in found.topics)
    return f"{counted(len(found.topics), 'topic')}, {counted(partitions, 'partition')}"
