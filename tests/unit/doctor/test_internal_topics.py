"""What the doctor says of internal topics: those that cannot be created, cannot be written, or lose state."""

from __future__ import annotations

import pytest

from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.share_state.state_topic import share_state_topic_spec
from sordini.doctor.client_way.cluster_state import (
    INTERNAL_TOPICS,
    SHARE_STATE_TOPIC,
    TOPIC_KEYS,
    InternalTopic,
    min_isr_too_high,
    topic_findings,
)
from sordini.doctor.faults import Fault
from sordini.protocol.messages.metadata import MetadataResponsePartition

OFFSETS, TRANSACTIONS, SHARES = INTERNAL_TOPICS
ONE, TWO = MetadataResponsePartition(replica_nodes=[1]), MetadataResponsePartition(replica_nodes=[1, 2])


def found(one: InternalTopic, *partitions: MetadataResponsePartition, **values: str) -> list[tuple[Fault, str, str]]:
    """The faults, their keys and the lines that mend them."""
    shown = {name.replace("_", "."): value for name, value in values.items()}
    findings = topic_findings(one, partitions or (TWO,), shown, "b:1")
    return [(finding.fault, finding.facts["key"], finding.lines[0]) for finding in findings]


@pytest.mark.parametrize("one", INTERNAL_TOPICS, ids=lambda one: one.topic)
def test_an_internal_topic_with_as_many_replicas_as_it_needs_can_be_written(one: InternalTopic) -> None:
    assert found(one, min_insync_replicas="2") == []
    assert found(one, TWO, ONE, min_insync_replicas="2") == [
        (
            Fault.INTERNAL_MIN_ISR,
            "min.insync.replicas",
            f"sordini configs set --topic {one.topic} min.insync.replicas=1 --bootstrap b:1",
        )
    ]


@pytest.mark.parametrize("one", INTERNAL_TOPICS, ids=lambda one: one.topic)
def test_what_a_cluster_does_not_tell_is_not_judged(one: InternalTopic) -> None:
    assert found(one) == found(one, min_insync_replicas="", retention_bytes="-1") == []


@pytest.mark.parametrize("one", [OFFSETS, TRANSACTIONS], ids=lambda one: one.topic)
def test_offsets_and_transactions_are_kept_by_compaction_alone(one: InternalTopic) -> None:
    assert found(one, cleanup_policy="compact", retention_ms="604800000") == []
    for policy in ("delete", "compact,delete"):
        ((fault, key, line),) = found(one, cleanup_policy=policy)
        assert (fault, key) == (Fault.INTERNAL_CLEANUP, "cleanup.policy")
        assert "cleanup.policy=compact" in line


def test_states_of_share_groups_are_deleted_by_their_coordinator_alone() -> None:
    assert found(SHARES, cleanup_policy="delete", retention_ms="-1", retention_bytes="-1") == []
    assert [key for _, key, _ in found(SHARES, cleanup_policy="compact")] == ["cleanup.policy"]
    assert [key for _, key, _ in found(SHARES, retention_ms="604800000")] == ["retention.ms"]
    assert [key for _, key, _ in found(SHARES, retention_bytes="1000000")] == ["retention.bytes"]


def test_the_topic_that_brokers_create_for_share_groups_is_in_order() -> None:
    spec = share_state_topic_spec(ShareCoordinatorSettings())
    shown = {key: value for key, value in spec.settings.items() if key in TOPIC_KEYS}
    assert spec.name == SHARES.topic == SHARE_STATE_TOPIC
    replicas = [MetadataResponsePartition(replica_nodes=list(range(spec.replication_factor)))]
    assert topic_findings(SHARES, replicas, shown, "b:1") == []


def test_more_replicas_in_sync_than_a_topic_will_have_are_too_many() -> None:
    assert min_isr_too_high(SHARES, 2, 2, "b:1") is None
    finding = min_isr_too_high(SHARES, 2, 1, "b:1")
    assert finding is not None
    assert list(finding.lines) == ["share.coordinator.state.topic.min.isr=1"]
    assert "share.coordinator.state.topic.min.isr" in finding.paragraph
    assert "1 replica:" in finding.paragraph
