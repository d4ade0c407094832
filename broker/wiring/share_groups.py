"""Share groups: their membership, and what it needs of the share coordinator."""

from __future__ import annotations

from sordini.broker.configuration.config import Config
from sordini.broker.configuration.share_group_configs import ShareGroupLimits
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.consumer.cluster_topics import ClusterTopics
from sordini.broker.groups.share.groups import ShareGroupDeps
from sordini.broker.groups.share.limits import ShareMembershipLimits
from sordini.broker.groups.share.state_requests import StateRequests
from sordini.broker.share_state.ports import GroupStates
from sordini.broker.topics.metadata_cache import MetadataCache


def wire_share_groups(
    config: Config, limits: ShareGroupLimits, metadata: MetadataCache, persister: GroupStates, ports: Ports
) -> ShareGroupDeps:
    """What all share groups of this broker share."""
    retry_ms = max(config.group_share_initialize_retry_interval_ms, config.offsets_commit_timeout_ms)
    timings = ShareMembershipLimits(limits, retry_ms)
    is_guarded = config.group_consumer_stale_connection_fencing_enable
    return ShareGroupDeps(
        ports,
        timings.of,
        ClusterTopics(metadata),
        StateRequests(persister, ports.spawn),
        limits.is_offloaded,
        is_guarded,
    )
