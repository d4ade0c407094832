"""Record batches of a transaction before it is written: encoded in Spark's tasks, kept in files, sent by the driver.

    STAGING/FOLDER/UUID.records     one file of one task attempt; FOLDER is a batch's number, or a name of its own

A file has entry after entry:

    topic bytes   int16
    topic         UTF-8
    partition     int32
    size          int32
    batch         a record batch (format 2), compressed, without a producer id

A task may be repeated or run twice: the driver is given the files of one successful attempt, and only those are
written. All others are deleted with their batch.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]
from pyarrow import fs

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.outgoing_rows import OutgoingRow, PartitionChooser, outgoing_rows
from sordini.pipeline.source.sink_options import Compression, SinkOptions
from sordini.protocol.types import TopicPartition

log = logging.getLogger(__name__)

_CODECS: Final[dict[Compression, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_FORMAT: Final = 2
_TOPIC: Final = struct.Struct(">h")
_PLACE: Final = struct.Struct(">ii")


class NotStaged(PipelineError):
    """A staging location cannot be written or read."""


@dataclass(frozen=True)
class StagedFile:
    """The batches of one task; `path` is below the staging location."""

    path: str
    records: int
    partitions: tuple[TopicPartition, ...]


class Entry(NamedTuple):
    """One batch, to be stamped and sent."""

    partition: TopicPartition
    batch: bytearray


class Staging:
    """A staging location: a path or a URI (of pyarrow.fs: file, s3, gs, ...) that driver and executors reach."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        try:
            self._files, self._root = fs.FileSystem.from_uri(self.location)
        except (OSError, ValueError) as error:
            raise NotStaged(f"the staging location {location} cannot be used: {error}") from None

    def create(self, path: str) -> IO[bytes]:
        """A new file, with its folders. Raises NotStaged."""
        full = f"{self._root}/{path}"
        try:
            self._files.create_dir(full.rpartition("/")[0])
            stream: IO[bytes] = self._files.open_output_stream(full)
        except OSError as error:
            raise NotStaged(f"{self.location}/{path} cannot be written: {error}") from None
        return stream

    def entries(self, path: str) -> Iterator[Entry]:
        """The batches of a file in their order. Raises NotStaged for one that is missing or ends too early."""
        try:
            with self._files.open_input_stream(f"{self._root}/{path}", buffer_size=1 << 20) as stream:
                while head := stream.read(_TOPIC.size):
                    topic = _exactly(stream, *_TOPIC.unpack(head)).decode()
                    number, size = _PLACE.unpack(_exactly(stream, _PLACE.size))
                    yield Entry(TopicPartition(topic, number), bytearray(_exactly(stream, size)))
        except (OSError, struct.error) as error:
            raise NotStaged(f"{self.location}/{path} cannot be read: {error}") from None

    def names(self) -> list[str]:
        """The folders of staged files; none where they cannot be listed."""
        try:
            return [
                info.base_name for info in self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
            ]
        except OSError as error:
            log.warning("%s cannot be listed: %s", self.location, error)
            return []

    def discard(self, *folders: str) -> None:
        """Delete folders. A failure is logged: files are only left."""
        for folder in folders:
            try:
                self._files.delete_dir(f"{self._root}/{folder}")
            except OSError as error:
                log.warning("%s/%s is left: %s", self.location, folder, error)


def _exactly(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise OSError("it ends within a record batch")
    return data


def stage(batches: Iterator[pa.RecordBatch], folder: str, options: SinkOptions) -> StagedFile | None:
    """Encode the rows of one task into a file; None without rows. Raises NotWritten, NotStaged, UnknownTopic."""
    assert options.transaction is not None, "the sink has a transactional id"
    staging = Staging(options.transaction.staging)
    path = f"{folder}/{uuid4().hex}.records"
    writer: _Writer | None = None
    with Client(options.client) as client:
        try:
            for batch in batches:
                if batch.num_rows:
                    writer = writer or _Writer(staging.create(path), client, options)
                    writer.write(batch)
            if writer is None:
                return None
            writer.finish()
        except OSError as error:
            raise NotStaged(f"{staging.location}/{path} cannot be written: {error}") from None
        finally:
            if writer is not None:
                writer.file.close()
    return StagedFile(path, writer.records, tuple(sorted(writer.written)))


class _Writer:
    """The batches of a task that are being filled, one for each partition."""

    def __init__(self, file: IO[bytes], client: Client, options: SinkOptions) -> None:
        self.file = file
        self.records = 0
        self.written: set[TopicPartition] = set()
        self._client = client
        self._options = options
        self._choosers: dict[str, PartitionChooser] = {}
        self._filling: dict[TopicPartition, _Filling] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        for row in outgoing_rows(batch, self._options.topic):
            chooser = self._choosers.get(row.topic) or self._chooser(row.topic)
            place = TopicPartition(row.topic, chooser.partition_of(row))
            filling = self._filling.get(place)
            if filling is None:
                filling = self._filling[place] = self._new()
            if not filling.add(row):
                self._put(place, filling)
                chooser.next_partition()
                filling = self._filling[place] = self._new()
                filling.add(row)  # The first record of a batch is taken whatever its size.
            self.records += 1

    def finish(self) -> None:
        """Write the batches that are not full; the file is complete then."""
        for place, filling in self._filling.items():
            self._put(place, filling)

    def _chooser(self, topic: str) -> PartitionChooser:
        partitions = existing_partitions(self._client, topic)
        chooser = self._choosers[topic] = PartitionChooser(topic, partitions)
        return chooser

    def _new(self) -> _Filling:
        limit = min(self._options.batch_bytes, self._options.request_bytes_max)
        return _Filling(_CODECS[self._options.compression], limit)

    def _put(self, place: TopicPartition, filling: _Filling) -> None:
        topic, batch = place.topic.encode(), filling.built()
        self.written.add(place)
        head = _TOPIC.pack(len(topic)) + topic + _PLACE.pack(place.partition, len(batch))
        self.file.write(head)
        self.file.write(batch)


class _Filling:
    """A record batch under construction."""

    def __init__(self, codec: int, bytes_max: int) -> None:
        self._builder = DefaultRecordBatchBuilder(_FORMAT, codec, 0, -1, -1, -1, bytes_max)
        self._count = 0

    def add(self, row: OutgoingRow) -> bool:
        """False when the batch is full."""
        if self._builder.append(self._count, None, row.key, row.value, row.headers) is None:
            return False
        self._count += 1
        return True

    def built(self) -> bytearray:
        built: bytearray = self._builder.build()
        return built


def existing_partitions(client: Client, topic: str) -> list[int]:
    """A topic's partitions; the brokers may create it. Raises UnknownTopic."""
    client.create_missing([topic])
    return client.partitions([topic])[topic]
