"""The group coordinator: requests to the groups whose partitions of __consumer_offsets this broker leads.

Leadership, loading and expiry are those of every coordinator (`CoordinatorRuntime`); a group's decisions are in
`machine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from uuid import UUID

from sordini.broker.configuration.keys.group_keys import GroupSettings
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.journal import OnDone, TransactionalProducer
from sordini.broker.coordinators.ports import Ports
from sordini.broker.coordinators.runtime import CoordinatorRuntime
from sordini.broker.coordinators.shard import ShardSettings
from sordini.broker.groups.any_group import AnyGroup
from sordini.broker.groups.classic_groups import OnAnswer
from sordini.broker.groups.consumer.groups import ConsumerGroupDeps
from sordini.broker.groups.consumer.machine.events import ConsumerHeartbeat
from sordini.broker.groups.consumer.machine.offset_validation import fetch_error
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.consumer.machine.target import subscribed_topics
from sordini.broker.groups.machine.events import DeleteGroup, GroupAnswer, GroupLimits, Request, ValidateOffsetCommit
from sordini.broker.groups.machine.memory_limit import GroupMemoryLimit
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.rebalance_history import Rebalance
from sordini.broker.groups.machine.state import NO_CALLER, CommittedOffset, Group, GroupState
from sordini.broker.groups.machine.subscriptions import is_subscribed
from sordini.broker.groups.session_waits import SessionWaits
from sordini.broker.groups.shard import GroupShard, retried_later
from sordini.broker.groups.shard_deps import GroupShardDeps
from sordini.broker.groups.shard_histories import RebalanceTotals
from sordini.broker.groups.share.groups import ShareGroupDeps
from sordini.broker.groups.share.machine.events import Event as ShareEvent
from sordini.broker.groups.share.machine.state import ShareGroup
from sordini.broker.network.ports import Peer
from sordini.protocol.consumer_subscription import CONSUMER_PROTOCOL
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import Offset, TopicId, TopicPartition, topic_id_text
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommit

MEMBER_ID_PREFIX_BYTES_MAX = 16_384
"""Of a member's id, a string of 32767 bytes at most on the wire."""


