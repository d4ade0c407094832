"""WriteTxnMarkers: append the control batches that end transactions, for their coordinators (KIP-98)."""

from __future__ import annotations

from typing import Final

from sordini.broker.dispatch import Call, RespondLater, Route
from sordini.broker.handlers.acknowledging import respond_when_finished
from sordini.broker.handlers.request_checks import InterBrokerGuard
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sordini.protocol.records.batch import CURRENT_MAGIC, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.replication.acks import PartitionAppend, finish_appends
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater, Clock
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

TIMEOUT_MS: Final = 30_000
"""How long a marker may take to be committed; `request.timeout.ms` of Apache Kafka. The coordinator retries."""


MARKER_STEPS: Final = 25
"""The cost of appending one."""


class MarkersHandler:
    """Appends markers as a leader; each is answered when it is committed.

    A retried marker is appended again, and has no effect. On a broker without a cluster there is no coordinator: an
    operator sends a marker to end a transaction in a log of another broker's (KIP-664). It is appended where such a
    transaction is open, and refused elsewhere.
    """

    def __init__(
        self, replicas: ReplicaSet, clock: Clock, brokers: InterBrokerGuard, later: RespondLater, call_later: CallLater
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._brokers = brokers
        self._later = later
        self._call_later = call_later

    def route(self) -> Route:
        return Route(ApiKey.WRITE_TXN_MARKERS, self.handle, self.error_response)

    def handle(self, call: Call) -> Work[WriteTxnMarkersResponse | DelayedResponse]:
        self._brokers.check_listener(call)
        request: WriteTxnMarkersRequest = call.body
        now_ms = self._clock.now_ms()
        appends: list[PartitionAppend] = []
        response = WriteTxnMarkersResponse()
        try:
            for marker in request.markers:
                response.markers.append((yield from self._end(marker, now_ms, appends)))
        finally:  # Also when the connection closes half-way: what is appended is appended.
            unfinished = finish_appends(appends, all_replicas=True)
        if unfinished is None:
            return response
        return respond_when_finished(call, response, unfinished, self._later, self._call_later, TIMEOUT_MS)

    def _end(
        self, marker: WritableTxnMarker, now_ms: int, appends: list[PartitionAppend]
    ) -> Work[WritableTxnMarkerResult]:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        yield 1
        for topic in marker.topics:
            yield 1
            rows = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(rows)
            for index in topic.partition_indexes:
                yield MARKER_STEPS
                row = WritableTxnMarkerPartitionResult(partition_index=index)
                rows.partitions.append(row)
                try:
                    partition = self._replicas.partition(topic.name, index)
                    if not self._brokers.is_clustered:
                        partition.log.producers.check_open(marker.producer_id)
                    end_offset = _append(partition, marker, now_ms)
                    appends.append(PartitionAppend(partition, partition.require_leader(), end_offset, row))
                except BrokerError as error:
                    row.error_code = error.code
                except StorageError:
                    row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result

    @staticmethod
    def error_response(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
        """The same code for every partition of the request."""
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )


def _append(partition: Partition, marker: WritableTxnMarker, now_ms: int) -> int:
    """Append one marker; the log end offset after it.

    Raises StorageError and BrokerError: not the leader, too few in-sync replicas, a producer or a coordinator that is
    fenced, a topic whose format has no transactions.
    """
    partition.require_leader()
    if partition.settings.rules.magic != CURRENT_MAGIC:
        raise BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{partition.name} is stored in an old format")
    partition.log.producers.check_marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch)
    batch = memoryview(
        bytearray(
            build_marker(
                Marker(COMMIT if marker.transaction_result else ABORT, marker.coordinator_epoch),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp_ms=now_ms,
            )
        )
    )
    checked = CheckedBatches(batch, [(0, read_header(batch))])
    return partition.append(checked, now_ms, all_replicas=True).end_offset
