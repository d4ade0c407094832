"""WriteTxnMarkers: append the control batches that end transactions, for their coordinators (KIP-98)."""

from __future__ import annotations

from typing import Final

from sordini.broker.coordinators.newest_connection import NewestConnections
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.acknowledging import respond_when_finished
from sordini.broker.requests.call import Call, RespondLater, Route
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.requests.request_checks import InterBrokerGuard
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import BROKERS_ONLY
from sordini.broker.transactions.markers import MarkerLog
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode, WireError
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from sordini.replication.acks import PartitionAppend, finish_appends
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
        self,
        replicas: ReplicaSet,
        markers: MarkerLog,
        clock: Clock,
        brokers: InterBrokerGuard,
        later: RespondLater,
        call_later: CallLater,
        connections: NewestConnections | None = None,
    ) -> None:
        """`connections` remembers those of the markers; None where markers may come on older connections."""
        self._replicas = replicas
        self._markers = markers
        self._clock = clock
        self._brokers = brokers
        self._later = later
        self._call_later = call_later
        self._connections = connections

    def route(self) -> Route:
        return Route(ApiKey.WRITE_TXN_MARKERS, self.handle, self.error_response, BROKERS_ONLY)

    def handle(self, call: Call) -> Work[WriteTxnMarkersResponse | DelayedResponse]:
        self._brokers.check_listener(call)
        request: WriteTxnMarkersRequest = call.body
        now_ms = self._clock.now_ms()
        appends: list[PartitionAppend] = []
        response = WriteTxnMarkersResponse()
        try:
            for marker in request.markers:
                self._check_connection(marker, call.peer.number)
                response.markers.append((yield from self._end(marker, now_ms, appends)))
        finally:  # Also when the connection closes half-way: what is appended is appended.
            unfinished = finish_appends(appends, all_replicas=True)
        if unfinished is None:
            return response
        return respond_when_finished(call, response, unfinished, self._later, self._call_later, TIMEOUT_MS)

    def _check_connection(self, marker: WritableTxnMarker, connection: int) -> None:
        """A marker that was sent again may arrive a second time in the next transaction, whose epochs are the same.

        Those of a producer of transaction.version 2 are not.

        Raises WireError for an older connection than the newest of this producer's markers: it is closed without a
        response, and a coordinator that lives sends the marker on another one.
        """
        key = f"{marker.producer_id}/{marker.coordinator_epoch}"
        if self._connections is None or marker.transaction_version >= RAISES_EPOCH:
            return
        if not self._connections.admit(key, connection):
            raise WireError(f"markers of producer {marker.producer_id} have a newer connection")

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
                    end_offset = self._markers.append(partition, marker, now_ms)
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
