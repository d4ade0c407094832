"""Reading a partition of __consumer_offsets when this broker begins to lead it, and when what was read counts.

The log is read from its start to where it ended when that began, in slices of offsets.load.buffer.size, on a thread
where the bytes may have to come from the disk. Only the last value of each key is kept, as bytes: what was replaced
is never looked into. Between bounded pieces of work the loop serves others.

What cannot be read is passed over and told once: one damaged batch must not take all groups of a partition with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from sordini.broker.coordinators.ports import Ports
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import CURRENT_MAGIC, HEADER_SIZE, BatchHeader, crc_is_right, read_header
from sordini.protocol.records.compression import EXPANDED_BYTES_MAX, NO_CODEC, decompress
from sordini.protocol.records.key_values import KeyValue, key_values_of
from sordini.protocol.types import Offset
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommit
from sordini.storage.errors import StorageError

RECORDS_PER_SLICE = 500
"""Read at once before others have their turn: one or two milliseconds."""
RETRY_S = 1.0

Latest = dict[bytes, bytes]
"""The last value of each key that was not deleted since."""


async def load(partition: Partition, ports: Ports, *, slice_bytes: int, is_wanted: Callable[[], bool]) -> Latest | None:
    """Read a partition; None when that is not wanted any more.

    A passing failure of the disk (no descriptor left) is waited out; one that takes the directory offline ends the
    leadership, and thereby this.
    """
    told = ""
    while is_wanted():
        try:
            return await _Loading(partition, ports, slice_bytes, is_wanted).run()
        except BrokerError as error:
            if told != str(error):  # One line for a failure that lasts.
                told = str(error)
                ports.log.warning("groups not loaded yet", partition=str(partition.name), reason=told)
            await _later(ports)
        except StorageError:
            return None
    return None


async def is_committed(partition: Partition, end_offset: int, is_wanted: Callable[[], bool]) -> bool:
    """Wait until the high watermark has come to `end_offset`; false when that is not wanted any more.

    What a former leader wrote last may be on some replicas only. It stays, since this broker leads with it, but until
    all in-sync replicas have it a third leader could know nothing of it.
    """
    while is_wanted():
        if partition.leader is not None and partition.leader.high_watermark >= end_offset:
            return True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.pending_commits.add(Offset(end_offset), partial(_end, ended))
        await ended
    return False


def _end(ended: asyncio.Future[None], _commit: PendingCommit, _code: ErrorCode) -> None:
    if not ended.done():
        ended.set_result(None)


async def _later(ports: Ports) -> None:
    waited = asyncio.get_running_loop().create_future()

    def end() -> None:
        if not waited.done():
            waited.set_result(None)

    ports.call_later(RETRY_S, end)
    await waited


class _Loading:
    """One pass over one log."""

    def __init__(self, partition: Partition, ports: Ports, slice_bytes: int, is_wanted: Callable[[], bool]) -> None:
        self._name = str(partition.name)
        self._log = partition.log
        self._ports = ports
        self._slice_bytes = slice_bytes
        self._is_wanted = is_wanted
        self._end = self._log.log_end_offset
        self._stable_end = self._log.last_stable_offset(partition.require_leader().high_watermark)
        self._aborted = self._log.aborted_transactions(self._log.log_start_offset, self._end)
        self._latest: Latest = {}
        self._read = 0
        self._damaged: list[str] = []

    async def run(self) -> Latest | None:
        position = self._log.log_start_offset
        while position < self._end:
            data = await self._slice(position)
            reached = await self._take(data) if self._is_wanted() else None
            if reached is None:
                return None
            if reached <= position:
                self._damaged.append(f"no batch can be read from offset {position} on")
                break
            position = reached
        if self._damaged:
            # The first is told: where it says where to look, the others are its neighbours.
            self._ports.log.error(
                "damaged records passed over", partition=self._name, count=len(self._damaged), first=self._damaged[0]
            )
        return self._latest

    async def _slice(self, position: int) -> memoryview:
        piece = self._log.read(position, self._slice_bytes, self._end, whole_first=True)
        if piece is None:
            return memoryview(b"")
        try:
            return memoryview(await self._log.log_dir.disk.offload(piece.read))
        except OSError as error:
            raise self._log.log_dir.classify(error) from error
        finally:
            piece.release()

    async def _take(self, data: memoryview) -> int | None:
        """Read the whole batches of a slice; the offset behind the last (-1: there is none), None to stop."""
        reached = -1
        try:
            for entry in legacy.entries(data):
                reached = await self._take_batch(data[entry.position : entry.position + entry.size], entry.magic)
                if not await self._goes_on():
                    return None
        except BrokerError as error:
            self._damaged.append(str(error))
        return reached

    async def _goes_on(self) -> bool:
        """Let others have their turn when enough was read; whether this is still wanted."""
        if self._read >= RECORDS_PER_SLICE:
            self._read = 0
            await asyncio.sleep(0)
            return self._is_wanted()
        return True

    async def _take_batch(self, batch: memoryview, magic: int) -> int:
        """Keep what one batch says; the offset behind it."""
        if magic != CURRENT_MAGIC:
            return self._take_messages(batch, magic)
        header = read_header(batch)
        try:
            if not crc_is_right(batch, 0, header):
                raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the batch at {header.base_offset} is wrong")
            if not header.is_control and not (header.is_transactional and self._is_undone(header)):
                await self._keep_batch(batch, header)
        except BrokerError as error:
            self._damaged.append(str(error))
            # Its header may be wrong, too; one step at least is made.
            return max(header.base_offset + 1, min(header.next_offset, self._end))
        return header.next_offset

    async def _keep_batch(self, batch: memoryview, header: BatchHeader) -> None:
        body = batch[HEADER_SIZE : header.size]
        if header.codec != NO_CODEC:
            # A client may have written it that calls itself an administrator, and it may expand to 64 MiB. On a thread:
            # what expands it gives the interpreter away.
            expanding = partial(decompress, header.codec, body, EXPANDED_BYTES_MAX)
            expanded = await self._log.log_dir.disk.offload(expanding)
        else:
            expanded = bytes(body)
        for pairs in key_values_of(expanded, header.record_count, RECORDS_PER_SLICE):
            self._keep(pairs)
            if not await self._goes_on():
                return

    def _take_messages(self, message: memoryview, magic: int) -> int:
        """As `_take_batch`, for the formats before batches."""
        records = legacy.read_entry(message, legacy.RecordSetEntry(0, len(message), magic), EXPANDED_BYTES_MAX)
        self._keep([(record.key, record.value) for record in records])
        return records[-1].offset + 1

    def _keep(self, pairs: list[KeyValue]) -> None:
        latest = self._latest
        for key, value in pairs:
            if key is None:
                self._damaged.append("a record has no key")
            elif value is None:
                latest.pop(key, None)
            else:
                latest[key] = value
        self._read += len(pairs)

    def _is_undone(self, header: BatchHeader) -> bool:
        """Whether a transactional batch was aborted, or is not decided."""
        return header.base_offset >= self._stable_end or any(
            aborted.producer_id == header.producer_id
            and aborted.first_offset <= header.base_offset <= aborted.last_offset
            for aborted in self._aborted
        )
