"""What metadata says of a cluster's health: its controller, its partitions, its internal topics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sordini.doctor.faults import Fault
from sordini.doctor.findings import Finding
from sordini.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition
from sordini.protocol.printable import counted
from sordini.system.named_tuple import NamedTuple

EXAMPLES_MAX: Final = 3
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"


class InternalTopic(NamedTuple):
    """A topic that the cluster creates for a kind of coordinator, and the key with its replication factor."""

    topic: str
    key: str
    clients: str


INTERNAL_TOPICS: Final = (
    InternalTopic(OFFSETS_TOPIC, "offsets.topic.replication.factor", "consumers with a group"),
    InternalTopic(TRANSACTIONS_TOPIC, "transaction.state.log.replication.factor", "producers with transactions"),
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


def no_coordinator(one: InternalTopic, reason: str, at: str) -> Finding:
    """A coordinator is requested, and there is none."""
    facts = {"who": one.clients, "who_upper": one.clients[:1].upper() + one.clients[1:]}
    return Finding(Fault.NO_COORDINATOR, at, facts | {"reason": reason, "topic": one.topic, "bootstrap": at})


def state_text(found: MetadataResponse) -> str:
    """The size of a cluster."""
    partitions = sum(len(topic.partitions) for topic in found.topics)
    return f"{counted(len(found.topics), 'topic')}, {counted(partitions, 'partition')}"
