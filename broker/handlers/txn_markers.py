"""WriteTxnMarkers: a transaction's coordinator has a leader write how the transaction ended (KIP-98)."""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.broker.clock import Clock
from sordini.broker.dispatch import Call, RespondLater, Route
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
from sordini.replication.acks import CallLater, PartitionAppend, answer_when_committed, committed
from sordini.replication.partition import Partition
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

TIMEOUT_MS: Final = 30_000
"""How long the in-sync replicas may take to get a marker; `request.timeout.ms` of Apache Kafka. The coordinator asks
again."""


MARKER_STEPS: Final = 25
"""What it takes to write one."""


class MarkersHandler:
    """Appends markers as a leader; each is answered once all in-sync replicas have it.

    A marker that comes again, since its answer was lost, is written again: it ends nothing any more. A broker that is
    alone has no coordinator to listen to. There a marker is an operator's, who ends a transaction that another broker's
    log came with (KIP-664): it is written where such a transaction is open, and refused elsewhere.
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
        written: list[PartitionAppend] = []
        response = WriteTxnMarkersResponse()
        try:
            for marker in request.markers:
                response.markers.append((yield from self._end(marker, now_ms, written)))
        finally:  # What was written before the connection died is written.
            for partition, *_ in written:
                partition.notify_purgatory()
        if any(part.partition.log.needs_flush for part in written):
            return self._later(call, self._flush(written, response))
        waiting = [part for part in written if not part.is_committed]
        if waiting:
            return answer_when_committed(call, response, waiting, self._call_later, TIMEOUT_MS)
        return response

    def _end(
        self, marker: WritableTxnMarker, now_ms: int, written: list[PartitionAppend]
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
                    written.append(
                        PartitionAppend(partition, partition.require_leader(), _write(partition, marker, now_ms), row)
                    )
                except BrokerError as error:
                    row.error_code = error.code
                except StorageError:
                    row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result

    async def _flush(
        self, written: list[PartitionAppend], response: WriteTxnMarkersResponse
    ) -> WriteTxnMarkersResponse:
        try:
            await asyncio.gather(*(part.partition.log.flush_if_due() for part in written))
        except (BrokerError, StorageError) as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        await committed(written, self._call_later, TIMEOUT_MS)
        return response

    @staticmethod
    def error_response(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
        """The same code for every partition named."""
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


def _write(partition: Partition, marker: WritableTxnMarker, now_ms: int) -> int:
    """Append one marker; where the log ends behind it.

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
