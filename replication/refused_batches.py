"""The error for batches of a producer that follow a batch that was refused. Pure.

A producer sends more batches before the first is answered. Suppose the first is refused for a transient reason: the
disk is full, too few replicas are in sync, the broker may have been replaced, or has just started and does not know its
partitions yet. The next batch may arrive when the reason has passed, and would get OUT_OF_ORDER_SEQUENCE_NUMBER. The
producer could then no longer tell which batches were written: librdkafka bumps the epoch and sends all of them
again, although some may be in the log. So later batches get the error of the first one, and the producer sends all of
them again, in order.

This holds for REFUSED_MS at most: a producer that has given up the first batch must learn of the gap.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader

REFUSED_MS: Final = 30_000
"""The default time that producers wait for an answer (`request.timeout.ms`)."""
PRODUCERS_MAX: Final = 10_000
TRANSIENT: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
PartitionKey = tuple[str | bytes, int]
"""A partition as the request names it: by the topic's name, or from version 13 on by its id."""


class RefusedBatch(NamedTuple):
    """The last batch of a producer that was refused with a transient error."""

    producer_epoch: int
    code: ErrorCode
    until_ms: int


class RefusedBatches:
    """The refused batches of all producers of one broker."""

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[PartitionKey, int], RefusedBatch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def error_for(self, partition: PartitionKey, header: BatchHeader, error: BrokerError, now_ms: int) -> BrokerError:
        """The error to answer for a batch that was refused with `error`; `now_ms` is monotonic."""
        if header.producer_id < 0:
            return error
        key = partition, header.producer_id
        if error.code in TRANSIENT:
            self._refused[key] = RefusedBatch(header.producer_epoch, error.code, now_ms + REFUSED_MS)
            self._refused.move_to_end(key)
            if len(self._refused) > PRODUCERS_MAX:
                self._refused.popitem(last=False)
            return error
        known = self._refused.get(key)
        if known is None or error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return error
        if now_ms >= known.until_ms or header.producer_epoch != known.producer_epoch:
            del self._refused[key]
            return error
        return BrokerError(known.code, f"{error}; an earlier batch was refused: send both again")
