"""The internal topic __transaction_state, which keeps transactional ids and their transactions."""

from __future__ import annotations

from sordini.broker.configuration.keys.transaction_keys import TransactionSettings
from sordini.broker.coordinators.internal_topic import InternalTopicSpec
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC


def state_topic_spec(config: TransactionSettings) -> InternalTopicSpec:
    """A lost record could be a decided commit, so no replica outside the in-sync set may become leader."""
    return InternalTopicSpec(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )
