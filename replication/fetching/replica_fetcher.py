"""One fetcher: a task that asks one leader for the records of some of the partitions that this broker follows.

One request is under way at a time. A round looks at the partitions that have something new to ask, sends one request
for all of them, and gives each its part of the answer. What is wrong with one partition delays that one alone, or
drops it; what is wrong with the connection delays all, and begins a new session.

What is answered may be about the past: a partition may have got another leader, or have gone, while the request was
under way. Each answer is given to the partition with the `Follower` (one term of following) that had asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode, error_name
from sordini.protocol.messages.fetch import EpochEndOffset, FetchResponse, PartitionData
from sordini.protocol.types import BrokerId, Offset, TopicPartition
from sordini.replication.fetching.fetched_partitions import FetchedPartition, FetchedPartitions
from sordini.replication.fetching.messages import (
    EARLIEST,
    LATEST,
    FetchSettings,
    epochs_request,
    fetch_request,
    offsets_request,
)
from sordini.replication.fetching.session import FETCH_SESSION_ERRORS
from sordini.replication.follower import EpochEnd, Follower, Reaction, Start, start_when_out_of_range
from sordini.replication.inter_broker import InterBrokerVersions
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLink, Clock, Log, Unreachable
from sordini.replication.replica_quota import ReplicaQuota
from sordini.storage.errors import DiskFull, StorageError

NOTHING = memoryview(b"")
OF_AN_ELECTION = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""What a leader answers that has not heard yet that it is one."""
FIRST_PAUSE_MS = 20
"""After such an answer; it doubles up to `replica.fetch.backoff.ms`."""
PAUSES_DOUBLED_MAX = 16
TURN_BYTES = 1024 * 1024
"""Written to logs at most before others get their turn of the loop."""


class FetcherDeps(NamedTuple):
    """What every fetcher of a broker works with."""

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    """Of the present registration; -1 when there is none."""
    versions: InterBrokerVersions
    settings: FetchSettings
    quota: ReplicaQuota
    clock: Clock
    log: Log


