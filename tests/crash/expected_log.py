"""The appends to one partition's log, and which of them may and must be found after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sordini.protocol.records.batch import BatchHeader, Record, read_header
from sordini.protocol.types import TopicId, TopicPartition
from sordini.storage.log_config import LogConfig
from sordini.storage.producer_replay import apply_control, apply_data
from sordini.storage.producer_state import AbortedTransaction, ProducerState


class Violation(Exception):
    """The log violated an invariant."""


def require(holds: bool, *said: object) -> None:
    if not holds:
        raise Violation(" ".join(map(str, said)))


class Batch(NamedTuple):
    """One batch as it lies in the log."""

    header: BatchHeader
    data: bytes
    records: tuple[Record, ...]

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def end(self) -> int:
        return self.header.next_offset


def split(buffer: memoryview, records: Iterable[tuple[Record, ...]]) -> list[Batch]:
    """The batches of a buffer that an append has stamped; `records` are what each was built of, from offset 0."""
    found = []
    position = 0
    for group in records:
        header = read_header(buffer, position)
        data = bytes(buffer[position : position + header.size])
        moved = tuple(record._replace(offset=header.base_offset + record.offset) for record in group)
        found.append(Batch(header, data, moved))
        position += header.size
    return found


class Folded(NamedTuple):
    """Producers and aborted transactions, folded over batches."""

    producers: ProducerState
    aborted: list[AbortedTransaction]


def fold(batches: Iterable[Batch]) -> Folded:
    producers, aborted = ProducerState(), []
    for batch in batches:
        if batch.header.producer_id < 0:
            continue
        if batch.header.is_control:
            transaction = apply_control(producers, batch.header, batch.base, batch.data)
            if transaction is not None:
                aborted.append(transaction)
        else:
            apply_data(producers, batch.header, batch.base)
    return Folded(producers, aborted)


class Truth:
    """One partition from its creation to its deletion. Offsets below `promised` survive whatever happens.

    `batches` begin at offset 0, whatever was deleted since. `maybe` are batches of appends that were refused or cut
    off by the end, and of cuts that were: after a power failure they may be found behind what was promised.
    """

    def __init__(self, partition: TopicPartition, topic_id: TopicId, directory: str, config: LogConfig) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.batches: list[Batch] = []
        self.maybe: list[Batch] = []
        self.end = 0
        self.promised = 0
        self.start = 0
        self.start_highest = 0
        """Below it records were deleted once, though a power failure may have brought them back."""
        self.start_may_be = 0
        """How far the start may move by the call that runs."""
        self.start_saved = 0
        """The log start offset of the checkpoint on the disk."""
        self.deleted_to = 0
        """How far DeleteRecords went."""
        self.cut_to = -1
        """The log end offset of the truncation in progress."""
        self.first_offsets: set[int] = set()
        """Where the log began when it was found: what was known of producers then may come from there alone."""
        self.restarted = False
        """A truncation reached into deleted records: the producer state before it is unknown."""
        self.cut_floor = 0
        """Where the batches end that stay whatever becomes of the cut; before the log's start, if it reaches so far."""
        self.epochs: list[tuple[int, int]] = []
        self.leader_epoch = 0
        self.is_deleted = False
        self.is_unsure = False
        """Its creation or deletion was interrupted: it may exist or not."""

    def by_base(self) -> dict[int, list[Batch]]:
        """All that may be found, by base offset."""
        found: dict[int, list[Batch]] = {}
        unsure = (batch for batch in self.maybe if batch.base >= self.promised)
        for batch in (*self.batches, *unsure):
            found.setdefault(batch.base, []).append(batch)
        return found

    def appended(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            require(batch.base == self.end, f"{self.partition} gave {batch.base}, its end was {self.end}")
            self.batches.append(batch)
            self.end = batch.end

    def began_cut(self, offset: int) -> None:
        """A truncation before the batch that holds `offset` begins: from now on less is durable."""
        kept = [batch for batch in self.batches if batch.end <= offset]
        floor = kept[-1].end if kept else 0
        # A truncation that failed half-way took the directory offline, and no other has an effect.
        self.cut_floor = floor if self.cut_to < 0 else min(self.cut_floor, floor)
        self.cut_to = max(self.cut_floor, self.start)
        self.promised = min(self.promised, self.cut_floor)

    def cut(self) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= self.cut_to]
        self.restarted = self.restarted or not self.batches or self.batches[-1].end < self.cut_to
        self.end = self.cut_to
        self.maybe = [batch for batch in self.maybe if batch.base >= self.end]
        self.cut_to = -1

    def adopt(
        self, found: Sequence[Batch], start: int, end: int, epochs: list[tuple[int, int]], *, was_power: bool
    ) -> None:
        """What was found after a crash is the truth from now on."""
        # A process killed in a truncation leaves it unsynced: the records may reappear after a power loss.
        self.maybe = [] if was_power else [*self.maybe, *(batch for batch in self.batches if batch.base >= end)]
        first = found[0].base if found else end
        before = [batch for batch in self.batches if batch.end <= first]
        if before and before[-1].end != first:
            before = []  # The log starts after lost records, of which nothing more is known.
        self.batches = [*before, *found]
        self.first_offsets.add(first)
        self.end, self.start, self.cut_to = end, start, -1
        self.promised = min(self.promised, end)
        self.deleted_to = min(self.deleted_to, start)
        self.epochs = list(epochs)
        self.is_unsure = self.is_deleted = False

    def note_epoch(self, epoch: int) -> None:
        self.leader_epoch = epoch
        self.epochs.append((epoch, self.end))
