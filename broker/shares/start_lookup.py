"""Where a group begins to read a partition of which nothing is stored: share.auto.offset.reset (KIP-932).

The earliest record, the end of what can be read, or the first record that is not older than a duration. A lookup by
time that takes long continues in a coroutine, where a child process decodes the batches.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.configuration.offset_reset import OffsetReset
from sordini.broker.records.jobs.queue import CpuAllowance, JobQueue
from sordini.broker.shares.ports import OnStart
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import Found, SearchJob
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.ports import Clock, Spawn
from sordini.storage.errors import StorageError
from sordini.storage.timestamp_lookup import search_log


class OffsetResets:
    """Looks starts up in the logs of this broker."""

    def __init__(self, reset_of: Callable[[str], OffsetReset], jobs: JobQueue, clock: Clock, spawn: Spawn) -> None:
        """`reset_of`: by group id."""
        self._reset_of = reset_of
        self._jobs = jobs
        self._clock = clock
        self._spawn = spawn

    def find(self, group_id: str, partition: Partition, on_found: OnStart) -> None:
        try:
            on_found(self._found(group_id, partition))
        except BudgetExceeded:
            self._spawn(self._search(group_id, partition, on_found))
        except BrokerError as error:
            on_found(error.code)
        except StorageError:
            on_found(ErrorCode.KAFKA_STORAGE_ERROR)

    def _found(self, group_id: str, partition: Partition) -> int:
        """Raises BrokerError, StorageError and BudgetExceeded."""
        leader, reset, log = partition.require_leader(), self._reset_of(group_id), partition.log
        if reset.is_earliest:
            return log.log_start_offset
        # A new leader does not know its followers' log ends yet: its watermark may be below the former one (KIP-207).
        if leader.high_watermark < leader.epoch_start_offset:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, "the high watermark is not known yet")
        if reset.age_ms is None:
            return leader.high_watermark
        found = log.find_timestamp(self._oldest_ms(reset), leader.high_watermark, WorkBudget())
        return leader.high_watermark if found is None else found.offset

    def _oldest_ms(self, reset: OffsetReset) -> int:
        assert reset.age_ms is not None
        return max(self._clock.now_ms() - reset.age_ms, 0)

    async def _search(self, group_id: str, partition: Partition, on_found: OnStart) -> None:
        try:
            found = await self._searched(group_id, partition, partition.require_leader())
        except BrokerError as error:
            on_found(error.code)
        except StorageError:
            on_found(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            on_found(found)

    async def _searched(self, group_id: str, partition: Partition, leader: Leader) -> int:
        allowance = CpuAllowance(0)

        async def search(batch: bytes, timestamp: int, offset: int) -> tuple[int, int] | None:
            outcome = await self._jobs.run(SearchJob(batch, timestamp, offset), allowance, "")
            assert isinstance(outcome, Found)
            return outcome.record

        end = leader.high_watermark
        found = await search_log(partition.log, self._oldest_ms(self._reset_of(group_id)), end, search)
        if partition.leader is not leader:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.name} has another leader epoch")
        return end if found is None else found.offset
