"""What producers are told of batches that come behind one that was refused. Pure.

A producer sends several batches before the first is answered. When the first is refused for a reason that passes (the
disk is full, too few replicas are in sync, this broker may have been replaced, or has only just started and does not
know yet what it leads), the next may come when the reason has passed, and would be told that it is out of order. The
producer then no longer knows what became of those before: a librdkafka producer takes another epoch and sends all that
is open once more, of which some may have been written. So the later ones are refused as the first was, and all are sent
again, in order.

That lasts for REFUSED_MS at most: a producer that has given the first batch up must be told that there is a gap.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader

REFUSED_MS: Final = 30_000
"""As long as producers wait for an answer by default (`request.timeout.ms`)."""
PRODUCERS_MAX: Final = 10_000
PASSING: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
Name = tuple[str | bytes, int]
"""A partition as producers name it: by the topic's name, or from version 13 on by its id."""


class RefusedBatch(NamedTuple):
    """A producer's last batch that was refused for a while."""

    producer_epoch: int
    code: ErrorCode
    until_ms: int


class RefusedBatches:
    """The producers of one broker of whose batches one was refused lately."""

    def __init__(self) -> None:
        self._refused: OrderedDict[tuple[Name, int], RefusedBatch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def told(self, name: Name, header: BatchHeader, error: BrokerError, now_ms: int) -> BrokerError:
        """What to tell the producer of a batch that was refused; `now_ms` is monotonic."""
        if header.producer_id < 0:
            return error
        key = name, header.producer_id
        if error.code in PASSING:
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
        return BrokerError(known.code, f"{error}; what came before it was refused: send both again")
