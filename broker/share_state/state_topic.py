"""The internal topic __share_group_state, which keeps the states of share partitions."""

from __future__ import annotations

from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.coordinators.internal_topic import InternalTopicSpec
from sordini.broker.share_state.records import SHARE_STATE_TOPIC


def share_state_topic_spec(config: ShareCoordinatorSettings) -> InternalTopicSpec:
    """Updates are changes, which compaction would lose: redundant records are deleted by the coordinator instead."""
    return InternalTopicSpec(
        SHARE_STATE_TOPIC,
        config.share_coordinator_state_topic_num_partitions,
        config.share_coordinator_state_topic_replication_factor,
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        },
    )
