"""Appending a transaction marker to a partition that this broker leads: for coordinators here and on other brokers."""

from __future__ import annotations

from sordini.broker.coordinators.journal import TransactionalProducer
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.write_txn_markers import WritableTxnMarker
from sordini.protocol.records.batch import CURRENT_MAGIC, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.replication.partition import Partition


class MarkerLog:
    """Appends markers. The group coordinator applies those in __consumer_offsets."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def append(self, partition: Partition, marker: WritableTxnMarker, now_ms: int) -> int:
        """Append one marker; the log end offset after it. `acks.finish_appends` follows.

        Raises StorageError and BrokerError: not the leader, or of offsets that are still being loaded, too few in-sync
        replicas, a producer or a coordinator that is fenced, a topic whose format has no transactions.
        """
        if partition.name.topic != OFFSETS_TOPIC:
            return _append(partition, marker, now_ms)
        self._groups.check_marker(partition)
        end_offset = _append(partition, marker, now_ms)
        producer = TransactionalProducer(marker.producer_id, marker.producer_epoch)
        self._groups.marker_appended(partition, producer, end_offset, commit=marker.transaction_result)
        return end_offset


def _append(partition: Partition, marker: WritableTxnMarker, now_ms: int) -> int:
    partition.require_leader()
    if partition.settings.rules.magic != CURRENT_MAGIC:
        raise BrokerError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{partition.name} is stored in an old format")
    partition.log.producers.check_marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        is_epoch_raised=marker.transaction_version >= RAISES_EPOCH,
    )
    batch = memoryview(
        build_marker(
            Marker(COMMIT if marker.transaction_result else ABORT, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
    )
    checked = CheckedBatches(batch, [(0, read_header(batch))])
    return partition.append(checked, now_ms, all_replicas=True).end_offset
