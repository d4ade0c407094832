"""One fetcher: a task that fetches some of the partitions that this broker follows from one leader.

One request is in flight at a time. A round examines the partitions that were updated, sends one request for all of
them, and gives each its row of the response. A failure of one partition delays or removes that one alone; a failure of
the connection delays all, and begins a new session.

A response may be stale: a partition may have another leader, or be gone, since the request was sent. Each row is given
to the partition with the `Follower` (one term of following) that made the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sordini.client.ports import Rounds
from sordini.protocol.errors import BrokerError, ErrorCode, error_name
from sordini.protocol.messages.fetch import EpochEndOffset, FetchResponse, PartitionData
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.fetching.fetched_partitions import FetchedPartition, FetchedPartitions
from sordini.replication.fetching.messages import (
    EARLIEST,
    LATEST,
    FetchSettings,
    epoch_ends_request,
    fetch_request,
    offsets_request,
)
from sordini.replication.fetching.session import FETCH_SESSION_ERRORS, TopicIdPartition
from sordini.replication.fetching.tail_rounds import RoundDeps, TailStreak
from sordini.replication.follower import EpochEnd, FetchStart, Follower, Reaction, start_when_out_of_range
from sordini.replication.inter_broker import InterBrokerVersions
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLink, Clock, Logger, Unreachable
from sordini.replication.replica_quota import ReplicaQuota
from sordini.storage.errors import DiskFull, StorageError

NO_RECORDS = memoryview(b"")
NOT_LEADER_YET = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""The errors of a new leader that has not received its LeaderAndIsr yet."""
FIRST_BACKOFF_MS = 20
"""After such an error; it doubles up to `replica.fetch.backoff.ms`."""
BACKOFFS_DOUBLED_MAX = 16
SLICE_BYTES = 1024 * 1024
"""Appended to logs at most before the loop runs other tasks."""


class FetcherDeps(NamedTuple):
    """What all fetchers of a broker share."""

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    """Of the current registration; -1 without one."""
    versions: InterBrokerVersions
    settings: FetchSettings
    quota: ReplicaQuota
    clock: Clock
    log: Logger


