"""Every situation: importing the modules registers what they hold, in the order shown."""

from tests.compat.situations import (  # noqa: F401  (imported for what they register)
    alter_configs,
    api_versions,
    configs,
    delete_records,
    dynamic_configs,
    fetch,
    fetch_sessions,
    group_corners,
    group_lists,
    heartbeats,
    join_group,
    list_offsets,
    malformed,
    metadata,
    newest,
    offset_commits,
    offset_fetches,
    offset_records,
    partitions,
    produce,
    produce_old,
    produce_sequences,
    replicas,
    static_members,
    sync_group,
    topic_partitions,
    topics,
    topics_in_use,
)
from tests.compat.situations.registry import SITUATIONS

__all__ = ["SITUATIONS"]
