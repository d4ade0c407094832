"""`spark.readStream.format("sordini")`: micro-batches with a limit, and a checkpoint with the ids of its topics.

One reader stays on the driver as long as its query and returns offsets; unpickled copies of it in the workers read.
The reader on the driver has one client, and each copy connects on its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source import offset_lookup
from sordini.pipeline.source.batch_planning import DataLost, advance, count, is_to_wait, missing, ranges, split
from sordini.pipeline.source.client import Client, ClientSettings
from sordini.pipeline.source.options import SourceOptions
from sordini.pipeline.source.positions import Offsets, Position
from sordini.pipeline.source.range_reader import RangePartition, read_piece
from sordini.protocol.types import TopicPartition

log = logging.getLogger(__name__)

_LATEST_TRIES_MAX: Final = 4
_RETRY_SECONDS: Final = 0.5
"""A new leader may report an older end for a moment; the request is repeated before records count as lost."""


class StreamCluster(offset_lookup.OffsetBroker, Protocol):
    """The requests of the driver's reader to a cluster."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group without members."""

    def close(self) -> None:
        """Close all connections."""


class StreamPorts(NamedTuple):
    """The ports of a reader: the cluster and the clock."""

    connect: Callable[[ClientSettings], StreamCluster] = Client
    monotonic: Callable[[], float] = time.monotonic
    """Seconds."""
    pause: Callable[[float], None] = time.sleep
    """For this many seconds."""


_SYSTEM_PORTS: Final = StreamPorts()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls for one stream."""

    def __init__(self, options: SourceOptions, ports: StreamPorts = _SYSTEM_PORTS) -> None:
        self._options = options
        self._ports = ports
        self._connected: StreamCluster | None = None
        self._target: Position | None = None
        self._latest: Position | None = None
        self._advanced_at = float("-inf")
        self._committed: Offsets = {}
        self._lost: list[str] = []
        """What the log has of losses: a topic that is gone is one in every micro-batch."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint starts."""
        return offset_lookup.start(self._client, self._options).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The options' limit; Spark passes it to `latestOffset`, or ReadAllAvailable for a trigger of once."""
        admission = self._options.admission
        if admission.offsets_max is not None:
            return ReadMaxRows(admission.offsets_max)
        if admission.offsets_min is not None:
            return ReadMinRows(admission.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end offsets of the whole query."""
        self._target = offset_lookup.ends(self._client, self._options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends; `start` itself when there is none.

        Raises DataLost, with failOnDataLoss, when topics or partitions were deleted or logs truncated below `start`.
        """
        since = Position.from_json(start)
        if not since.is_start:
            self._commit_to_group(since.offsets)
        latest = self._latest = self._ends(since)
        lost = missing(since, latest)
        if lost and self._options.fail_on_data_loss:
            raise DataLost("; ".join(lost))
        for what in self._unreported(lost):
            log.warning("records lost: %s", what)
        self._lost = lost
        is_limited = not isinstance(limit, ReadAllAvailable)
        waited_ms = (self._ports.monotonic() - self._advanced_at) * 1000
        # With a target no more records arrive.
        may_wait = is_limited and self._target is None
        if may_wait and is_to_wait(self._options.admission, count(ranges(since, latest)), waited_ms):
            return start
        end = advance(since, latest, self._options.admission.offsets_max if is_limited else None)
        if end is not since:
            self._advanced_at = self._ports.monotonic()
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The log end offsets when last requested; their difference to the position is the lag."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split a micro-batch into tasks. A repeated micro-batch has the same records."""
        options, until = self._options, Position.from_json(end)
        found = ranges(Position.from_json(start), until)
        pieces = split(found, options.partitions_min, options.records_per_partition_max)
        return [RangePartition(piece, until.topic_ids.get(piece.topic, "")) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one piece, in a worker."""
        assert isinstance(partition, RangePartition), "Spark passes what `partitions` returned"
        return read_piece(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the query's position to `commit_group`.

        Spark calls this for a micro-batch when it has planned the next, and never for a query's last. But it calls
        `latestOffset` only when all before is done, so that method commits first.
        """
        self._commit_to_group(Position.from_json(end).offsets)

    def stop(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    @property
    def _client(self) -> StreamCluster:
        # Connect late: readers are also created in processes that send no requests, and are pickled there.
        if self._connected is None:
            self._connected = self._ports.connect(self._options.client)
        return self._connected

    def _commit_to_group(self, offsets: Offsets) -> None:
        """Commit if there is a group. A failure is logged and retried later: the checkpoint is authoritative."""
        group = self._options.commit_group
        if group is None or offsets == self._committed:
            return
        there = offsets.keys() if self._latest is None else self._latest.offsets.keys()
        named = {
            TopicPartition(topic, number): at
            for topic, each in offsets.items()
            if topic in there
            for number, at in each.items()
        }
        try:
            self._client.commit(group, named)
            self._committed = offsets
        except PipelineError as error:
            log.warning("offsets not committed to group %s: %s", group, error)

    def _ends(self, since: Position) -> Position:
        """The log end offsets, or the target of the query where it has one."""
        if self._target is None:
            return self._latest_offsets(since)
        if self._unreported(missing(since, self._target)):
            self._target = self._latest_offsets(since)
        return self._target

    def _unreported(self, lost: list[str]) -> list[str]:
        return [what for what in lost if what not in self._lost]

    def _latest_offsets(self, since: Position) -> Position:
        latest = offset_lookup.ends(self._client, self._options)
        for _ in range(_LATEST_TRIES_MAX - 1):
            if not self._unreported(missing(since, latest)):
                break
            self._ports.pause(_RETRY_SECONDS)
            latest = offset_lookup.ends(self._client, self._options)
        return latest
