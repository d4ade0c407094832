"""Which batches belong to aborted transactions, and which markers have outlived their transactions' records.

What was aborted is told by the `.txnindex` files, those of later segments too: a transaction may end long after the
segment in which it began. The walk notes which transactions still have batches; only a marker without any may go.
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
    """Every transaction that a segment from `base` on says was aborted, by first offset; raises OSError."""
    found: list[AbortedTransaction] = []
    files = OpenFiles(disk, limit=1)
    for name in disk.list_directory(directory):
        segment = names.offset_of(name, names.TRANSACTION_INDEX)
        if segment is not None and segment >= base:
            handle = Handle(files, f"{directory}/{name}")
            found += TransactionIndex(handle, exists=True).entries()
            handle.close()
    return sorted(found, key=lambda aborted: aborted.first_offset)


class Transactions:
    """The transactions of one walk over the log, from its oldest batch on."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, deque[AbortedTransaction]] = defaultdict(deque)
        """By producer, oldest first; one that ended before where the walk is has gone."""
        for transaction in aborted:
            self._aborted[transaction.producer_id].append(transaction)
        self._seen_aborted: set[int] = set()
        """Producers with a batch of the aborted transaction that their queue begins with."""
        self._seen_committed: set[int] = set()
        """Producers with a batch of a transaction that was not aborted, whose marker is still to come."""

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
        """Note a control batch: whether it has outlived its transaction, and what it aborted of what is still there.

        An empty control batch says nothing any more. What is not an end of a transaction stays for ever. Raises
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
        # The index knows nothing of it: without records it may go, with some it is all that tells of the abort.
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