class ReplicaFetcher:
    """Fetches from one leader, as long as there is a partition to fetch."""

    def __init__(self, leader_id: BrokerId, link: BrokerLink, deps: FetcherDeps, on_done: Callable[[], None]) -> None:
        """`on_done` is called when the last partition is removed and the session closed: nothing can be added then."""
        self._leader_id = leader_id
        self._link = link
        self._deps = deps
        self._on_done = on_done
        self._fetched = FetchedPartitions(deps.versions.fetch, deps.quota)
        self._partitions_changed = asyncio.Event()
        self._is_idle = False
        """Whether the last response had no records, so that the leader may delay the next one."""
        self._is_in_purgatory = False
        """Whether such a fetch is in flight."""
        self._is_interrupted = False
        round_deps = RoundDeps(deps.clock, deps.quota, deps.broker_epoch, self._on_failure)
        self._streak = TailStreak(round_deps, self._fetched)
        self._is_unreachable = False
        """Whether the last request failed, which was logged."""
        self._not_fetched: dict[str, list[str]] = {}
        """Partitions that a response refused, by the error; logged together."""

    @property
    def partitions(self) -> list[Partition]:
        return [fetched.partition for fetched in self._fetched.all()]

    def add(self, partition: Partition) -> None:
        """Fetch a partition; if it is fetched already, a new term has begun."""
        self._fetched.add(partition)
        self._partitions_changed.set()
        if self._is_in_purgatory:
            # The fetch in flight may stay in the leader's purgatory for long, and a new partition must not wait for
            # that. Once for each such fetch: many additions must not keep the others from being fetched.
            self._is_in_purgatory = self._is_idle = False
            self._is_interrupted = True
            self._link.close()

    def fetches(self, name: TopicPartition) -> bool:
        """Whether a partition of this name is fetched; False after its log directory failed."""
        return name in self._fetched

    def remove(self, name: TopicPartition, partition: Partition | None = None) -> None:
        """Stop fetching the partition of this name, or only if it is `partition`."""
        if self._fetched.remove(name, partition):
            self._partitions_changed.set()

    async def run(self) -> None:
        """Fetch until no partition is left."""
        try:
            while self._fetched:
                while self._fetched:
                    await self._round()
                await self._close_session()
        finally:
            self._link.close()
            self._on_done()

    async def _round(self) -> None:
        fetched = self._fetched
        try:
            fetched.prepare_requests(self._deps.clock.monotonic_ms())
            if fetched.epoch_end_requests:
                await self._request_epoch_ends()
            elif fetched.out_of_range:
                await self._handle_out_of_range()
            elif fetched.session:
                await self._fetch()
            else:
                await self._wait()
        except Unreachable as reason:
            fetched.session.connection_lost()
            fetched.mark_all_updated()
            if self._is_interrupted:
                self._is_interrupted = False
                return
            if not self._is_unreachable:
                self._is_unreachable = True
                self._deps.log.warning("leader unreachable", leader=self._leader_id, reason=str(reason))
            await self._back_off()
        if self._not_fetched:
            self._log_not_fetched()

    def _log_not_fetched(self) -> None:
        log, leader = self._deps.log, self._leader_id
        for error, names in self._not_fetched.items():
            log.info("partitions not fetched", leader=leader, error=error, partitions=len(names), first=names[0])
        self._not_fetched.clear()

    async def _back_off(self) -> None:
        await asyncio.sleep(self._deps.settings.backoff_ms / 1000)

    async def _wait(self) -> None:
        """Wait for the end of a delay, or for a partition to be added or removed."""
        self._partitions_changed.clear()
        next_ms = self._fetched.next_due_ms()
        wait_s = None if next_ms is None else max(next_ms - self._deps.clock.monotonic_ms(), 1) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._partitions_changed.wait()

    async def _send(self, request: Any, version: int, rounds: Rounds | None = None) -> Any:
        response = await self._link.ask(request, version, self._deps.settings.socket_timeout_ms, rounds)
        if self._is_unreachable:
            self._is_unreachable = False
            self._deps.log.info("leader reachable again", leader=self._leader_id)
        return response

    # Records.

    async def _fetch(self) -> None:
        deps, session = self._deps, self._fetched.session
        session_request = session.next_request()
        request = fetch_request(session_request, deps.broker_id, deps.broker_epoch(), deps.settings)
        next_ms = self._fetched.next_due_ms()
        if next_ms is not None:  # A delayed partition must not wait for the end of the others' long poll.
            request.max_wait_ms = max(min(request.max_wait_ms, next_ms - deps.clock.monotonic_ms()), 0)
        self._is_in_purgatory = self._is_idle
        rounds = self._streak.rounds(session_request, request)
        try:
            response = await self._send(request, session_request.version, rounds)
        finally:
            self._is_in_purgatory = False
        self._is_interrupted = False
        if rounds is not None:
            ((partition, _),) = session_request.to_send
            session.continued(partition, rounds.state, rounds.session_epoch)
            self._streak.on_ended(rounds, session_request)
            if response is None:
                session.on_response(session_request.session_id, 1)
                if (fetched := self._fetched.find(*partition)) is not None:
                    self._fetched.mark_updated(fetched)
                    if fetched.partition.log.needs_flush:
                        await self._flush(fetched)
                return
        code = response.error_code
        if code:
            session.on_error(code)
            self._fetched.mark_all_updated()
            if code not in FETCH_SESSION_ERRORS or session_request.epoch == 0:
                deps.log.warning("fetch refused", leader=self._leader_id, error=error_name(code))
                await self._back_off()
        elif not session.on_response(response.session_id, await self._process(response)):
            deps.log.warning("fetch response lacks partitions", leader=self._leader_id)
            await self._back_off()

    async def _process(self, response: FetchResponse) -> int:
        """Give each partition its row of the response; the number of rows."""
        now_ms = self._deps.clock.now_ms()
        rows_count = slice_bytes = 0
        row: PartitionData | None = None
        self._is_idle = True
        for topic in response.responses:
            for row in topic.partitions:
                rows_count += 1
                fetched = self._fetched.find(topic.topic, topic.topic_id, row.partition_index)
                if fetched is None or fetched.follower is None:
                    continue
                self._process_row(fetched, fetched.follower, row, now_ms)
                if row.records:
                    self._is_idle = False
                    slice_bytes += len(row.records)  # type: ignore[arg-type]  # Decoded records are always a view.
                    if fetched.partition.log.needs_flush:
                        await self._flush(fetched)
                if slice_bytes >= SLICE_BYTES:
                    slice_bytes = 0
                    await asyncio.sleep(0)
        self._streak.note(row if rows_count == 1 else None, slice_bytes)
        if self._is_idle:
            self._fetched.mark_all_updated()  # Local changes are picked up now: retention moves log start offsets.
        return rows_count

    def _process_row(self, fetched: FetchedPartition, follower: Follower, row: PartitionData, now_ms: int) -> None:
        self._fetched.mark_updated(fetched)
        partition = fetched.partition
        try:
            if row.error_code:
                self._on_error_code(fetched, follower, row.error_code)
            elif row.diverging_epoch is not None:
                self._truncate_on_fetch(fetched, follower, row.diverging_epoch, now_ms)
            else:
                records = row.records or NO_RECORDS
                assert isinstance(records, memoryview)
                size = partition.append_fetched_records(
                    follower, fetched.requested_offset, records, row.high_watermark, row.log_start_offset, now_ms
                )
                fetched.is_lagging = partition.log.log_end_offset < row.high_watermark
                fetched.not_leader_count = 0
                fetched.failure = ""
                if size:
                    self._deps.quota.record(partition.name, size, self._deps.clock.monotonic_ms())
                    self._fetched.session.move_to_end(fetched.topic_id_partition)
                elif records and partition.follower is follower:
                    self._delay(fetched)  # The same fetch would bring the same records.
        except (BrokerError, StorageError) as error:
            self._on_failure(fetched, error)

    def _truncate_on_fetch(
        self, fetched: FetchedPartition, follower: Follower, leader_end: EpochEndOffset, now_ms: int
    ) -> None:
        log = fetched.partition.log
        before = log.log_end_offset, log.epochs.latest
        self._truncate(fetched, follower, EpochEnd(leader_end.epoch, leader_end.end_offset), now_ms)
        if (log.log_end_offset, log.epochs.latest) == before:
            self._delay(fetched)  # The same fetch would get the same answer.

    def _truncate(self, fetched: FetchedPartition, follower: Follower, leader_end: EpochEnd, now_ms: int) -> None:
        old_end = fetched.partition.log.log_end_offset
        fetched.partition.truncate_to_divergence(follower, leader_end, now_ms)
        self._log_truncation(fetched, old_end)

    def _log_truncation(self, fetched: FetchedPartition, old_end: int) -> None:
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

    async def _flush(self, fetched: FetchedPartition) -> None:
        """Flush before the next fetch: that acknowledges these records, which must be as durable as the leader's."""
        try:
            await fetched.partition.log.flush_if_due()
        except (BrokerError, StorageError) as error:
            self._on_failure(fetched, error)

    def _delay(self, fetched: FetchedPartition, wait_ms: int | None = None) -> None:
        deps = self._deps
        until_ms = deps.clock.monotonic_ms() + (deps.settings.backoff_ms if wait_ms is None else wait_ms)
        self._fetched.delay(fetched, until_ms)

    def _delay_for_election(self, fetched: FetchedPartition) -> None:
        """Exponential backoff: a new leader refuses until it receives its LeaderAndIsr, which is soon."""
        wait_ms = min(FIRST_BACKOFF_MS << fetched.not_leader_count, self._deps.settings.backoff_ms)
        fetched.not_leader_count = min(fetched.not_leader_count + 1, BACKOFFS_DOUBLED_MAX)
        self._delay(fetched, wait_ms)

    def _on_error_code(self, fetched: FetchedPartition, follower: Follower, code: int) -> None:
        """The leader refuses one partition; in a fenced term nothing is requested any more."""
        reaction = fetched.partition.on_fetch_error(follower, code)
        if reaction is Reaction.FIND_START:
            self._fetched.mark_out_of_range(fetched)
        elif reaction is Reaction.RETRY:
            error = error_name(code)
            if fetched.failure != error:
                fetched.failure = error
                self._not_fetched.setdefault(error, []).append(str(fetched.partition.name))
            if code in NOT_LEADER_YET:
                self._delay_for_election(fetched)
            else:
                self._delay(fetched)

    def _on_failure(self, fetched: FetchedPartition, error: BrokerError | StorageError) -> None:
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
            self._delay(fetched)

    # Truncation before the first fetch, and offsets out of range.

    async def _request_epoch_ends(self) -> None:
        """Request where epochs ended in the leader's log, under protocols where the Fetch response does not say it."""
        deps = self._deps
        taken = self._fetched.take_epoch_end_requests()
        requests = [(fetched.topic_id_partition, request) for fetched, (_, request) in taken.items()]
        response = await self._send(epoch_ends_request(requests, deps.broker_id), deps.versions.offset_for_leader_epoch)
        rows = {(topic.topic, row.partition): row for topic in response.topics for row in topic.partitions}
        now_ms = deps.clock.now_ms()
        for fetched, (follower, _) in taken.items():
            row = rows.get(fetched.partition.name)
            if self._fetched.is_stale(fetched, follower):
                continue
            if row is None or row.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else row.error_code
                self._on_error_code(fetched, follower, code)
                continue
            try:
                self._truncate(fetched, follower, EpochEnd(row.leader_epoch, row.end_offset), now_ms)
            except (BrokerError, StorageError) as error:
                self._on_failure(fetched, error)

    async def _handle_out_of_range(self) -> None:
        """Look up the bounds of the leader's logs, for the partitions whose offsets are outside of them."""
        taken = self._fetched.take_out_of_range()
        partitions = [(fetched.topic_id_partition, follower.leader_epoch) for fetched, follower in taken.items()]
        ends = await self._list_offsets(partitions, LATEST)
        starts = await self._list_offsets(partitions, EARLIEST)
        now_ms = self._deps.clock.now_ms()
        for fetched, follower in taken.items():
            name = fetched.partition.name
            if self._fetched.is_stale(fetched, follower):
                continue
            if name not in ends or name not in starts:
                self._delay(fetched)
                continue
            log_end = Offset(fetched.partition.log.log_end_offset)
            start = start_when_out_of_range(starts[name], ends[name], log_end)
            if start == FetchStart(log_end, truncate_fully=False):
                self._delay(fetched)  # By now the leader's log has it, or the error had another cause.
                continue
            try:
                fetched.partition.restart_at(follower, start, now_ms)
                self._log_truncation(fetched, log_end)
            except (BrokerError, StorageError) as error:
                self._on_failure(fetched, error)

    async def _list_offsets(
        self, partitions: Iterable[tuple[TopicIdPartition, LeaderEpoch]], timestamp: int
    ) -> dict[tuple[str, int], Offset]:
        """The leader's offsets, without the partitions that it refuses: their next fetch gets the error."""
        request = offsets_request(partitions, timestamp, self._deps.broker_id)
        response = await self._send(request, self._deps.versions.list_offsets)
        return {
            (topic.name, row.partition_index): Offset(row.offset)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.offset >= 0
        }

    async def _close_session(self) -> None:
        """Have the leader drop the session; if it cannot be reached, it evicts the session later."""
        session, deps = self._fetched.session, self._deps
        if session.is_open:
            closing = session.close()
            request = fetch_request(closing, deps.broker_id, deps.broker_epoch(), deps.settings)
            with contextlib.suppress(Unreachable):
                await self._send(request, closing.version)
