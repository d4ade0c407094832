"""Fetch v0 to v3: records are rewritten in the message formats 0 and 1, the only ones that such readers know.

A little is rewritten at once, within a `WorkBudget`; what takes longer is a job for a child process. An answer holds at
most `sordini.fetch.converted.bytes.max`, save for a first message or wrapper that is larger; and below version 3 no
more than the reader asked for. From version 3 on a batch that was read is rewritten whole, as by Apache Kafka. It is
memory until it has been sent, as nothing else of a fetch is: so a connection that does not read has the next one made
only after most of the last has left (`ConnectionLimits.queued_bytes_max`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from sordini.broker.dispatch import Call
from sordini.broker.handlers.fetched_rows import refused
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.record_jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.fetch import FetchResponse, PartitionData
from sordini.protocol.records.jobs import Converted, ConvertJob
from sordini.protocol.records.legacy import down_convert
from sordini.protocol.records.work_budget import WorkBudget
from sordini.replication.partition import Partition
from sordini.storage.file_slice import FileSlice

FIRST_OF_FORMAT_1 = 2
FIRST_WITH_WHOLE_BATCHES = 3
FIRST_OF_FORMAT_2 = 4


class Unconverted(NamedTuple):
    """A partition's records as they lie in the log, and the row of the answer that they go to."""

    row: PartitionData
    piece: FileSlice
    start: int
    bytes_max: int


class DownConversions:
    """Rewrites what fetches of old versions have read."""

    def __init__(
        self, jobs: JobQueue, later: Callable[[Call, Awaitable[Any]], DelayedResponse], *, bytes_max: int
    ) -> None:
        self._jobs = jobs
        self._later = later
        self.bytes_max = bytes_max

    def at_once(self, call: Call, found: list[Unconverted]) -> int:
        """Rewrite what was found, from its beginning on; the size of the result. What is done leaves `found`.

        Raises BudgetExceeded when that takes too long.
        """
        budget = WorkBudget()
        made = 0
        while found:
            row, piece, start, bytes_max = self._bounded(call, found[0], made)
            try:
                records = down_convert(piece.read(), _magic(call), start=start, bytes_max=bytes_max, budget=budget)
                made += _put(call, row, records, bytes_max)
            except BrokerError as error:
                _refuse(row, error)
            piece.release()
            del found[0]
        return made

    def later(self, call: Call, found: list[Unconverted], respond: Callable[[], FetchResponse]) -> DelayedResponse:
        """Rewrite the rest in a child process, and answer."""
        pending = self._later(call, self._convert(call, found, respond))
        pending.on_abandon = lambda: _release(found)
        return pending

    def _bounded(self, call: Call, one: Unconverted, made: int) -> Unconverted:
        """What was found for a partition, with the bound on what is made of it after `made` bytes of others."""
        if call.version < FIRST_WITH_WHOLE_BATCHES:
            return one
        return one._replace(bytes_max=max(self.bytes_max - made, 0))

    async def _convert(
        self, call: Call, found: list[Unconverted], respond: Callable[[], FetchResponse]
    ) -> FetchResponse:
        allowance = CpuAllowance(0)
        made = 0
        try:
            while found:
                row, piece, start, bytes_max = self._bounded(call, found.pop(0), made)
                try:
                    batches = piece.read()
                finally:
                    piece.release()
                try:
                    job = ConvertJob(batches, _magic(call), start, bytes_max)
                    outcome = await self._jobs.run(job, allowance, call.peer.address)
                    assert isinstance(outcome, Converted)
                    made += _put(call, row, outcome.messages, bytes_max)
                except BrokerError as error:
                    _refuse(row, error)
        finally:
            _release(found)
        return respond()


def check_allowed(partition: Partition, piece: FileSlice) -> None:
    """Raises BrokerError, the piece being released, for a topic of which nothing is rewritten."""
    if not partition.settings.down_conversion:
        piece.release()
        raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, "message.downconversion.enable is false for this topic")


def _magic(call: Call) -> int:
    return 0 if call.version < FIRST_OF_FORMAT_1 else 1


def _put(call: Call, row: PartitionData, records: bytes, bytes_max: int) -> int:
    # Until version 2 a last message may be cut off, and nothing is larger than was asked for.
    row.records = records[:bytes_max] if call.version < FIRST_WITH_WHOLE_BATCHES else records
    return len(records)


def _refuse(row: PartitionData, error: BrokerError) -> None:
    if error.code == RETRY:
        row.records = b""  # Nothing yet: every reader asks again.
        return
    made = refused(row.partition_index, error.code)
    row.error_code, row.high_watermark, row.records = made.error_code, made.high_watermark, made.records


def _release(found: list[Unconverted]) -> None:
    while found:
        found.pop().piece.release()
