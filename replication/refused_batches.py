"""The error for batches of a producer that follow a batch that was refused. Pure.

A producer sends more batches before the first is answered. Suppose the first is refused for a transient reason: the
disk is full, too few replicas are in sync, the broker may have been replaced, or has just started and does not know its
partitions yet. The next batch may arrive when the reason has passed, and would get OUT_OF_ORDER_SEQUENCE_NUMBER. The
producer could then no longer tell which batches were written: librdkafka bumps the epoch and sends all of them
again, although some may be in the log. So later batches get the error of the first one, and the producer sends all of
them again, in order.

This holds for REFUSED_MS at most: a producer that has given up the first batch must learn of the gap.

The first of several batches may also have been refused by the leader before. librdkafka (2.16) then sends the second to
the new leader before it has taken back the first: the new leader finds a gap in the first batch that it gets from this
producer. For GAP_MS from then on it asks for the batch again; after that the gap is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader

REFUSED_MS: Final = 30_000
"""The default time that producers wait for an answer (`request.timeout.ms`)."""
GAP_MS: Final = 2_000
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
GAP_CODE: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
"""Nothing was written, and the leader has changed: producers send again, in order."""
EARLIER: Final = "an earlier batch was refused: send both again"
MISSING: Final = "an earlier batch has not come to this leader yet: send both again"
PartitionKey = tuple[str | bytes, int]
"""A partition as the request names it: by the topic's name, or from version 13 on by its id."""


class RefusedBatch(NamedTuple):
    """The last batch of a producer that was refused with a transient error, or its first gap in a term."""

    producer_epoch: int
    code: ErrorCode
    until_ms: int
    term: int | None = None
    """The leader epoch of a gap."""


class RefusedBatches:
    """The refused batches of all producers of one broker."""

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[PartitionKey, int], RefusedBatch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def error_for(
        self,
        partition: PartitionKey,
        header: BatchHeader,
        error: BrokerError,
        now_ms: int,
        new_term: int | None = None,
    ) -> BrokerError:
        """The error to answer for a batch that was refused with `error`; `now_ms` is monotonic.

        `new_term` is the leader epoch, when nothing of this producer was appended in it yet.
        """
        if header.producer_id < 0:
            return error
        key = partition, header.producer_id
        if error.code in TRANSIENT:
            self._keep(key, RefusedBatch(header.producer_epoch, error.code, now_ms + REFUSED_MS))
            return error
        if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return error
        known = self._refused.get(key)
        if known is not None and header.producer_epoch == known.producer_epoch:
            if now_ms < known.until_ms:
                return BrokerError(known.code, f"{error}; {EARLIER if known.term is None else MISSING}")
            if known.term is not None and known.term == new_term:
                return error  # It has had its time.
        if new_term is None:
            self._refused.pop(key, None)
            return error
        self._keep(key, RefusedBatch(header.producer_epoch, GAP_CODE, now_ms + GAP_MS, new_term))
        return BrokerError(GAP_CODE, f"{error}; {MISSING}")

    def _keep(self, key: tuple[PartitionKey, int], refused: RefusedBatch) -> None:
        self._refused[key] = refused
        self._refused.move_to_end(key)
        if len(self._refused) > PRODUCERS_MAX:
            self._refused.popitem(last=False)
