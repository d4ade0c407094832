"""Writing records of `__transaction_state`, which the product only reads."""

from __future__ import annotations

from sordini.broker.transactions.records import (
    EMPTY_STATE,
    KEY_VERSION,
    TransactionValue,
    _Key,
    _Partitions,
    _Value,
)
from sordini.protocol.records.versioned import written

VALUE_VERSION = 0


def transaction_key(transactional_id: str) -> bytes:
    return written(_Key(transactional_id=transactional_id), KEY_VERSION)


def transaction_value(value: TransactionValue) -> bytes:
    """Partitions are grouped by topic, topics in the order in which they first come."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in value.partitions:
        by_topic.setdefault(topic, []).append(partition)
    listed = [_Partitions(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]
    told = _Value(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        status=value.state,
        partitions=None if value.state == EMPTY_STATE else listed,
        last_update=value.last_update_ms,
        start=value.start_ms,
    )
    return written(told, VALUE_VERSION)