class ReplicaFetcher:
    """Fetches from one leader, for as long as there is a partition to fetch."""

    def __init__(self, leader_id: BrokerId, link: BrokerLink, around: FetcherDeps, ended: Callable[[], None]) -> None:
        """`ended` is called when the last partition has gone and the session with it: nothing can be added then."""
        self._leader_id = leader_id
        self._link = link
        self._around = around
        self._ended = ended
        self._roster = FetchedPartitions(around.versions.fetch, around.quota)
        self._news = asyncio.Event()
        self._is_idle = False
        """Whether the last answer brought no records, so that the next may be long in coming."""
        self._is_parked = False
        """Whether such an answer is being waited for."""
        self._is_interrupted = False
        self._is_silent = False
        """Whether the leader could not be reached when it was asked last, which was logged."""
        self._not_fetched: dict[str, list[str]] = {}
        """Partitions that an answer has refused, by the error; written together."""

    @property
    def partitions(self) -> list[Partition]:
        return [followed.partition for followed in self._roster.all()]

    def add(self, partition: Partition) -> None:
        """Fetch a partition; for one that is fetched already, a new term has begun."""
        self._roster.add(partition)
        self._news.set()
        if self._is_parked:
            # The leader has nothing to tell and may hold its answer back for long; a new partition must not wait for
            # that. Once for each such answer: many additions must not keep the others from being fetched.
            self._is_parked = self._is_idle = False
            self._is_interrupted = True
            self._link.close()

    def fetches(self, name: TopicPartition) -> bool:
        """Whether something of this name is fetched: what a failed disk took is not."""
        return name in self._roster

    def remove(self, name: TopicPartition, partition: Partition | None = None) -> None:
        """Fetch what bears this name no longer, or only if it is `partition`; harmless when nothing is fetched."""
        if self._roster.remove(name, partition):
            self._news.set()

    async def run(self) -> None:
        """The fetcher's life."""
        try:
            while self._roster:
                while self._roster:
                    await self._round()
                await self._close_session()
        finally:
            self._link.close()
            self._ended()

    async def _round(self) -> None:
        roster = self._roster
        try:
            roster.look(self._around.clock.monotonic_ms())
            if roster.epoch_questions:
                await self._ask_epochs()
            elif roster.out_of_range:
                await self._find_starts()
            elif roster.session:
                await self._fetch()
            else:
                await self._wait()
        except Unreachable as reason:
            roster.session.lost()
            roster.touch_all()
            if self._is_interrupted:
                self._is_interrupted = False
                return
            if not self._is_silent:
                self._is_silent = True
                self._around.log.warning("leader cannot be reached", leader=self._leader_id, reason=str(reason))
            await self._back_off()
        if self._not_fetched:
            self._tell_not_fetched()

    def _tell_not_fetched(self) -> None:
        log, leader = self._around.log, self._leader_id
        for error, names in self._not_fetched.items():
            log.info("partitions not fetched", leader=leader, error=error, partitions=len(names), first=names[0])
        self._not_fetched.clear()

    async def _back_off(self) -> None:
        await asyncio.sleep(self._around.settings.backoff_ms / 1000)

    async def _wait(self) -> None:
        """Nothing can be asked now: wait for a pause's end, or for a partition to come or go."""
        self._news.clear()
        next_ms = self._roster.next_ms()
        wait_s = None if next_ms is None else max(next_ms - self._around.clock.monotonic_ms(), 1) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    async def _ask(self, request: Any, version: int) -> Any:
        response = await self._link.ask(request, version, self._around.settings.socket_timeout_ms)
        if self._is_silent:
            self._is_silent = False
            self._around.log.info("leader is reached again", leader=self._leader_id)
        return response

    # Records.

    async def _fetch(self) -> None:
        around, session = self._around, self._roster.session
        delta = session.next_request()
        request = fetch_request(delta, around.broker_id, around.broker_epoch(), around.settings)
        next_ms = self._roster.next_ms()
        if next_ms is not None:  # Who pauses must not wait for the end of the others' long poll.
            request.max_wait_ms = max(min(request.max_wait_ms, next_ms - around.clock.monotonic_ms()), 0)
        self._is_parked = self._is_idle
        try:
            response = await self._ask(request, delta.version)
        finally:
            self._is_parked = False
        self._is_interrupted = False
        code = response.error_code
        if code:
            session.refused(code)
            self._roster.touch_all()
            if code not in FETCH_SESSION_ERRORS or delta.epoch == 0:
                around.log.warning("fetch refused", leader=self._leader_id, error=error_name(code))
                await self._back_off()
        elif not session.answered(response.session_id, await self._take(response)):
            around.log.warning("partitions missing in an answer", leader=self._leader_id)
            await self._back_off()

    async def _take(self, response: FetchResponse) -> int:
        """Give each partition its part of an answer; how many parts there are."""
        now_ms = self._around.clock.now_ms()
        served_count = turn_bytes = 0
        self._is_idle = True
        for topic in response.responses:
            for row in topic.partitions:
                served_count += 1
                followed = self._roster.find(topic.topic, topic.topic_id, row.partition_index)
                if followed is None or followed.follower is None:
                    continue
                self._take_one(followed, followed.follower, row, now_ms)
                if row.records:
                    self._is_idle = False
                    turn_bytes += len(row.records)  # type: ignore[arg-type]  # What is decoded is always a view.
                    if followed.partition.log.needs_flush:
                        await self._flush(followed)
                if turn_bytes >= TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)
        if self._is_idle:
            self._roster.touch_all()  # Time for those to whom something happened here: retention moves a log's start.
        return served_count

    def _take_one(self, followed: FetchedPartition, follower: Follower, row: PartitionData, now_ms: int) -> None:
        self._roster.touch(followed)
        partition = followed.partition
        try:
            if row.error_code:
                self._refused(followed, follower, row.error_code)
            elif row.diverging_epoch is not None:
                self._cut(followed, follower, row.diverging_epoch, now_ms)
            else:
                records = row.records or NOTHING
                assert isinstance(records, memoryview)
                size = partition.take(
                    follower, followed.asked_offset, records, row.high_watermark, row.log_start_offset, now_ms
                )
                followed.is_lagging = partition.log.log_end_offset < row.high_watermark
                followed.early_count = 0
                followed.failure = ""
                if size:
                    self._around.quota.moved(partition.name, size, self._around.clock.monotonic_ms())
                    self._roster.session.give_way(followed.place)
                elif records and partition.follower is follower:
                    self._pause(followed)  # It would make no headway, again and again.
        except (BrokerError, StorageError) as error:
            self._failed(followed, error)

    def _cut(self, followed: FetchedPartition, follower: Follower, leader_end: EpochEndOffset, now_ms: int) -> None:
        log = followed.partition.log
        before = log.log_end_offset, log.epochs.latest
        followed.partition.cut(follower, EpochEnd(leader_end.epoch, leader_end.end_offset), now_ms)
        if (log.log_end_offset, log.epochs.latest) == before:
            self._pause(followed)  # The same question would get the same answer.

    async def _flush(self, followed: FetchedPartition) -> None:
        """What is acknowledged by asking for more is as durable here as at the leader."""
        try:
            await followed.partition.log.flush_if_due()
        except (BrokerError, StorageError) as error:
            self._failed(followed, error)

    def _pause(self, followed: FetchedPartition, wait_ms: int | None = None) -> None:
        around = self._around
        if wait_ms is None:
            wait_ms = around.settings.backoff_ms
        self._roster.pause(followed, around.clock.monotonic_ms() + wait_ms)

    def _pause_for_election(self, followed: FetchedPartition) -> None:
        """A little longer each time in a row: what a leader refuses before it is told to lead it takes right after."""
        wait_ms = min(FIRST_PAUSE_MS << followed.early_count, self._around.settings.backoff_ms)
        followed.early_count = min(followed.early_count + 1, PAUSES_DOUBLED_MAX)
        self._pause(followed, wait_ms)

    def _refused(self, followed: FetchedPartition, follower: Follower, code: int) -> None:
        """The leader refuses one partition; a term that is over asks nothing until the next one."""
        reaction = followed.partition.refused(follower, code)
        if reaction is Reaction.FIND_START:
            self._roster.lose_place(followed)
        elif reaction is Reaction.RETRY:
            error = error_name(code)
            if followed.failure != error:
                followed.failure = error
                self._not_fetched.setdefault(error, []).append(str(followed.partition.name))
            if code in OF_AN_ELECTION:
                self._pause_for_election(followed)
            else:
                self._pause(followed)

    def _failed(self, followed: FetchedPartition, error: BrokerError | StorageError) -> None:
        """What came cannot be taken: later perhaps, or never when it is the disk's fault."""
        name = str(followed.partition.name)
        if isinstance(error, StorageError):
            self._around.log.error("partition fetched no longer", partition=name, reason=str(error))
            self._roster.remove(followed.partition.name, followed.partition)
        else:
            # A full disk has a line of its own, one for all partitions.
            if followed.failure != str(error) and not isinstance(error, DiskFull):
                self._around.log.warning("records not taken", partition=name, reason=str(error))
            followed.failure = str(error)
            self._pause(followed)

    # Questions before records.

    async def _ask_epochs(self) -> None:
        """Where epochs ended in the leader's log, for protocols where the answer to Fetch does not say it."""
        around, roster = self._around, self._roster
        asked = roster.take_epoch_questions()
        questions = [(followed.place, question) for followed, (_, question) in asked.items()]
        request = epochs_request(questions, around.broker_id)
        response = await self._ask(request, around.versions.offset_for_leader_epoch)
        rows = {(topic.topic, row.partition): row for topic in response.topics for row in topic.partitions}
        now_ms = around.clock.now_ms()
        for followed, (follower, _) in asked.items():
            row = rows.get(followed.partition.name)
            if roster.is_past(followed, follower):
                continue
            if row is None or row.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else row.error_code
                self._refused(followed, follower, code)
                continue
            try:
                followed.partition.cut(follower, EpochEnd(row.leader_epoch, row.end_offset), now_ms)
            except (BrokerError, StorageError) as error:
                self._failed(followed, error)

    async def _find_starts(self) -> None:
        """Where the leader's logs begin and end, for the partitions whose offsets are outside of them."""
        lost = self._roster.take_out_of_range()
        places = [(followed.place, follower.leader_epoch) for followed, follower in lost.items()]
        ends = await self._offsets(places, LATEST)
        starts = await self._offsets(places, EARLIEST)
        now_ms = self._around.clock.now_ms()
        for followed, follower in lost.items():
            name = followed.partition.name
            if self._roster.is_past(followed, follower):
                continue
            if name not in ends or name not in starts:
                self._pause(followed)
                continue
            log_end = Offset(followed.partition.log.log_end_offset)
            start = start_when_out_of_range(starts[name], ends[name], log_end)
            if start == Start(log_end, begin_anew=False):
                self._pause(followed)  # It is within the leader's log by now, or was refused for another reason.
                continue
            try:
                followed.partition.go_on_from(follower, start, now_ms)
            except (BrokerError, StorageError) as error:
                self._failed(followed, error)

    async def _offsets(self, places: Iterable[Any], timestamp: int) -> dict[tuple[str, int], Offset]:
        """The offsets that the leader tells. Who is not among them is asked for again, and hears why by then."""
        request = offsets_request(places, timestamp, self._around.broker_id)
        response = await self._ask(request, self._around.versions.list_offsets)
        return {
            (topic.name, row.partition_index): Offset(row.offset)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.offset >= 0
        }

    async def _close_session(self) -> None:
        """Tell the leader that it need not keep the session; if it cannot be told, it will find out by itself."""
        session, around = self._roster.session, self._around
        if session.is_open:
            delta = session.closing()
            request = fetch_request(delta, around.broker_id, around.broker_epoch(), around.settings)
            with contextlib.suppress(Unreachable):
                await self._ask(request, delta.version)
