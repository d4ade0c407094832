"""`spark.read.format("sordini")`: partitions are planned once for each execution, which fixes the end offsets."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sordini.pipeline.errors import BadSetting
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.batch_planning import ranges, split
from sordini.pipeline.source.client import Client
from sordini.pipeline.source.options import Edge, SourceOptions, Timestamps
from sordini.pipeline.source.positions import Position
from sordini.pipeline.source.range_reader import RangePartition, read_piece


class BatchReader(DataSourceReader):
    """Plans on the driver and reads in workers; it is pickled in between, so it holds options only."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Request start and end offsets from the brokers; Spark shows an error raised here as the query's error."""
        options = self._options
        with Client(options.client) as client:
            start, end = offset_lookup.start(client, options), offset_lookup.stop(client, options)
        _check_order(options, start, end)
        pieces = split(ranges(start, end), options.partitions_min, options.records_per_partition_max)
        return [RangePartition(piece, end.topic_ids.get(piece.topic, "")) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one piece; none for the placeholder that Spark passes when there are no pieces."""
        return read_piece(self._options, partition) if isinstance(partition, RangePartition) else iter(())


def _check_order(options: SourceOptions, start: Position, end: Position) -> None:
    """Explicit offsets past the end are an error; edges and timestamps may leave nothing to read."""
    if isinstance(options.starting, Edge | Timestamps):
        return
    for topic, partitions in start.offsets.items():
        for partition, first in partitions.items():
            last = end.offsets.get(topic, {}).get(partition, first)
            if first > last:
                raise BadSetting(f"startingOffsets: {first} in {topic}-{partition} is past the end, {last}")