class GroupCoordinator:
    """Serves requests to groups. Where not stated otherwise they are refused by BrokerError, as by `submit`."""

    def __init__(
        self,
        config: GroupSettings,
        topic: InternalTopic,
        ports: Ports,
        consumers: ConsumerGroupDeps,
        shares: ShareGroupDeps,
        *,
        is_guarded: bool = False,
    ) -> None:
        """`is_guarded`: a producer's late TxnOffsetCommit is refused (`coordinators/newest_connection.py`)."""
        self._members_max = config.group_max_size
        self._ports = ports
        self.memory = GroupMemoryLimit(config.group_memory_bytes_max)
        self.rebalances = RebalanceTotals(config.group_rebalance_history_max, self.memory)
        limits = GroupLimits(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            members_max=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        )
        self.accepted_connections: Callable[[], int] = _none_accepted
        """The count of connections that this broker has accepted; set by the server."""
        deps = GroupShardDeps(
            ports,
            self._accepted if is_guarded else None,
            limits,
            self.memory,
            self.rebalances,
            config.offsets_retention_minutes * 60_000,
            consumers,
            shares,
            self.partitions_deleted,
        )
        settings = ShardSettings(
            config.offsets_topic_compression_codec,
            config.offsets_commit_timeout_ms,
            config.offsets_load_buffer_size,
            config.offsets_retention_check_interval_ms,
        )
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            topic, settings, ports, lambda shard: GroupShard(shard, deps)
        )
        self.session_waits = SessionWaits(ports, self._existing)
        self.settings_of = consumers.settings_of
        """The settings of a consumer group."""
        self.states_of_shares = shares.states
        """Requests to the share coordinator."""
        self._topic = topic
        self._deleted: set[TopicPartition] = set()

    # Requests of members and administrators.

    def submit(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        """Submit a request to a group; `on_answer` is called once, maybe before this returns.

        Raises BrokerError NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self.runtime.loaded_shard(group_id).state.submit(group_id, request, on_answer)

    def heartbeat(self, group_id: str, event: ConsumerHeartbeat, peer: Peer, on_answer: OnAnswer) -> None:
        """Submit a heartbeat of a consumer group's member; as `submit`."""
        self.runtime.loaded_shard(group_id).state.heartbeat(group_id, event, peer, on_answer)

    def submit_to_share_group(
        self, group_id: str, event: ShareEvent, on_answer: OnAnswer | None = None, peer: Peer | None = None
    ) -> None:
        """Submit an event to a share group; as `submit`."""
        self.runtime.loaded_shard(group_id).state.submit_to_share_group(group_id, event, on_answer, peer)

    def commit_offsets(
        self,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Commit offsets, once the group is loaded; `on_done` is called with NONE when they are committed.

        Raises BrokerError NOT_COORDINATOR.
        """
        self.runtime.led_shard(group_id).state.commit_offsets(group_id, request, offsets, on_done)

    def admits(self, group_id: str, producer: TransactionalProducer, connection: int) -> bool:
        """Whether a transaction's request is on no older connection than one before. Raises BrokerError as `submit`."""
        return self.runtime.loaded_shard(group_id).state.commits.admits(producer, connection)

    def commit_in_transaction(
        self,
        producer: TransactionalProducer,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Commit offsets in a producer's transaction, which is verified; as `commit_offsets`, but on a loaded group.

        Raises BrokerError as `submit`.
        """
        self.runtime.loaded_shard(group_id).state.commits.commit_in_transaction(
            producer, group_id, request, offsets, on_done
        )

    def when_loaded(self, group_id: str, then: Callable[[], None], on_error: OnDone) -> None:
        """Call `then` once the group's partition is loaded: at once, or later; else `on_error`.

        Raises BrokerError NOT_COORDINATOR.
        """
        shard = self.runtime.led_shard(group_id)
        if shard.is_loading:
            shard.wait_until_loaded(then, on_error)
        else:
            then()

    def partition_of(self, group_id: str) -> Partition:
        """The partition of __consumer_offsets that has the group. Raises BrokerError as `submit`."""
        return self.runtime.loaded_shard(group_id).partition

    # Transactions.

    def check_marker(self, partition: Partition) -> None:
        """Raise BrokerError NOT_LEADER_OR_FOLLOWER while a marker cannot be applied here; its sender retries.

        A partition that is being loaded would miss it, since the loading ends where the log ended before.
        """
        shard = self.runtime.shard_of(partition)
        if shard is None or shard.is_loading:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.name} is not loaded yet")

    def marker_appended(
        self, partition: Partition, producer: TransactionalProducer, end_offset: int, *, commit: bool
    ) -> None:
        """A transaction's marker was appended; once it is committed, its offsets are applied or discarded."""
        shard = self.runtime.shard_of(partition)
        assert shard is not None, "check_marker was called before"
        if not commit:
            shard.state.commits.transaction_aborted(producer)

        def committed(_commit: PendingCommit | None, code: ErrorCode) -> None:
            if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                shard.state.end_transaction(producer.producer_id, commit=commit)

        if partition.require_leader().high_watermark >= end_offset:
            committed(None, ErrorCode.NONE)
        else:
            partition.pending_commits.add(Offset(end_offset), committed)

    def _accepted(self) -> int:
        return self.accepted_connections()

    def check_reader(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Whether a client may read the group's offsets. Without a member id and epoch it is an administrator.

        Raises BrokerError as `submit`, and UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        group = self.consumer_group(group_id)
        code = ErrorCode.NONE if group is None else fetch_error(group, member_id, epoch)
        if code:
            raise BrokerError(code, f"member {member_id} of group {group_id} with epoch {epoch}")

    def offsets(self, group_id: str) -> OffsetTable:
        """A group's committed offsets; none if there is no such group."""
        return self.runtime.loaded_shard(group_id).state.offsets(group_id)

    def group(self, group_id: str) -> Group | None:
        """A classic group; None if it does not exist, or is dead."""
        group = self.runtime.loaded_shard(group_id).state.classic.groups.get(group_id)
        return None if group is None or group.state is GroupState.DEAD else group

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """A group of KIP-848; None if it does not exist."""
        return self.runtime.loaded_shard(group_id).state.consumers.groups.get(group_id)

    def share_group(self, group_id: str) -> ShareGroup | None:
        """A share group; None if it does not exist."""
        return self.runtime.loaded_shard(group_id).state.shares.groups.get(group_id)

    def any_group(self, group_id: str) -> AnyGroup | None:
        """A group of any kind."""
        return self.group(group_id) or self.consumer_group(group_id) or self.share_group(group_id)

    def rebalances_of(self, group_id: str) -> tuple[int, list[Rebalance]]:
        """Since when this broker coordinates the group (wall clock), and the rebalances since then, oldest first.

        The last one may be in progress. Raises BrokerError as `submit`, and GROUP_ID_NOT_FOUND.
        """
        group = self.any_group(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        state = self.runtime.loaded_shard(group_id).state
        return state.since_ms, state.histories.of(group)

    def last_rebalances(self) -> Iterator[tuple[str, int]]:
        """The groups here that have rebalanced, with the duration of their last rebalance in milliseconds."""
        for shard in self.runtime.shards():
            yield from shard.state.histories.last_durations()

    def _existing(self, group_ids: Collection[str] | None) -> list[AnyGroup]:
        if group_ids is None:
            return self.groups()
        found = []
        for group_id in group_ids:
            with suppress(BrokerError):
                group = self.any_group(group_id)
                found += [] if group is None else [group]
        return found

    def is_full(self, group_id: str) -> bool:
        """Whether a group has group.max.size members."""
        group = self.group(group_id)
        return group is not None and len(group.members) >= self._members_max

    def delete_group(self, group_id: str, on_done: OnDone) -> None:
        """Delete a group without members, and its offsets. Raises nothing."""
        self.session_waits.when_none_is_due([group_id], lambda: self._delete_group(group_id, on_done))

    def _delete_group(self, group_id: str, on_done: OnDone) -> None:
        try:
            if self.any_group(group_id) is None:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        except BrokerError as error:
            on_done(error.code)
            return

        def answered(answer: GroupAnswer) -> None:
            on_done(answer.error)

        self.submit(group_id, DeleteGroup(NO_CALLER), answered)

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition], on_done: OnDone) -> None:
        """Delete those of the offsets that exist. The caller checks that no member uses them (`subscribed_topics`)."""
        state = self.runtime.loaded_shard(group_id).state
        committed = state.offsets(group_id)
        existing = [p for p in partitions if committed.get(p) is not None or committed.is_unstable(p)]
        if existing:
            state.delete_offsets(group_id, existing, on_done)
        else:
            on_done(ErrorCode.NONE)

    def subscribed_topics(self, group_id: str, topics: Collection[str]) -> set[str]:
        """Those of the topics that members of the group subscribe to.

        Raises BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP for members that are no consumers; and as `submit`.
        """
        consumers = self.consumer_group(group_id)
        if consumers is not None:
            return set(topics) & subscribed_topics(consumers.members.values(), consumers.regexes)
        group = self.group(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        if group.state is GroupState.EMPTY:
            return set()
        if group.protocol_type != CONSUMER_PROTOCOL:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"the subscriptions of {group_id} are not known")
        return {topic for topic in topics if is_subscribed(group, topic)}

    def new_member_id(self, prefix: str) -> str:
        """A unique id: the client's name, or the instance's, and a random UUID."""
        return f"{prefix.encode()[:MEMBER_ID_PREFIX_BYTES_MAX].decode(errors='ignore')}-{self.new_uuid()}"

    def new_uuid(self) -> UUID:
        """A random UUID."""
        return UUID(int=self._ports.randomness.getrandbits(128), version=4)

    def new_consumer_id(self) -> str:
        """The id of a consumer group's member that does not make its own: 22 characters, as of Apache Kafka."""
        return topic_id_text(TopicId(self.new_uuid().bytes))

    # All groups of this broker.

    @property
    def is_loading(self) -> bool:
        """Whether groups are missing from `groups`, because their partition is being loaded."""
        return self.runtime.is_loading

    def groups(self) -> list[AnyGroup]:
        """All groups here, as they are now. Raises nothing."""
        found: list[AnyGroup] = []
        for shard in self.runtime.shards():
            if not shard.is_loading:
                found += shard.state.classic.groups.values()
                found += shard.state.consumers.groups.values()
                found += shard.state.shares.groups.values()
        return found

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were deleted from the cluster; their committed offsets are deleted, too. Raises nothing."""
        deleted = {partition for partition in partitions if partition.topic != self._topic.name}
        if not deleted:
            return
        for shard in self.runtime.shards():
            if shard.is_loading:
                shard.state.deleted_while_loading |= deleted
        if not self._deleted:
            self._ports.spawn(self._delete_offsets_of_deleted())
        self._deleted |= deleted

    async def _delete_offsets_of_deleted(self) -> None:
        """One pass over the groups for all partitions that were deleted together."""
        await asyncio.sleep(0)  # Further partitions may be reported in this iteration of the loop.
        while self._deleted:
            deleted, self._deleted = self._deleted, set()
            names = {partition.topic for partition in deleted}
            async for state, group_id in self.runtime.each_key():
                partitions = [partition for partition in state.offset_partitions(group_id) if partition in deleted]
                if partitions:
                    state.delete_offsets(group_id, partitions, retried_later)
                state.topics_deleted(group_id, names)


def _none_accepted() -> int:
    """Without a server there are no connections."""
    return 0
