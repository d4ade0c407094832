"""The share coordinator: share partitions whose partitions of __share_group_state this broker leads (KIP-932).

Leadership and loading are those of every coordinator (`CoordinatorRuntime`); the decisions are in `machine`. In
intervals, snapshots are written of states that do not change, and the records are deleted that newer ones replace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator

from sordini.broker.configuration.keys.share_coordinator_keys import ShareCoordinatorSettings
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.runtime import CoordinatorRuntime
from sordini.broker.coordinators.shard import ShardSettings
from sordini.broker.coordinators.share_partition_names import share_partition_name
from sordini.broker.share_state.machine.stored_state import SnapshotRule
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.share_state.shard import OnAnswer, ShareStateDeps, ShareStateShard
from sordini.broker.share_state.state_apis import Argument, StateKind
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicId, TopicPartition
from sordini.replication.partition import Partition
from sordini.storage.errors import StorageError

NEVER_MS = 2**31 - 1
"""The interval in which states expire: they do not."""


class ShareCoordinator:
    """Keeps the states of share partitions for their leaders."""

    def __init__(
        self,
        config: ShareCoordinatorSettings,
        topic: InternalTopic,
        ports: Ports,
        has_partition: Callable[[TopicId, int], bool],
        is_known: Callable[[TopicId], bool],
    ) -> None:
        """`has_partition` and `is_known` say what the cluster has, as far as this broker knows."""
        rule = SnapshotRule(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
        )
        deps = ShareStateDeps(ports, rule, has_partition)
        settings = ShardSettings(
            config.share_coordinator_state_topic_compression_codec,
            config.share_coordinator_write_timeout_ms,
            config.share_coordinator_load_buffer_size,
            NEVER_MS,
        )
        self.runtime: CoordinatorRuntime[ShareStateShard] = CoordinatorRuntime(
            topic, settings, ports, lambda shard: ShareStateShard(shard, deps), ShareStateShard.begin_replay
        )
        self._ports = ports
        self._is_known = is_known
        self._cold_ms = rule.cold_ms
        self._prune_ms = config.share_coordinator_state_topic_prune_interval_ms
        self._has_deleted = False
        self._is_repeating = False

    # Leadership, as a `LeadershipListener`.

    def became_leader(self, partition: Partition) -> None:
        self.runtime.became_leader(partition)
        if not self._is_repeating and self.runtime.shards():
            self._is_repeating = True
            self._repeat(self._cold_ms, self._write_cold_snapshots)
            self._repeat(self._prune_ms, self._delete_redundant)

    def resigned(self, partition: Partition) -> None:
        self.runtime.resigned(partition)

    # Requests.

    def serve(self, kind: StateKind, key: SharePartitionKey, argument: Argument, on_answer: OnAnswer) -> None:
        """Serve a request for one share partition; `on_answer` is called once, maybe before this returns.

        Raises BrokerError for what is refused, and NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS.
        """
        shard = self.runtime.loaded_shard(share_partition_name(*key))
        shard.state.serve(kind, key, argument, on_answer)

    def topics_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were deleted from the cluster; the states of deleted topics are deleted, too. Raises nothing."""
        if partitions and not self._has_deleted and self.runtime.shards():
            self._has_deleted = True
            self._ports.spawn(self._delete_unknown_topics())

    # Upkeep.

    async def _delete_unknown_topics(self) -> None:
        await asyncio.sleep(0)  # Further partitions may be reported in this iteration of the loop.
        self._has_deleted = False
        await self._in_slices(lambda state: state.delete_unknown_topics(self._is_known))

    async def _write_cold_snapshots(self) -> None:
        await self._in_slices(lambda state: state.write_cold_snapshots())

    async def _delete_redundant(self) -> None:
        for shard in self.runtime.shards():
            if shard.is_loading:
                continue
            try:
                shard.state.delete_redundant()
            except (BrokerError, StorageError) as error:  # The log directory went offline: the leadership ends.
                self._ports.log.warning(
                    "share states not pruned", partition=str(shard.partition.name), reason=str(error)
                )
            await asyncio.sleep(0)

    async def _in_slices(self, work: Callable[[ShareStateShard], Iterator[None]]) -> None:
        """Work on each loaded shard, until it is unloaded."""
        for shard in self.runtime.shards():
            if shard.is_loading:
                continue
            for _ in work(shard.state):
                await asyncio.sleep(0)
                if self.runtime.shard_of(shard.partition) is not shard:
                    break

    def _repeat(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work after each interval."""

        async def run() -> None:
            await work()
            schedule()

        def start() -> None:
            self._ports.spawn(run())

        def schedule() -> None:
            self._ports.call_later(interval_ms / 1000, start)

        schedule()
