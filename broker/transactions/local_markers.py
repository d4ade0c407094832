"""The markers for partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sordini.broker.coordinators.ports import Ports
from sordini.broker.transactions.markers import MarkerLog
from sordini.broker.transactions.transaction_end import TransactionEnd
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.acks import PartitionAppend, UnfinishedAppends, finish_appends
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.errors import StorageError

TIMEOUT_MS: Final = 30_000
"""How long a marker may take to be committed, before it is written again."""

OnCodes = Callable[[Mapping[TopicPartition, int]], None]


class _Row:
    """One partition's error code, set by `replication/acks.py`."""

    __slots__ = ("error_code",)

    def __init__(self) -> None:
        self.error_code: int = ErrorCode.NONE


class LocalMarkers:
    """Appends to partitions that this broker leads, and waits for the commit."""

    def __init__(self, replicas: ReplicaSet, markers: MarkerLog, ports: Ports) -> None:
        self._replicas = replicas
        self._markers = markers
        self._ports = ports

    def leads(self, name: TopicPartition) -> bool:
        partition = self._replicas.get(*name)
        return partition is not None and partition.leader is not None

    def append(self, end: TransactionEnd, partitions: Iterable[TopicPartition], on_codes: OnCodes) -> None:
        """Append a marker to each; `on_codes` is called once, when all are committed or failed. Raises nothing."""
        now_ms = self._ports.clock.now_ms()
        rows: dict[TopicPartition, _Row] = {}
        appends: list[PartitionAppend] = []
        marker = end.marker(())
        for name in partitions:
            row = rows[name] = _Row()
            try:
                partition = self._replicas.partition(*name)
                end_offset = self._markers.append(partition, marker, now_ms)
                appends.append(PartitionAppend(partition, partition.require_leader(), end_offset, row))
            except BrokerError as error:
                row.error_code = error.code
            except StorageError:
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR

        def answer() -> None:
            on_codes({name: row.error_code for name, row in rows.items()})

        def answer_later() -> None:
            # What follows is appended after the Fetch that made the commit (see `TransactionShard`).
            self._ports.call_later(0, answer)

        unfinished = finish_appends(appends, all_replicas=True)
        if unfinished is None:
            answer()
        elif unfinished.needs_flush:
            self._ports.spawn(self._wait(unfinished, answer))
        else:
            unfinished.when_committed(answer_later, self._ports.call_later, TIMEOUT_MS)

    async def _wait(self, unfinished: UnfinishedAppends, answer: Callable[[], None]) -> None:
        try:
            await unfinished.wait(self._ports.call_later, TIMEOUT_MS)
        except BrokerError as error:
            for append in unfinished.appends:
                append.result.error_code = error.code
        answer()
