"""The group coordinator: which groups this broker looks after, and the way to each.

A group belongs to one partition of __consumer_offsets; whoever leads that coordinates the group. Leadership begins with
reading the partition (COORDINATOR_LOAD_IN_PROGRESS until that is done, and all that was read is committed: the next
leader must not know less than what was told here) and ends with forgetting all of it. Everywhere else the group's
clients are told NOT_COORDINATOR, and look for its coordinator anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from uuid import UUID

from sordini.broker.configuration.group_keys import GroupSettings
from sordini.broker.coordinators.deadline_timer import DueTimer
from sordini.broker.coordinators.internal_topic import OFFSETS_TOPIC, OffsetsTopic
from sordini.broker.coordinators.loading import is_committed, load
from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.events import Answer, Committing, Delete, GroupLimits, Tick
from sordini.broker.groups.machine.memory_limit import GroupMemory
from sordini.broker.groups.machine.offset_table import CONSUMER_PROTOCOL, OffsetTable, is_subscribed
from sordini.broker.groups.machine.state import Caller, CommittedOffset, Group, GroupState
from sordini.broker.groups.replay import restore
from sordini.broker.groups.shard import Asked, Done, Ended, Setup, Shard
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition

NOBODY = Caller(0)
"""Who asks, in an event that is on its way to its group: the group's shard puts the number in."""
GROUPS_PER_SLICE = 200
"""Looked at before others have their turn."""
SETTLE_MS = 10
"""Until a group that is due has had its turn: a round of the loop that reads all sockets, and some more."""
SETTLE_MS_MAX = 1_000
"""The longest wait for the end of a grace: after a long stall the answer is about the group as it is known."""
SETTLE_WAITS_MAX = 5
PREFIX_BYTES_MAX = 16_384
"""Of a member's id, which goes over the wire as a string of 32767 bytes at most."""


