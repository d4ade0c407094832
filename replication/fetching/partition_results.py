"""What the leader's response means for one partition: its records are appended, its log truncated, or it is delayed.

A failure of one partition delays it, or ends its fetching: the others are not concerned.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode, error_name
from sordini.protocol.messages.fetch import EpochEndOffset, PartitionData
from sordini.protocol.types import BrokerId
from sordini.replication.fetching.fetched_partitions import FetchedPartition, FetchedPartitions
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.follower import FetchErrorAction, Follower
from sordini.replication.follower_log import append_fetched_records, truncate_to_divergence
from sordini.replication.follower_truncation import EpochEnd
from sordini.storage.errors import DiskFull, StorageError

NO_RECORDS = memoryview(b"")
NOT_LEADER_YET = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""The errors of a new leader that has not received its LeaderAndIsr yet."""
FIRST_BACKOFF_MS = 20
"""After such an error; it doubles up to `replica.fetch.backoff.ms`."""
BACKOFFS_DOUBLED_MAX = 16


class PartitionResults:
    """Carries out the rows of one leader's responses."""

    def __init__(self, leader_id: BrokerId, deps: FetcherDeps, fetched: FetchedPartitions) -> None:
        self._leader_id = leader_id
        self._deps = deps
        self._fetched = fetched
        self.not_fetched: dict[str, list[str]] = {}
        """Partitions that a response refused, by the error; logged together."""

    def process_row(self, fetched: FetchedPartition, follower: Follower, row: PartitionData, now_ms: int) -> None:
        self._fetched.mark_updated(fetched)
        partition = fetched.partition
        try:
            if row.error_code:
                self.on_error_code(fetched, follower, row.error_code)
            elif row.diverging_epoch is not None:
                self._truncate_on_fetch(fetched, follower, row.diverging_epoch, now_ms)
            else:
                records = row.records or NO_RECORDS
                assert isinstance(records, memoryview)
                size = append_fetched_records(
                    partition,
                    follower,
                    fetched.requested_offset,
                    records,
                    row.high_watermark,
                    row.log_start_offset,
                    now_ms,
                )
                fetched.is_lagging = partition.log.log_end_offset < row.high_watermark
                fetched.not_leader_count = 0
                fetched.failure = ""
                if size:
                    self._deps.quota.record(partition.name, size, self._deps.clock.monotonic_ms())
                    self._fetched.session.move_to_end(fetched.topic_id_partition)
                elif records and partition.follower is follower:
                    self.delay(fetched)  # The same fetch would bring the same records.
        except (BrokerError, StorageError) as error:
            self.on_failure(fetched, error)

    def _truncate_on_fetch(
        self, fetched: FetchedPartition, follower: Follower, leader_end: EpochEndOffset, now_ms: int
    ) -> None:
        log = fetched.partition.log
        before = log.log_end_offset, log.epochs.latest
        self.truncate(fetched, follower, EpochEnd(leader_end.epoch, leader_end.end_offset), now_ms)
        if (log.log_end_offset, log.epochs.latest) == before:
            self.delay(fetched)  # The same fetch would get the same answer.

    def truncate(self, fetched: FetchedPartition, follower: Follower, leader_end: EpochEnd, now_ms: int) -> None:
        old_end = fetched.partition.log.log_end_offset
        truncate_to_divergence(fetched.partition, follower, leader_end, now_ms)
        self.log_truncation(fetched, old_end)

    def log_truncation(self, fetched: FetchedPartition, old_end: int) -> None:
        new_end = fetched.partition.log.log_end_offset
        if new_end != old_end:
            self._deps.log.info(
                "log truncated",
                partition=str(fetched.partition.name),
                log_end_offset=new_end,
                old_log_end_offset=old_end,
                leader=self._leader_id,
                leader_epoch=fetched.partition.leader_epoch,
            )

    async def flush(self, fetched: FetchedPartition) -> None:
        """Flush before the next fetch: that acknowledges these records, which must be as durable as the leader's."""
        try:
            await fetched.partition.log.flush_if_due()
        except (BrokerError, StorageError) as error:
            self.on_failure(fetched, error)

    def delay(self, fetched: FetchedPartition, wait_ms: int | None = None) -> None:
        deps = self._deps
        until_ms = deps.clock.monotonic_ms() + (deps.settings.backoff_ms if wait_ms is None else wait_ms)
        self._fetched.delay(fetched, until_ms)

    def _delay_for_election(self, fetched: FetchedPartition) -> None:
        """Exponential backoff: a new leader refuses until it receives its LeaderAndIsr, which is soon."""
        wait_ms = min(FIRST_BACKOFF_MS << fetched.not_leader_count, self._deps.settings.backoff_ms)
        fetched.not_leader_count = min(fetched.not_leader_count + 1, BACKOFFS_DOUBLED_MAX)
        self.delay(fetched, wait_ms)

    def on_error_code(self, fetched: FetchedPartition, follower: Follower, code: int) -> None:
        """The leader refuses one partition; in a fenced term nothing is requested any more."""
        reaction = fetched.partition.on_fetch_error(follower, code)
        if reaction is FetchErrorAction.FIND_START:
            self._fetched.mark_out_of_range(fetched)
        elif reaction is FetchErrorAction.RETRY:
            error = error_name(code)
            if fetched.failure != error:
                fetched.failure = error
                self.not_fetched.setdefault(error, []).append(str(fetched.partition.name))
            if code in NOT_LEADER_YET:
                self._delay_for_election(fetched)
            else:
                self.delay(fetched)

    def on_failure(self, fetched: FetchedPartition, error: BrokerError | StorageError) -> None:
        """The records cannot be appended: retry later, or stop fetching when the log directory failed."""
        name = str(fetched.partition.name)
        if isinstance(error, StorageError):
            self._deps.log.error("replica fetching stopped", partition=name, reason=str(error))
            self._fetched.remove(fetched.partition.name, fetched.partition)
        else:
            # A full disk has its own log line, one for all partitions.
            if fetched.failure != str(error) and not isinstance(error, DiskFull):
                self._deps.log.warning("fetched records not appended", partition=name, reason=str(error))
            fetched.failure = str(error)
            self.delay(fetched)

    def log_not_fetched(self) -> None:
        log, leader = self._deps.log, self._leader_id
        for error, names in self.not_fetched.items():
            log.info("partitions not fetched", leader=leader, error=error, partitions=len(names), first=names[0])
        self.not_fetched.clear()
