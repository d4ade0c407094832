"""The keys of transactions: limits, and the topic __transaction_state."""

from __future__ import annotations

import dataclasses

from sordini.broker.configuration.settings import boolean, integer, setting, short


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class TransactionSettings:
    """The transaction coordinator's settings. Defaults are Apache Kafka's."""

    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms", integer(1), 900000, "Maximum transaction timeout of a producer."
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        integer(1),
        604800000,
        "How long a transactional id is kept after its last use.",
    )
    transaction_expiry_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        integer(1),
        3600000,
        "How often expired transactional ids are searched for.",
    )
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions",
        integer(1),
        50,
        "Partitions of __transaction_state when it is created.",
    )
    transaction_state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor",
        short(1),
        3,
        "Replicas of __transaction_state when it is created; with the embedded store at most the number of brokers.",
    )
    transaction_state_log_min_isr: int = setting(
        "transaction.state.log.min.isr",
        integer(1),
        2,
        "In-sync replicas that a write to __transaction_state needs, at most all of them.",
    )
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        integer(1),
        104857600,
        "Segment size of __transaction_state when it is created.",
    )
    transaction_state_log_load_buffer_size: int = setting(
        "transaction.state.log.load.buffer.size",
        integer(1),
        5242880,
        "Batch size for reading transactional ids when a coordinator loads them.",
    )
    request_timeout_ms: int = setting(
        "request.timeout.ms",
        integer(1),
        30000,
        "How long a broker waits for the answer of a transaction's coordinator or of a leader that writes markers.",
    )
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable",
        boolean,
        True,
        "Ask the transaction's coordinator before the first append to a partition.",
        dynamic=True,
    )
    transactional_ids_max: int = setting(
        "sordini.transactional.ids.max",
        integer(1),
        1000000,
        "Transactional ids that this broker coordinates; beyond it new ones are refused.",
    )
    transactions_ongoing_max: int = setting(
        "sordini.transactions.ongoing.max",
        integer(1),
        100000,
        "Ongoing transactions that this broker coordinates; beyond it new ones are refused.",
    )
    transactional_stale_connection_fencing_enable: bool = setting(
        "sordini.transactional.stale.connection.fencing.enable",
        boolean,
        True,
        "Refuse requests of a transactional producer on a connection older than its newest.",
    )
    cluster_exclusive: bool = setting(
        "sordini.cluster.exclusive",
        boolean,
        False,
        "All brokers of this cluster are Sordini's, and Apache Kafka does not read its files: transaction.version is 2 "
        "(KIP-890), the same on all its brokers.",
    )