class GroupCoordinator:
    """Looks after the groups whose partitions this broker leads. A `LeadershipListener`."""

    def __init__(self, config: GroupSettings, topic: OffsetsTopic, ports: Ports) -> None:
        self._config = config
        self._topic = topic
        self._ports = ports
        limits = GroupLimits(
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            members_max=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        )
        self.memory = GroupMemory(config.group_memory_bytes_max)
        self._setup = Setup(ports, config, limits, DueTimer(ports.clock, ports.call_later, self._due), self.memory)
        self._shards: dict[int, Shard] = {}
        self._deleted: set[TopicPartition] = set()
        self._is_checking = False

    # What members and administrators ask.

    def ask(self, group_id: str, event: Asked, done: Done) -> None:
        """Tell a group what is asked of it; raises BrokerError when it is not looked after here, or not yet."""
        self._shard(group_id).ask(group_id, event, done)

    def commit(
        self, group_id: str, event: Committing, offsets: Mapping[TopicPartition, CommittedOffset], ended: Ended
    ) -> None:
        """Write offsets down, if need be when the group is read; `ended` is told NONE when they are committed.

        Raises BrokerError NOT_COORDINATOR.
        """
        self._led_shard(group_id).commit(group_id, event, offsets, ended)

    def offsets(self, group_id: str) -> OffsetTable:
        """What a group has committed; nothing when there is no such group. Raises BrokerError as `ask`."""
        return self._shard(group_id).offsets(group_id)

    def group(self, group_id: str) -> Group | None:
        """A group; None when there is none, or it is dead. Raises BrokerError as `ask`."""
        group = self._shard(group_id).groups.get(group_id)
        return None if group is None or group.state is GroupState.DEAD else group

    def when_settled(
        self, group_ids: Collection[str] | None, then: Callable[[], None], waits: int = SETTLE_WAITS_MAX
    ) -> None:
        """Call `then` when nothing of these groups (None: of all here) is due any more; at once if nothing is.

        An answer that depends on sessions waits for those that have just ended. It decides nothing itself, since what
        is due may have been put off by a heartbeat in a socket that nobody has read yet (see `sessions`).
        """
        wait_ms = max((self._due_in_ms(group) for group in self._there(group_ids)), default=0)
        if not wait_ms or not waits:
            then()
            return
        self._ports.call_later(wait_ms / 1000, lambda: self.when_settled(group_ids, then, waits - 1))

    def _there(self, group_ids: Collection[str] | None) -> list[Group]:
        if group_ids is None:
            return self.groups()
        found = []
        for group_id in group_ids:
            with suppress(BrokerError):
                group = self.group(group_id)
                found += [] if group is None else [group]
        return found

    def _due_in_ms(self, group: Group) -> int:
        """How long to wait until what is due is done; 0 when nothing is."""
        now_ms = self._ports.clock.monotonic_ms()
        if group.grace is not None:
            return min(max(group.grace.ends_ms - now_ms, 0) + SETTLE_MS, SETTLE_MS_MAX)
        return SETTLE_MS if group.due_ms is not None and group.due_ms <= now_ms else 0

    def is_full(self, group_id: str) -> bool:
        """Whether a group has as many members as it may. Raises BrokerError as `ask`."""
        group = self.group(group_id)
        return group is not None and len(group.members) >= self._config.group_max_size

    def delete(self, group_id: str, ended: Ended) -> None:
        """Delete a group without members, and its offsets. Raises nothing."""
        self.when_settled([group_id], lambda: self._delete(group_id, ended))

    def _delete(self, group_id: str, ended: Ended) -> None:
        try:
            if self.group(group_id) is None:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        except BrokerError as error:
            ended(error.code)
            return

        def answered(answer: Answer) -> None:
            ended(answer.error)

        self.ask(group_id, Delete(NOBODY), answered)

    def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition], ended: Ended) -> None:
        """Delete offsets that nobody uses, as far as there are any; see `in_use`. Raises BrokerError as `ask`."""
        shard = self._shard(group_id)
        there = shard.offsets(group_id)
        gone = [partition for partition in partitions if there.get(partition) is not None]
        if gone:
            shard.forget_offsets(group_id, gone, ended)
        else:
            ended(ErrorCode.NONE)

    def in_use(self, group_id: str, topics: Collection[str]) -> set[str]:
        """Those of the topics that the group is subscribed to.

        Raises BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP for one whose members are no consumers; and as `ask`.
        """
        group = self.group(group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        if group.state is GroupState.EMPTY:
            return set()
        if group.protocol_type != CONSUMER_PROTOCOL:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, f"what {group_id} is subscribed to cannot be known")
        return {topic for topic in topics if is_subscribed(group, topic)}

    def draw_member_id(self, prefix: str) -> str:
        """An id that nobody has: the client's name, or the instance's, and a random UUID."""
        drawn = UUID(int=self._ports.randomness.getrandbits(128), version=4)
        return f"{prefix.encode()[:PREFIX_BYTES_MAX].decode(errors='ignore')}-{drawn}"

    # What is known.

    @property
    def is_loading(self) -> bool:
        """Whether groups are missing from `groups`, because their partition is still read."""
        return any(shard.is_loading for shard in self._shards.values())

    def groups(self) -> list[Group]:
        """All groups here, as they are now."""
        return [group for shard in self._shards.values() if not shard.is_loading for group in shard.groups.values()]

    # What the cluster tells.

    def leads(self, partition: Partition) -> None:
        """A term as leader began. One that follows another of our own changes nothing that is known."""
        if partition.name.topic != OFFSETS_TOPIC:
            return
        shard = self._shards.get(partition.name.partition)
        if shard is not None and shard.partition is partition:
            shard.settle()
            return
        shard = self._shards[partition.name.partition] = Shard(partition, self._setup)
        if not self._is_checking:
            self._is_checking = True
            self._check_later()
        if partition.log.log_start_offset == partition.log.log_end_offset:
            shard.loaded()  # Nothing is there to be read: the usual case when the topic is made.
        else:
            self._ports.spawn(self._load(shard))

    def resigned(self, partition: Partition) -> None:
        """Leadership ended: forget everything, and tell whoever waits to look elsewhere."""
        shard = self._shards.get(partition.name.partition)
        if partition.name.topic == OFFSETS_TOPIC and shard is not None and shard.partition is partition:
            del self._shards[partition.name.partition]
            shard.close()

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are gone from the cluster, and what was committed for them goes, too."""
        gone = {partition for partition in partitions if partition.topic != OFFSETS_TOPIC}
        if not gone:
            return
        for shard in self._shards.values():
            if shard.is_loading:
                shard.deleted_meanwhile |= gone
        if not self._deleted:
            self._ports.spawn(self._forget_deleted())
        self._deleted |= gone

    # How it is done.

    def _led_shard(self, group_id: str) -> Shard:
        # What leads nothing need not know where the group belongs; nor does who waits for the first word of the topic.
        shard = None
        if self._shards and self._topic.exists:
            shard = self._shards.get(records.partition_for(group_id, self._topic.partition_count()))
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR, f"group {group_id} is not looked after by this broker")
        return shard

    def _shard(self, group_id: str) -> Shard:
        shard = self._led_shard(group_id)
        if shard.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"group {group_id} is being read")
        return shard

    def _due(self, key: tuple[int, str], late_ms: int) -> None:
        index, group_id = key
        shard = self._shards.get(index)
        if shard is not None:
            shard.feed(group_id, Tick(late_ms))

    def _is_led(self, shard: Shard) -> bool:
        return self._shards.get(shard.index) is shard

    async def _load(self, shard: Shard) -> None:
        began_ms = self._ports.clock.monotonic_ms()
        end_offset = shard.partition.log.log_end_offset

        def is_wanted() -> bool:
            return self._is_led(shard)

        slice_bytes = self._config.offsets_load_buffer_size
        latest = await load(shard.partition, self._ports, slice_bytes=slice_bytes, is_wanted=is_wanted)
        # Sessions begin with the last step, when members can be heard again.
        if (
            latest is None
            or not await is_committed(shard.partition, end_offset, is_wanted)
            or not await restore(shard, latest, self._setup, is_wanted)
        ):
            return
        shard.loaded()
        self.partitions_deleted(shard.deleted_meanwhile)
        self._ports.log.info(
            "groups loaded",
            partition=str(shard.partition.name),
            groups=len(shard.groups),
            records=len(latest),
            took_ms=self._ports.clock.monotonic_ms() - began_ms,
        )

    def _check_later(self) -> None:
        def check() -> None:
            self._is_checking = bool(self._shards)  # Nothing is led: the next leadership begins it anew.
            if self._is_checking:
                self._ports.spawn(self._expire())

        self._ports.call_later(self._config.offsets_retention_check_interval_ms / 1000, check)

    async def _expire(self) -> None:
        """Forget what has been kept long enough, and groups of which nothing is left; then again after a while."""
        async for shard, group_id in self._each_group():
            shard.expire(group_id)
        self._check_later()

    async def _forget_deleted(self) -> None:
        """Forget what was committed for deleted partitions: one pass over the groups for all that were told of."""
        await asyncio.sleep(0)  # More may be told of in this turn.
        while self._deleted:
            deleted, self._deleted = self._deleted, set()
            async for shard, group_id in self._each_group():
                gone = [partition for partition in shard.offsets_left(group_id) if partition in deleted]
                if gone:
                    shard.forget_offsets(group_id, gone, _nobody_asked)

    async def _each_group(self) -> AsyncIterator[tuple[Shard, str]]:
        """Every group that is here now, with turns for others in between."""
        looked_at = 0
        for shard in list(self._shards.values()):
            # A group whose first commit is still on its way has offsets, and is not a group yet.
            for group_id in dict.fromkeys([*shard.groups, *shard.tables]):
                if self._is_led(shard) and not shard.is_loading:
                    yield shard, group_id
                looked_at += 1
                if looked_at % GROUPS_PER_SLICE == 0:
                    await asyncio.sleep(0)


def _nobody_asked(_error: ErrorCode) -> None:
    """Offsets of what was deleted while nothing can be written stay until they expire."""
