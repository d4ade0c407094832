"""What a node's files hold, read without the broker's help: batches, epochs, and the checkpoints beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right, read_header
from sordini.protocol.types import TopicPartition
from tests.sim.history import Seen
from tests.sim.records import seen_in

WATERMARKS = "replication-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"


class Batch(NamedTuple):
    """One batch as stored."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    data: bytes

    def seen(self) -> Iterator[Seen]:
        view = memoryview(self.data)
        yield from seen_in(view, read_header(view, 0))


class Image(NamedTuple):
    """One partition of one node at one time."""

    node: int
    at: float
    partition: TopicPartition
    batches: tuple[Batch, ...]
    epochs: tuple[tuple[int, int], ...]
    """The epoch cache's file: each epoch and where it began."""
    high_watermark: int
    """The checkpoint; 0 without one."""

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


def images_of(node: int, at: float, directory: str, tree: Mapping[str, bytes]) -> dict[TopicPartition, Image]:
    """Every partition in a log directory; those being deleted left out."""
    watermarks = _watermarks(tree.get(f"{directory}/{WATERMARKS}", b""))
    logs: dict[TopicPartition, list[Batch]] = {}
    for path, data in sorted(tree.items()):
        folder, _, name = path.rpartition("/")
        partition = _partition(folder.rpartition("/")[2])
        if partition is None or not folder.startswith(f"{directory}/") or not name.endswith(".log"):
            continue
        batches = logs.setdefault(partition, [])
        for batch in _batches(data):
            if batches and batch.base_offset != batches[-1].last_offset + 1:
                break
            batches.append(batch)
    images = {}
    for partition, batches in logs.items():
        epochs = _epochs(tree.get(f"{directory}/{partition.topic}-{partition.partition}/{EPOCHS}", b""))
        watermark = watermarks.get(partition, 0)
        images[partition] = Image(node, at, partition, tuple(batches), epochs, watermark)
    return images


def _batches(data: bytes) -> Iterator[Batch]:
    """Up to the first invalid batch, where recovery would truncate."""
    position, view = 0, memoryview(data)
    while len(data) - position >= HEADER_SIZE:
        try:
            header = read_header(view, position)
        except BrokerError:
            return
        if not HEADER_SIZE <= header.size <= len(data) - position or not crc_is_right(view, position, header):
            return
        whole = data[position : position + header.size]
        yield Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, whole)
        position += header.size


def _partition(folder: str) -> TopicPartition | None:
    topic, _, number = folder.rpartition("-")
    return TopicPartition(topic, int(number)) if topic and number.isdigit() else None


def _watermarks(text: bytes) -> dict[TopicPartition, int]:
    found = {}
    for line in text.decode().splitlines()[2:]:
        topic, partition, offset = line.split()
        found[TopicPartition(topic, int(partition))] = int(offset)
    return found


def _epochs(text: bytes) -> tuple[tuple[int, int], ...]:
    return tuple((int(line.split()[0]), int(line.split()[1])) for line in text.decode().splitlines()[2:])
