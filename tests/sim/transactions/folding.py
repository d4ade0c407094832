"""What became of each record in a log, by the markers behind it: the truth that answers and reads are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from sordini.broker.transactions import records
from sordini.protocol.records.batch import BatchHeader, read_header, read_records
from sordini.protocol.records.control import COMMIT, read_marker
from sordini.protocol.types import TopicPartition
from tests.sim.cluster.images import Batch, Image
from tests.sim.history import Seen
from tests.sim.records import seen_in
from tests.sim.transactions.history import NOTE, OFFSETS, STATE_TOPIC


class Fate(Enum):
    PLAIN = "of no transaction"
    OPEN = "without a marker"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Folded(NamedTuple):
    """One record of a log."""

    seen: Seen
    fate: Fate
    producer_id: int
    epoch: int
    marker_offset: int = -1


def whole_logs(images: Iterable[Image]) -> dict[TopicPartition, Image]:
    """Of each partition the image with the highest watermark; in the end all of them are equal (I9)."""
    found: dict[TopicPartition, Image] = {}
    for image in images:
        known = found.get(image.partition)
        if known is None or (image.high_watermark, image.end) > (known.high_watermark, known.end):
            found[image.partition] = image
    return found


def fold(image: Image) -> list[Folded]:
    """The records of a log in its order, markers left out; in `__consumer_offsets` the notes of offsets."""
    folded: list[Folded] = []
    is_open: dict[int, list[int]] = {}
    for view, header in _read(image.batches):
        if header.is_control:
            fate = Fate.COMMITTED if _commits(view, header) else Fate.ABORTED
            for index in is_open.pop(header.producer_id, ()):
                folded[index] = folded[index]._replace(fate=fate, marker_offset=header.base_offset)
            continue
        fate = Fate.OPEN if header.is_transactional else Fate.PLAIN
        for seen in _values(image.partition, view, header):
            if header.is_transactional:
                is_open.setdefault(header.producer_id, []).append(len(folded))
            folded.append(Folded(seen, fate, header.producer_id, header.producer_epoch))
    return folded


def producer_epochs(image: Image) -> Iterator[tuple[int, int, int]]:
    """The offset, producer id and epoch of each transactional batch and marker."""
    for _, header in _read(image.batches):
        if header.is_transactional:
            yield header.base_offset, header.producer_id, header.producer_epoch


def states(images: Iterable[Image]) -> dict[str, records.TransactionValue]:
    """The newest record of each transactional id."""
    found: dict[str, records.TransactionValue] = {}
    for image in images:
        if image.partition.topic != STATE_TOPIC:
            continue
        for view, header in _read(image.batches):
            for record in read_records(view, header):
                key, value = records.read_key(record.key or b""), records.read_value(record.value or b"")
                assert isinstance(key, records.TransactionKey), key
                assert isinstance(value, records.TransactionValue), value
                found[key.transactional_id] = value
    return found


def _read(batches: Iterable[Batch]) -> Iterator[tuple[memoryview, BatchHeader]]:
    for batch in batches:
        view = memoryview(batch.data)
        yield view, read_header(view, 0)


def _commits(view: memoryview, header: BatchHeader) -> bool:
    return next(read_marker(record).kind for record in read_records(view, header)) == COMMIT


def _values(partition: TopicPartition, view: memoryview, header: BatchHeader) -> Iterator[Seen]:
    for seen in seen_in(view, header):
        if partition != OFFSETS:
            yield seen
        elif (note := NOTE.search(seen.value)) is not None:
            yield Seen(seen.offset, note.group())
