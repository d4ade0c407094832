"""A coordinator's partitions: loaded when this broker becomes their leader, unloaded when it resigns.

A key belongs to one partition of the coordinator's internal topic, and the leader of that partition coordinates the
key. A new leadership starts with loading the partition: until everything read is committed (the next leader must not
know less than what was answered here), requests are answered COORDINATOR_LOAD_IN_PROGRESS. On every other broker they
are answered NOT_COORDINATOR, and clients send FindCoordinator again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Generic

from sordini.broker.coordinators.deadline_timer import DeadlineTimer
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.loading import Loaded, ReplayRecord, load, wait_until_committed
from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.shard import S, Shard, ShardSettings, ShardState
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.replication.partition import Partition

KEYS_PER_SLICE = 200
"""Visited before the loop serves other requests."""
RECORDS_PER_SLICE = 300
"""Replayed before the loop serves other requests: two or three milliseconds."""


class CoordinatorRuntime(Generic[S]):
    """The shards of one coordinator on this broker. A `LeadershipListener`."""

    def __init__(
        self,
        topic: InternalTopic,
        settings: ShardSettings,
        ports: Ports,
        new_state: Callable[[Shard[S]], S],
        begin_replay: Callable[[S], ReplayRecord] | None = None,
    ) -> None:
        """`begin_replay` forgets what a state has, and returns what takes each record in its order.

        Without it, a state is loaded from the last record of each key.
        """
        self._begin_replay = begin_replay
        self.topic = topic
        self._settings = settings
        self._ports = ports
        self._new_state = new_state
        self._timer: DeadlineTimer[tuple[int, str]] = DeadlineTimer(ports.clock, ports.call_later, self._tick)
        self._shards: dict[int, Shard[S]] = {}
        self._expires_periodically = False

    # Queries.

    @property
    def is_loading(self) -> bool:
        """Whether keys are missing from the shards' states, because a partition is being loaded."""
        return any(shard.is_loading for shard in self._shards.values())

    def shards(self) -> list[Shard[S]]:
        return list(self._shards.values())

    def led_shard(self, key: str) -> Shard[S]:
        """The shard of a key, which may be loading. Raises BrokerError NOT_COORDINATOR."""
        # The partition count is not read while this broker leads none of the partitions, or does not know the topic.
        shard = None
        if self._shards and self.topic.exists:
            shard = self._shards.get(partition_for(key, self.topic.partition_count()))
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR, f"{key} is not coordinated by this broker")
        return shard

    def loaded_shard(self, key: str) -> Shard[S]:
        """The shard of a key. Raises BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self.led_shard(key)
        if shard.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the partition of {key} is being loaded")
        return shard

    def shard_of(self, partition: Partition) -> Shard[S] | None:
        """The shard of a partition that is led here, which may be loading."""
        shard = self._shards.get(partition.name.partition)
        return shard if shard is not None and shard.partition is partition else None

    async def each_key(self) -> AsyncIterator[tuple[S, str]]:
        """Every key of the loaded shards; in between, the loop serves other requests."""
        visited = 0
        for shard in self.shards():
            for key in shard.state.known_keys():
                if self._is_led(shard) and not shard.is_loading:
                    yield shard.state, key
                visited += 1
                if visited % KEYS_PER_SLICE == 0:
                    await asyncio.sleep(0)

    # Leadership.

    def became_leader(self, partition: Partition) -> None:
        """Load the partition; the next leader epoch of a partition that was led before keeps what is loaded.

        With an epoch between them another broker may have coordinated its keys: it may have fenced what this one began,
        as markers of a transaction, and only a new loading takes that up again.
        """
        if partition.name.topic != self.topic.name:
            return
        shard = self._shards.get(partition.name.partition)
        if shard is not None and shard.partition is partition:
            if partition.leader_epoch <= shard.leader_epoch + 1:
                shard.leader_epoch = partition.leader_epoch
                return
            self.resigned(partition)
        shard = Shard(partition, self._settings, self._ports, self._timer, self._new_state)
        self._shards[partition.name.partition] = shard
        if not self._expires_periodically:
            self._expires_periodically = True
            self._schedule_expiry()
        if partition.log.log_start_offset == partition.log.log_end_offset:
            shard.loaded()  # Empty, as all partitions of a topic that was just created.
        else:
            self._ports.spawn(self._load(shard))

    def resigned(self, partition: Partition) -> None:
        """Unload the partition, and answer its pending requests NOT_COORDINATOR."""
        shard = self._shards.get(partition.name.partition)
        if partition.name.topic == self.topic.name and shard is not None and shard.partition is partition:
            del self._shards[partition.name.partition]
            shard.close()

    def _is_led(self, shard: Shard[S]) -> bool:
        return self._shards.get(shard.index) is shard

    # Loading.

    async def _load(self, shard: Shard[S]) -> None:
        started_ms = self._ports.clock.monotonic_ms()
        end_offset = shard.partition.log.log_end_offset

        def is_led() -> bool:
            return self._is_led(shard)

        slice_bytes = self._settings.load_slice_bytes
        begin = None if self._begin_replay is None else partial(self._begin_replay, shard.state)
        loaded = await load(shard.partition, self._ports, slice_bytes=slice_bytes, is_led=is_led, begin_replay=begin)
        # The state is made last, since sessions start with it.
        if (
            loaded is None
            or not await wait_until_committed(shard.partition, end_offset, is_led)
            or not await self._replay(shard, loaded)
        ):
            return
        shard.loaded()
        shard.state.on_loaded(len(loaded.latest) + loaded.replayed, self._ports.clock.monotonic_ms() - started_ms)

    async def _replay(self, shard: Shard[S], loaded: Loaded) -> bool:
        """Fill the state of a shard; false when the partition is no longer led here."""
        skipped: list[str] = []
        for number, problem in enumerate(_replayed(shard.state, loaded), 1):
            if problem is not None:
                skipped.append(problem)
            if number % RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)
                if not self._is_led(shard):
                    return False
        for _ in shard.state.finish_replay():
            await asyncio.sleep(0)
            if not self._is_led(shard):
                return False
        if skipped:
            name = str(shard.partition.name)
            self._ports.log.warning("records skipped", partition=name, count=len(skipped), first=skipped[0])
        return True

    # Deadlines and expiry.

    def _tick(self, key: tuple[int, str], late_ms: int) -> None:
        index, name = key
        shard = self._shards.get(index)
        if shard is not None:
            shard.state.tick(name, late_ms)

    def _schedule_expiry(self) -> None:
        def check() -> None:
            self._expires_periodically = bool(self._shards)  # Without shards, the next leadership schedules it again.
            if self._expires_periodically:
                self._ports.spawn(self._expire())

        self._ports.call_later(self._settings.expiry_interval_ms / 1000, check)

    async def _expire(self) -> None:
        async for state, key in self.each_key():
            state.expire(key)
        self._schedule_expiry()


def _replayed(state: ShardState, loaded: Loaded) -> Iterator[str | None]:
    """Load the records one by one; why each is skipped, or None. Those of open transactions in the log's order."""
    for key, value in loaded.latest.items():
        yield state.replay(key, value)
    for _, producer_id, key, open_value in sorted(loaded.open.entries()):
        yield state.replay_open(producer_id, key, open_value)
