"""The decided end of one transaction, while partitions lack its marker, and what leaders' answers mean for it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

from sordini.broker.transactions.machine.events import SendMarkers
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from sordini.protocol.types import TopicPartition

RETRY_MS: Final = 100
RETRY_MS_MAX: Final = 2_000
"""Between two attempts for the same partition; doubled from RETRY_MS on."""


class MarkerVerdict(Enum):
    DONE = "the partition needs no marker any more"
    RETRY = "later, and perhaps by another leader"
    STOP = "another coordinator has taken over"


_FINAL: Final[Mapping[int, MarkerVerdict]] = {
    ErrorCode.NONE: MarkerVerdict.DONE,
    # Such a topic has no transactions: nothing is open there.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: MarkerVerdict.DONE,
    # The producer has written with a newer epoch, which ended this one's transaction.
    ErrorCode.INVALID_PRODUCER_EPOCH: MarkerVerdict.DONE,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: MarkerVerdict.STOP,
}


def verdict_of(code: int) -> MarkerVerdict:
    """What the answer of a leader means. Every other error is one of the leader, or of the way to it."""
    return _FINAL.get(code, MarkerVerdict.RETRY)


class TransactionEnd:
    """The markers of one prepared transaction."""

    __slots__ = (
        "_coordinator_epoch",
        "_on_done",
        "attempts",
        "is_cancelled",
        "markers",
        "remaining",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        markers: SendMarkers,
        coordinator_epoch: Callable[[], int],
        on_done: Callable[[], None],
    ) -> None:
        """`coordinator_epoch` returns the leader epoch of the coordinator's partition; `on_done` is called once."""
        self.transactional_id = transactional_id
        self.markers = markers
        self.remaining = set(markers.partitions)
        self.attempts = 0
        self.is_cancelled = False
        """Set when the coordinator resigns: the next one sends the markers that are missing."""
        self._coordinator_epoch = coordinator_epoch
        self._on_done = on_done

    def marker(self, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
        """The marker for some of the partitions."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        return WritableTxnMarker(
            producer_id=self.markers.producer.producer_id,
            producer_epoch=self.markers.producer.epoch,
            transaction_result=self.markers.commits,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=rows) for name, rows in topics.items()],
            coordinator_epoch=self._coordinator_epoch(),
            transaction_version=self.markers.client_version,
        )

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions need no marker any more; with the last one the transaction can be completed."""
        if self.is_cancelled or not self.remaining:
            return
        self.remaining.difference_update(partitions)
        if not self.remaining:
            self._on_done()

    def next_pause_ms(self) -> int:
        """The pause before the next attempt."""
        self.attempts += 1
        return min(RETRY_MS << min(self.attempts - 1, 10), RETRY_MS_MAX)
