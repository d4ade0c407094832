"""With which replicas and settings an internal topic is created."""

from __future__ import annotations

import pytest

from sordini.broker.coordinators.internal_topic import InternalTopicSpec

SPEC = InternalTopicSpec("__transaction_state", 50, 3, {"min.insync.replicas": "2"})


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, "1"), (2, 2, "2"), (5, 3, "2"), (None, 3, "2")])
def test_a_topic_requires_no_more_in_sync_replicas_than_it_has(
    brokers: int | None, replicas: int, in_sync: str
) -> None:
    topic = SPEC.creatable(brokers)
    assert topic.replication_factor == replicas
    assert {one.name: one.value for one in topic.configs} == {
        "cleanup.policy": "compact",
        "min.insync.replicas": in_sync,
    }


def test_what_the_operator_set_is_kept_where_the_brokers_are_not_counted() -> None:
    spec = SPEC._replace(replication_factor=1, settings={"segment.bytes": "1000"})
    topic = spec.creatable()
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__transaction_state", 50, 1)
    assert {one.name: one.value for one in topic.configs} == {"cleanup.policy": "compact", "segment.bytes": "1000"}
