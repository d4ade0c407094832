"""The error for batches that a partition with too few in-sync replicas does not take. Pure.

NOT_ENOUGH_REPLICAS says that nothing was written. But a producer may send a batch again that is in the log: its first
response was lost, or came from a leader that was deposed meanwhile. librdkafka, which is then told that nothing was
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


def too_few_replicas(checked: Storable, producers: ProducerState, what: str) -> BrokerError:
    """The error for these batches; `what` is its text. Raises nothing."""
    is_appended = isinstance(checked, CheckedBatches) and any(
        _is_duplicate(producers, header) for _, header in checked.batches
    )
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_appended else ErrorCode.NOT_ENOUGH_REPLICAS
    return BrokerError(code, what)


def _is_duplicate(producers: ProducerState, header: BatchHeader) -> bool:
    if header.producer_id < 0 or header.base_sequence < 0:
        return False
    try:
        found = producers.check(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
    except BrokerError:
        return False
    return found is not None
