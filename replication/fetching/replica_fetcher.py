"""One fetcher: a task that fetches some of the partitions that this broker follows from one leader.

One request is in flight at a time. A round examines the updated partitions, sends one request for all, and gives each
its row of the response. A failed partition is delayed or removed; a failed connection delays all, in a new session.

A response may be stale: a partition may have another leader, or be gone, since the request was sent. Each row is given
to the partition with the `Follower` (one term of following) that made the request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from sordini.client.ports import Rounds
from sordini.protocol.errors import error_name
from sordini.protocol.messages.fetch import FetchResponse, PartitionData
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.fetching.fetched_partitions import FetchedPartitions
from sordini.replication.fetching.fetcher_deps import FetcherDeps
from sordini.replication.fetching.leader_log_bounds import LeaderLogBounds
from sordini.replication.fetching.messages import (
    fetch_request,
)
from sordini.replication.fetching.partition_results import PartitionResults
from sordini.replication.fetching.session import FETCH_SESSION_ERRORS
from sordini.replication.fetching.tail_rounds import RoundDeps, TailStreak
from sordini.replication.partition import Partition
from sordini.replication.ports import BrokerLink, Unreachable

SLICE_BYTES = 1024 * 1024
"""Appended to logs at most before the loop runs other tasks."""


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
        self._results = PartitionResults(leader_id, deps, self._fetched)
        round_deps = RoundDeps(deps.clock, deps.quota, deps.broker_epoch, self._results.on_failure)
        self._streak = TailStreak(round_deps, self._fetched)
        self._is_unreachable = False
        """Whether the last request failed, which was logged."""
        self._bounds = LeaderLogBounds(deps, self._fetched, self._results, self._send)

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
                await self._bounds.request_epoch_ends()
            elif fetched.out_of_range:
                await self._bounds.handle_out_of_range()
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
        if self._results.not_fetched:
            self._results.log_not_fetched()

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
                        await self._results.flush(fetched)
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
                self._results.process_row(fetched, fetched.follower, row, now_ms)
                if row.records:
                    self._is_idle = False
                    slice_bytes += len(row.records)  # type: ignore[arg-type]  # Decoded records are always a view.
                    if fetched.partition.log.needs_flush:
                        await self._results.flush(fetched)
                if slice_bytes >= SLICE_BYTES:
                    slice_bytes = 0
                    await asyncio.sleep(0)
        self._streak.note(row if rows_count == 1 else None, slice_bytes)
        if self._is_idle:
            self._fetched.mark_all_updated()  # Local changes are picked up now: retention moves log start offsets.
        return rows_count

    async def _close_session(self) -> None:
        """Have the leader drop the session; if it cannot be reached, it evicts the session later."""
        session, deps = self._fetched.session, self._deps
        if session.is_open:
            closing = session.close()
            request = fetch_request(closing, deps.broker_id, deps.broker_epoch(), deps.settings)
            with contextlib.suppress(Unreachable):
                await self._send(request, closing.version)
