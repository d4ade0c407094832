"""Which batches belong to aborted transactions, and which markers have no batches of their transaction left.

The `.txnindex` files list the aborted transactions, those of later segments included: a transaction may end long after
the segment in which it began. A pass notes which transactions still have batches; only markers without any are removed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable

from sordini.protocol.records.batch import BatchHeader, read_records
from sordini.protocol.records.control import ABORT, COMMIT, read_marker
from sordini.storage import names
from sordini.storage.disk import Disk
from sordini.storage.open_files import Handle, OpenFiles
from sordini.storage.producer_state import AbortedTransaction
from sordini.storage.txn_index import TransactionIndex


def aborted_from(disk: Disk, directory: str, base: int) -> list[AbortedTransaction]:
    """Every aborted transaction in the indexes of segments from `base` on, by first offset; raises OSError."""
    found: list[AbortedTransaction] = []
    files = OpenFiles(disk, limit=1)
    for name in disk.list_directory(directory):
        segment = names.offset_of(name, names.TRANSACTION_INDEX)
        if segment is not None and segment >= base:
            handle = Handle(files, f"{directory}/{name}")
            found += TransactionIndex(handle, exists=True).entries()
            handle.close()
    return sorted(found, key=lambda aborted: aborted.first_offset)


class CleanedTransactions:
    """The transactions of one pass over the log, from its oldest batch on."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, deque[AbortedTransaction]] = defaultdict(deque)
        """By producer, oldest first, without those that ended before the current offset."""
        for transaction in aborted:
            self._aborted[transaction.producer_id].append(transaction)
        self._seen_aborted: set[int] = set()
        """Producers with a batch of the first aborted transaction in their queue."""
        self._seen_committed: set[int] = set()
        """Producers with a batch of a transaction that was not aborted, before its marker."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a data batch: whether it is part of an aborted transaction."""
        producer_id = header.producer_id
        aborted = self._at(producer_id, header.base_offset)
        if aborted is not None and aborted.first_offset <= header.base_offset:
            self._seen_aborted.add(producer_id)
            return True
        self._seen_committed.add(producer_id)
        return False

    def end(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """Note a control batch: whether its transaction has no batches left, and the aborted transaction that has.

        An empty control batch has no marker left. Control records that end no transaction are always retained. Raises
        BrokerError for a marker that cannot be read.
        """
        if header.record_count == 0:
            return True, None
        kind = read_marker(next(read_records(batch, header))).kind
        producer_id = header.producer_id
        if kind == COMMIT:
            is_needed = producer_id in self._seen_committed
            self._seen_committed.discard(producer_id)
            return not is_needed, None
        if kind != ABORT:
            return False, None
        aborted = self._at(producer_id, header.base_offset)
        if aborted is not None and aborted.last_offset == header.base_offset and producer_id in self._seen_aborted:
            self._seen_aborted.discard(producer_id)
            return False, aborted
        # It is not in the index: with records left, only the marker shows that they were aborted.
        is_needed = producer_id in self._seen_committed
        self._seen_committed.discard(producer_id)
        return not is_needed, None

    def _at(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        """The producer's first aborted transaction that ends at `offset` or later."""
        queue = self._aborted.get(producer_id)
        while queue and queue[0].last_offset < offset:
            queue.popleft()
            self._seen_aborted.discard(producer_id)
        return queue[0] if queue else None
