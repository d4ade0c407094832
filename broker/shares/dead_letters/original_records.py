"""Reads the records that died out of their log, for copies of them.

One read has at most `READ_BYTES_MAX`, or one batch. Records that take long to open are opened by a child process
(`records/jobs`). What cannot be opened is not copied: a dead letter without its record is better than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.broker.records.jobs.queue import RETRY, CpuAllowance, JobQueue
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.copied_records import CopiedRecords, copied_records
from sordini.protocol.records.jobs import CopyJob
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from sordini.replication.partition import Partition
from sordini.storage.errors import StorageError

READ_BYTES_MAX: Final = 1024 * 1024
STEPS_MAX: Final = 2_000
"""On the loop: about two milliseconds."""
ADDRESS: Final = "dead-letters"
"""Under which the jobs wait."""


class OriginalRecords:
    """Copies of records, made on the loop or beside it."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    async def copy(self, partition: Partition, offsets: Sequence[int], bytes_max: int) -> CopiedRecords:
        """The records at these offsets, which are sorted, as far as one read has them; at least the first is known.

        Raises BrokerError if no child process opens them now.
        """
        first = offsets[0]
        start = max(first, partition.log.log_start_offset)
        until = next((offset for offset in offsets if offset >= start), None)
        if until is None:
            return CopiedRecords({}, offsets[-1] + 1)
        try:
            piece = partition.read(until, READ_BYTES_MAX, whole_first=True, committed_only=False)
            if piece is None:
                return CopiedRecords({}, first + 1)
            try:
                batches = piece.read()
            finally:
                piece.release()
        except (BrokerError, StorageError, OSError):
            return CopiedRecords({}, first + 1)
        left = [offset for offset in offsets if offset >= start]
        found = await self._opened(batches, left, bytes_max)
        return found._replace(end=max(found.end, until + 1))

    async def _opened(self, batches: bytes, offsets: list[int], bytes_max: int) -> CopiedRecords:
        try:
            return copied_records(batches, offsets, bytes_max, WorkBudget(STEPS_MAX))
        except BrokerError:
            return CopiedRecords({}, offsets[0] + 1)
        except BudgetExceeded:
            return await self._opened_by_a_child(batches, offsets, bytes_max)

    async def _opened_by_a_child(self, batches: bytes, offsets: list[int], bytes_max: int) -> CopiedRecords:
        job = CopyJob(batches, offsets, bytes_max)
        try:
            outcome = await self._jobs.run(job, CpuAllowance(len(batches)), ADDRESS)
        except BrokerError as error:
            if error.code is RETRY:
                raise
            return CopiedRecords({}, offsets[0] + 1)
        assert isinstance(outcome, CopiedRecords)
        return outcome
