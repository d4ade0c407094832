"""Loading of a partition of an internal topic when this broker becomes its leader, and the wait for its commit.

The log is read from its start to its end at that time, in slices of `slice_bytes`, on a thread where the bytes may have
to come from the disk. Only the last value of each key is kept, as bytes: replaced values are never parsed. Between
bounded pieces of work the loop serves other requests.

Records of transactions count from their commit marker on, and those of an aborted one not at all. What has no marker
yet is returned beside the latest values: the marker comes to this broker now.

What cannot be read is skipped, with one log line: a damaged batch must not lose the other keys of the partition.

A coordinator whose records say what has changed needs all records of a key, in their order: it takes each as it is read
(`ReplayRecord`), and nothing is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from sordini.broker.coordinators.open_transactions import OpenTransactions
from sordini.broker.coordinators.ports import Ports
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    BatchHeader,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.control import ABORT, COMMIT, read_marker
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.key_values import KeyValue, key_values_of
from sordini.protocol.types import Offset
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommit
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple

RECORDS_PER_SLICE = 500
"""Read before the loop serves other requests: one or two milliseconds."""
RECORDS_AT_ONCE_IN_ORDER = 20
"""Replayed between two checks of the bound above."""
BYTES_PER_RECORD_IN_ORDER = 50
"""A record that is replayed at once takes as long as one that is kept for each of these: it is decoded, and applied."""
RETRY_S = 1.0

MARKER_BYTES_MAX = 4096
"""The bound on a decompressed control batch: a marker has six bytes."""

LatestValues = dict[bytes, bytes]
"""The last value of each key without a later tombstone."""


ReplayRecord = Callable[[bytes, bytes | None, Offset], str | None]
"""Takes the key and the value of a record, and the first offset of its batch; returns why it is skipped, or None."""


class Loaded(NamedTuple):
    """What a log holds."""

    latest: LatestValues
    open: OpenTransactions[bytes, bytes]
    """The values of transactions without a marker."""
    replayed: int = 0
    """The records that were taken in their order instead."""


async def load(
    partition: Partition,
    ports: Ports,
    *,
    slice_bytes: int,
    is_led: Callable[[], bool],
    begin_replay: Callable[[], ReplayRecord] | None = None,
) -> Loaded | None:
    """Read a partition; None when it is no longer led here (`is_led`).

    With `begin_replay` each record is replayed in its order; it is called once for each reading from the log's start.

    After a transient failure of the disk (no descriptor left) the loading is retried; a failure that takes the log
    directory offline ends the leadership.
    """
    logged = ""
    while is_led():
        try:
            replay = None if begin_replay is None else begin_replay()
            return await _LogReader(partition, ports, slice_bytes, is_led, replay).run()
        except BrokerError as error:
            if logged != str(error):  # One line for a lasting failure.
                logged = str(error)
                ports.log.warning("partition not loaded yet", partition=str(partition.name), reason=logged)
            await _wait_for_retry(ports)
        except StorageError:
            return None
    return None


async def wait_until_committed(partition: Partition, end_offset: int, is_led: Callable[[], bool]) -> bool:
    """Wait until the high watermark has reached `end_offset`; false when the partition is no longer led here.

    The last records of a former leader may be on some replicas only. They stay, as this broker leads with them, but
    until all in-sync replicas have them the next leader may not.
    """
    while is_led():
        if partition.leader is not None and partition.leader.high_watermark >= end_offset:
            return True
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.pending_commits.add(Offset(end_offset), partial(_finish, reached))
        await reached
    return False


def _finish(reached: asyncio.Future[None], _commit: PendingCommit, _code: ErrorCode) -> None:
    if not reached.done():
        reached.set_result(None)


async def _wait_for_retry(ports: Ports) -> None:
    waited = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not waited.done():
            waited.set_result(None)

    ports.call_later(RETRY_S, end)
    await waited


class _LogReader:
    """One pass over a log."""

    def __init__(
        self,
        partition: Partition,
        ports: Ports,
        slice_bytes: int,
        is_led: Callable[[], bool],
        replay: ReplayRecord | None,
    ) -> None:
        self._replay = replay
        self._replayed = 0
        self._name = str(partition.name)
        self._log = partition.log
        self._ports = ports
        self._slice_bytes = slice_bytes
        self._is_led = is_led
        self._end = self._log.log_end_offset
        partition.require_leader()
        self._latest: LatestValues = {}
        self._open: OpenTransactions[bytes, bytes] = OpenTransactions()
        self._number = 0
        """Of the last record, in the order of the log."""
        self._records_read = 0
        self._damaged: list[str] = []

    async def run(self) -> Loaded | None:
        position = self._log.log_start_offset
        while position < self._end:
            data = await self._read_slice(position)
            reached = await self._replay_slice(data) if self._is_led() else None
            if reached is None:
                return None
            if reached <= position:
                self._damaged.append(f"no batch can be read from offset {position} on")
                break
            position = reached
        if self._damaged:
            # Only the first is logged: the others are usually next to it.
            self._ports.log.error(
                "damaged records skipped", partition=self._name, count=len(self._damaged), first=self._damaged[0]
            )
        return Loaded(self._latest, self._open, self._replayed)

    async def _read_slice(self, position: int) -> memoryview:
        piece = self._log.read(position, self._slice_bytes, self._end, whole_first=True)
        if piece is None:
            return memoryview(b"")
        try:
            return memoryview(await self._log.log_dir.disk.offload(piece.read))
        except OSError as error:
            raise self._log.log_dir.classify(error) from error
        finally:
            piece.release()

    async def _replay_slice(self, data: memoryview) -> int | None:
        """Read the complete batches of a slice; the offset after the last (-1: none), None to stop."""
        reached = -1
        try:
            for entry in legacy.entries(data):
                reached = await self._replay_batch(data[entry.position : entry.position + entry.size], entry.magic)
                if not await self._yield_to_loop():
                    return None
        except BrokerError as error:
            self._damaged.append(str(error))
        return reached

    async def _yield_to_loop(self) -> bool:
        """Let the loop serve other requests after a bounded number of records; whether to continue."""
        if self._records_read >= RECORDS_PER_SLICE:
            self._records_read = 0
            await asyncio.sleep(0)
            return self._is_led()
        return True

    async def _replay_batch(self, batch: memoryview, magic: int) -> int:
        """Keep the records of one batch; the offset after it."""
        if magic != CURRENT_MAGIC:
            return self._replay_messages(batch, magic)
        header = read_header(batch)
        try:
            if not crc_is_right(batch, 0, header):
                raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the batch at {header.base_offset} is wrong")
            if header.is_control:
                self._end_transaction(batch, header)
            else:
                await self._keep_records(batch, header)
        except BrokerError as error:
            self._damaged.append(str(error))
            # Its header may be damaged, too; the reader advances by one offset at least.
            return max(header.base_offset + 1, min(header.next_offset, self._end))
        return header.next_offset

    async def _keep_records(self, batch: memoryview, header: BatchHeader) -> None:
        body = batch[HEADER_SIZE : header.size]
        if header.codec != NO_CODEC:
            # A client with Apache Kafka's client id for administration may have written it, and it may expand to 64
            # MiB. Decompression runs on a thread, as it releases the interpreter.
            expanding = partial(decompress, header.codec, body, EXPANDED_BYTES_MAX)
            expanded = await self._log.log_dir.disk.offload(expanding)
        else:
            expanded = bytes(body)
        at_once = RECORDS_PER_SLICE if self._replay is None else RECORDS_AT_ONCE_IN_ORDER
        for pairs in key_values_of(expanded, header.record_count, at_once):
            if self._replay is not None:
                self._replay_pairs(self._replay, pairs, header)
            elif header.is_transactional:
                self._keep_open(pairs, header.producer_id)
            else:
                self._keep(pairs)
            if not await self._yield_to_loop():
                return

    def _replay_messages(self, message: memoryview, magic: int) -> int:
        """As `_replay_batch`, for message formats 0 and 1."""
        records = legacy.read_entry(message, legacy.RecordSetEntry(0, len(message), magic), EXPANDED_BYTES_MAX)
        if self._replay is not None:
            self._damaged.append("a record of an old message format")
            return records[-1].offset + 1
        self._keep([(record.key, record.value) for record in records])
        return records[-1].offset + 1

    def _replay_pairs(self, replay: ReplayRecord, pairs: list[KeyValue], header: BatchHeader) -> None:
        """Replay records in their order. A coordinator that requires that writes none in a transaction."""
        if header.is_transactional:
            self._damaged.append("records of a transaction")
            return
        for key, value in pairs:
            problem = "a record has no key" if key is None else replay(key, value, Offset(header.base_offset))
            if problem is not None:
                self._damaged.append(problem)
            self._records_read += 1 + len(value or b"") // BYTES_PER_RECORD_IN_ORDER
        self._replayed += len(pairs)

    def _keep(self, pairs: list[KeyValue]) -> None:
        latest, is_open = self._latest, bool(self._open)
        for key, value in pairs:
            if key is None:
                self._damaged.append("a record has no key")
                continue
            if value is None:
                latest.pop(key, None)
            else:
                latest[key] = value
            if is_open:
                self._number += 1
                if value is None:
                    self._open.delete(key, self._number)
                else:
                    self._open.supersede(key, self._number)
        self._records_read += len(pairs)

    def _keep_open(self, pairs: list[KeyValue], producer_id: int) -> None:
        """As `_keep`, for records of a transaction. A coordinator writes no tombstone in one."""
        for key, value in pairs:
            if key is None or value is None:
                self._damaged.append("a record of a transaction has no key or no value")
                continue
            self._number += 1
            self._open.add(producer_id, key, value, self._number)
        self._records_read += len(pairs)

    def _end_transaction(self, batch: memoryview, header: BatchHeader) -> None:
        """Apply or discard the values of a transaction. Raises BrokerError for a marker that cannot be read."""
        record = next(read_records(batch, header, expanded_bytes_max=MARKER_BYTES_MAX), None)
        if record is None:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the control batch at {header.base_offset} is empty")
        marker = read_marker(record)
        if marker.kind in (ABORT, COMMIT):
            self._latest.update(self._open.end(header.producer_id, commit=marker.kind == COMMIT))
