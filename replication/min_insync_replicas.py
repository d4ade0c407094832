"""min.insync.replicas: whether enough replicas are in sync for acks=all, and the error where too few are. Pure.

NOT_ENOUGH_REPLICAS says that nothing was written. But a producer may send a batch again that is in the log: its first
response was lost, or came from a leader that was deposed meanwhile. librdkafka, which then takes it that nothing was
written, may make another batch of these records, which the log can neither recognise nor append: an idempotent
producer takes a new epoch and writes them twice, a transactional one fails. Producers that receive
NOT_ENOUGH_REPLICAS_AFTER_APPEND send the same batch again.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.records.legacy_validation import Storable
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.storage.producer_state import ProducerState


def is_under_min_isr(in_sync: int, min_insync_replicas: int, assigned: int) -> bool:
    """Whether too few replicas are in sync."""
    return in_sync < effective_min_isr(min_insync_replicas, assigned)


def effective_min_isr(min_insync_replicas: int, assigned: int) -> int:
    """min.insync.replicas may exceed the number of assigned replicas: then all of them are enough."""
    return min(min_insync_replicas, assigned)


def too_few_replicas(checked: Storable, producers: ProducerState, reason: str) -> BrokerError:
    """The error for batches that such a partition does not append; `reason` is its text. Raises nothing."""
    is_appended = isinstance(checked, CheckedBatches) and any(
        _is_duplicate(producers, header) for _, header in checked.batches
    )
    # Apache Kafka answers NOT_ENOUGH_REPLICAS for both. In seed 3 of make chaos a batch that was in the log was refused
    # so, as times and logs say, while one broker was alone in sync, and eleven records were written twice.
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_appended else ErrorCode.NOT_ENOUGH_REPLICAS
    return BrokerError(code, reason)


def code_after_append(in_sync: int, min_insync_replicas: int, assigned: int) -> ErrorCode:
    """The code for appends that all replicas in sync have."""
    if is_under_min_isr(in_sync, min_insync_replicas, assigned):
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE


def _is_duplicate(producers: ProducerState, header: BatchHeader) -> bool:
    if header.producer_id < 0 or header.base_sequence < 0:
        return False
    try:
        found = producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    except BrokerError:
        return False
    return found is not None
