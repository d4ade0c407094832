"""The error for batches of a producer that follow a batch that was refused. Pure.

A producer sends more batches before the first is answered. Suppose the first is refused for a transient reason: the
disk is full, too few replicas are in sync, the broker may have been replaced, or has just started and does not know its
partitions yet. The next batch may arrive when the reason has passed, and would get OUT_OF_ORDER_SEQUENCE_NUMBER. The
producer could then no longer tell which batches were written: librdkafka bumps the epoch and sends all of them
again, although some may be in the log. So later batches get the error of the first one, and the producer sends all of
them again, in order.

This holds for REFUSED_MS at most: a producer that has given up the first batch must learn of the gap.

A partition that knows nothing of a producer takes any batch as its first. There the later batch would be written, and
the refused one be out of order for ever. So `check_order` refuses the batches behind it, too, until it has come.

The first of several batches may also have been refused by the leader before. librdkafka (2.16) then sends the second to
the new leader before it has taken back the first: the new leader finds a gap in the first batch that it gets from this
producer. For GAP_MS from then on it asks for the batch again; after that the gap is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader
from sordini.storage.producer_state import SEQUENCE_MAX
from sordini.system.named_tuple import NamedTuple

REFUSED_MS: Final = 30_000
"""The default time that producers wait for an answer (`request.timeout.ms`)."""
# Found by seed 17 of make chaos: refused for the gap, librdkafka took another epoch and wrote again what was open in
# all partitions; four records were in the log twice (docs/evidence/chaos/findings.md).
GAP_MS: Final = 2_000
PRODUCERS_MAX: Final = 10_000
# Found with a full disk, and with a leader that was cut off from the store: after the error of a gap librdkafka took
# another epoch and wrote records twice, out of order.
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
K = TypeVar("K")
V = TypeVar("V")
PartitionKey = tuple[str | bytes, int]
"""A partition as the request names it: by the topic's name, or from version 13 on by its id."""


class RefusedBatch(NamedTuple):
    """What was last refused of a producer with a transient error."""

    producer_epoch: int
    code: ErrorCode
    until_ms: int
    sequence: int
    """The first sequence of the earliest batch that was refused."""


class Gap(NamedTuple):
    """The first gap of a producer in a term."""

    producer_epoch: int
    until_ms: int
    term: int
    """The leader epoch."""


class RefusedBatches:
    """The refused batches of all producers of one broker."""

    def __init__(self) -> None:
        self.by_producer: OrderedDict[tuple[PartitionKey, int], RefusedBatch] = OrderedDict()
        """In the order of their ends; to be read only. The key's number is the producer id."""
        self._gaps: OrderedDict[tuple[PartitionKey, int], Gap] = OrderedDict()
        """Those that have had their time are kept, so that it does not begin anew."""

    def check_order(self, partition: PartitionKey, header: BatchHeader, now_ms: int) -> None:
        """Refuse a batch behind one that was refused, for a partition that knows nothing of the producer.

        Raises BrokerError with the code of the earlier batch. `now_ms` is monotonic.
        """
        self._forget_until(now_ms)
        known = self._refused((partition, header.producer_id), header)
        if known is not None and is_behind(header.base_sequence, known.sequence):
            behind = f"producer {header.producer_id} sent sequence {header.base_sequence}"
            raise RefusedBehind(known.code, f"{behind}, and sequence {known.sequence} was refused: send both again")

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
        if header.producer_id < 0 or isinstance(error, RefusedBehind):
            return error
        self._forget_until(now_ms)
        key = partition, header.producer_id
        known = self._refused(key, header)
        if error.code in TRANSIENT:
            first = header.base_sequence
            if known is not None and is_behind(first, known.sequence):
                first = known.sequence
            _keep(self.by_producer, key, RefusedBatch(header.producer_epoch, error.code, now_ms + REFUSED_MS, first))
            return error
        if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return error
        if known is not None:
            return BrokerError(known.code, f"{error}; {EARLIER}")
        gap = self._gaps.get(key)
        if gap is not None and gap.producer_epoch == header.producer_epoch:
            if now_ms < gap.until_ms:
                return BrokerError(GAP_CODE, f"{error}; {MISSING}")
            if gap.term == new_term:
                return error  # It has had its time.
        if new_term is None:
            self._gaps.pop(key, None)
            return error
        _keep(self._gaps, key, Gap(header.producer_epoch, now_ms + GAP_MS, new_term))
        return BrokerError(GAP_CODE, f"{error}; {MISSING}")

    def _refused(self, key: tuple[PartitionKey, int], header: BatchHeader) -> RefusedBatch | None:
        known = self.by_producer.get(key)
        return known if known is not None and known.producer_epoch == header.producer_epoch else None

    def _forget_until(self, now_ms: int) -> None:
        """Forget what has ended: where nothing is remembered, a first batch needs no check."""
        refused = self.by_producer
        while refused and next(iter(refused.values())).until_ms <= now_ms:
            refused.popitem(last=False)


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """As the newest; the oldest makes room."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > PRODUCERS_MAX:
        kept.popitem(last=False)


class RefusedBehind(BrokerError):
    """A batch that came behind a refused one; it does not extend the time of that one."""


def is_behind(sequence: int, earlier: int) -> bool:
    """Whether a batch at `sequence` comes after one at `earlier`; sequences start again at 0 after 2^31 - 1."""
    return 0 < (sequence - earlier) & SEQUENCE_MAX <= SEQUENCE_MAX // 2
