"""The groups of one partition of __consumer_offsets, for as long as this broker leads it. A `ShardState`.

`classic_groups.py` has the groups of JoinGroup, `consumer/groups.py` those of KIP-848, and one may become the other;
`share/groups.py` has share groups, which stay what they are. Here is what they have in common: their loading, their
offsets and their removal, and which kind a request is for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from sordini.broker.coordinators.journal import OnDone
from sordini.broker.coordinators.shard import Shard
from sordini.broker.groups import requests_of_classic_members
from sordini.broker.groups.classic_groups import ClassicGroups, OnAnswer
from sordini.broker.groups.consumer.groups import ConsumerGroups
from sordini.broker.groups.consumer.machine.events import ConsumerHeartbeat, Refusal
from sordini.broker.groups.consumer.machine.state import JOIN_EPOCH, ConsumerGroup
from sordini.broker.groups.consumer.machine.target import has_unresolved_regex, subscribed_topics
from sordini.broker.groups.journal_errors import COMMIT_ERRORS, GROUP_ERRORS
from sordini.broker.groups.machine.events import (
    DeleteGroup,
    GroupAnswer,
    Join,
    Now,
    Request,
    ValidateOffsetCommit,
)
from sordini.broker.groups.machine.memory_limit import ShardMemoryUsage
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, GroupState
from sordini.broker.groups.offset_commits import OffsetCommits
from sordini.broker.groups.replay import GroupReplay
from sordini.broker.groups.shard_deps import GroupShardDeps
from sordini.broker.groups.shard_histories import ShardHistories
from sordini.broker.groups.shard_offsets import NO_OFFSETS, ShardOffsets
from sordini.broker.groups.share import classic_requests
from sordini.broker.groups.share.groups import ShareGroups
from sordini.broker.groups.share.machine.events import BeginRemoval, StatesAnswer, TopicsDeleted
from sordini.broker.groups.share.machine.events import Event as ShareEvent
from sordini.broker.groups.successors import ClassicSuccessor, consumer_successor
from sordini.broker.network.ports import Peer
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId, TopicPartition

GROUPS_PER_SLICE = 50
"""Restored before the loop serves other requests."""


class GroupShard:
    """One partition's groups and offsets."""

    def __init__(self, shard: Shard[GroupShard], deps: GroupShardDeps) -> None:
        self.deleted_while_loading: set[TopicPartition] = set()
        """Partitions deleted from the cluster during the loading; offsets of theirs may be loaded."""
        self._shard = shard
        self._deps = deps
        self._log = deps.ports.log
        self._memory = ShardMemoryUsage(deps.memory)
        self.since_ms = self._now().wall_ms
        """When this broker became the coordinator (wall clock)."""
        self._offsets = ShardOffsets(shard.journal, self._memory)
        self.histories = ShardHistories(deps.rebalances, self._memory)
        self.classic = ClassicGroups(shard, deps, self._offsets, self._memory, self.histories, self._now)
        self.consumers = ConsumerGroups(
            deps.consumers,
            shard.journal.append,
            shard.schedule,
            self._memory,
            self.histories,
            self.classic.end,
            ClassicSuccessor(deps.consumers.topics, deps.limits, self._now, self.classic.begin).of,
        )
        self.shares = ShareGroups(deps.shares, shard.journal.append, shard.schedule, self._memory, self.histories)
        self.commits = OffsetCommits(self, self._offsets, deps.consumers.topics, deps.accepted_connections)
        self._replay = GroupReplay(self._offsets)

    # Loading, as `ShardState`.

    def replay(self, key: bytes, value: bytes) -> str | None:
        return self._replay.replay(key, value)

    def replay_open(self, producer_id: int, key: bytes, value: bytes | None) -> str | None:
        return self._replay.replay_open(producer_id, key, value)

    def finish_replay(self) -> Iterator[None]:
        settings_of, now_ms = self._deps.consumers.settings_of, self._now().monotonic_ms
        for restored in self._replay.consumer_groups(now_ms, lambda name: settings_of(name).session_timeout_ms):
            self.consumers.restore(restored)
            yield
        timings_of = self._deps.shares.settings_of
        for share_group in self._replay.share_groups(self._now(), lambda name: timings_of(name).session_timeout_ms):
            self.shares.restore(share_group)
            yield
        for number, (group_id, value) in enumerate(self._replay.groups(), 1):
            self.classic.restore(group_id, value)
            if number % GROUPS_PER_SLICE == 0:
                yield

    def on_loaded(self, records: int, took_ms: int) -> None:
        self._deps.delete_offsets_of(self.deleted_while_loading)
        partition = str(self._shard.partition.name)
        self._log.info("groups loaded", partition=partition, groups=self._count(), records=records, took_ms=took_ms)

    def unload(self) -> None:
        started_ms, groups = self._now().monotonic_ms, self._count()
        self.classic.unload()
        self.consumers.unload()
        self.shares.unload()
        self.histories.close()
        self._memory.close()
        if groups and not self._shard.is_loading:
            partition, took_ms = str(self._shard.partition.name), self._now().monotonic_ms - started_ms
            self._log.info("groups unloaded", partition=partition, groups=groups, took_ms=took_ms)

    # Requests and events.

    def submit(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        """Submit a request to a group; `on_answer` is called once, maybe before this returns."""
        if group_id in self.shares.groups:
            self._submit_to_shares(group_id, request, on_answer)
        elif group_id in self.consumers.groups and not self._begins_classic(group_id, request):
            self._submit_to_consumers(group_id, request, on_answer)
        else:
            self.classic.submit(group_id, request, on_answer)

    def heartbeat(self, group_id: str, event: ConsumerHeartbeat, peer: Peer, on_answer: OnAnswer) -> None:
        """Submit a heartbeat of a consumer group's member; a join makes such a group of a classic one."""
        if group_id in self.shares.groups:
            on_answer(Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."))
            return
        group = self.classic.groups.get(group_id)
        if group is None:
            self.consumers.submit(group_id, event, on_answer, peer)
            return
        topics, settings = self._deps.consumers.topics, self._deps.consumers.settings_of(group_id)
        try:
            if event.member_epoch != JOIN_EPOCH:
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
            prefix, begin = consumer_successor(group, topics, settings, self._now().monotonic_ms)
        except BrokerError as error:
            on_answer(Refusal(error.code, str(error)))
            return
        self.consumers.submit(group_id, event, on_answer, peer, prefix, begin)

    def submit_to_share_group(
        self, group_id: str, event: ShareEvent, on_answer: OnAnswer | None = None, peer: Peer | None = None
    ) -> None:
        """Submit an event to a share group; a group of another kind refuses it."""
        if group_id in self.classic.groups or group_id in self.consumers.groups:
            if on_answer is not None:
                on_answer(Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group."))
            return
        self.shares.submit(group_id, event, on_answer, peer)

    def topics_deleted(self, group_id: str, names: Collection[str]) -> None:
        """Topics of these names were deleted: a share group forgets those that it began to read."""
        group = self.shares.groups.get(group_id)
        if group is None or group.states is None:
            return
        topics = self._deps.shares.topics
        begun = {**group.states.initializing, **group.states.initialized}
        known = {**{topic_id: topic.name for topic_id, topic in begun.items()}, **group.states.deleting}
        gone = {topic_id for topic_id, name in known.items() if name in names and topics.name_of(topic_id) is None}
        if gone:
            self.shares.submit(group_id, TopicsDeleted(frozenset(gone)))

    def tick(self, group_id: str, late_ms: int) -> None:
        if group_id in self.shares.groups:
            self.shares.tick(group_id, late_ms)
        elif group_id in self.consumers.groups:
            self.consumers.tick(group_id, late_ms)
        else:
            self.classic.tick(group_id, late_ms)

    def commit_offsets(
        self,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Write offsets if the group admits this member, after the loading; `on_done` has NONE once committed."""
        if self._shard.is_loading:
            self._shard.wait_until_loaded(lambda: self.commit_offsets(group_id, request, offsets, on_done), on_done)
        else:
            self.commits.commit(group_id, request, offsets, on_done)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a transaction is committed; an empty group whose only offsets were aborted is removed."""
        for group_id in self._offsets.end_transaction(producer_id, commit=commit):
            self._remove_without_offsets(group_id)

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition], on_done: OnDone) -> None:
        """Delete offsets; an empty group is removed with its last one."""

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))
            self._remove_without_offsets(group_id)

        self._offsets.delete(group_id, partitions, written)

    def expire(self, group_id: str) -> None:
        """Delete expired offsets; remove an empty group without offsets."""
        classic, consumers = self.classic.groups.get(group_id), self.consumers.groups.get(group_id)
        table, now_ms, retention_ms = self._offsets.of(group_id), self._now().wall_ms, self._deps.retention_ms
        if classic is not None:
            expired = table.expired(classic, now_ms, retention_ms)
        elif consumers is not None:
            if has_unresolved_regex(consumers):
                return  # Which topics its members read is not known yet.
            topics = subscribed_topics(consumers.members.values(), consumers.regexes)
            expired = table.expired_besides(topics, now_ms, retention_ms)
        else:
            return
        if expired:
            self.delete_offsets(group_id, expired, retried_later)
        else:
            self._remove_without_offsets(group_id)

    # Queries.

    def known_keys(self) -> list[str]:
        # A group whose first commit is pending has an offset table and is no group yet.
        return list(
            dict.fromkeys(
                [*self.classic.groups, *self.consumers.groups, *self.shares.groups, *self._offsets.group_ids()]
            )
        )

    def offsets(self, group_id: str) -> OffsetTable:
        """A group's committed offsets; none of a dead one."""
        group = self.classic.groups.get(group_id)
        is_live = group_id in self.consumers.groups or (group is not None and group.state is not GroupState.DEAD)
        return self._offsets.of(group_id) if is_live else NO_OFFSETS

    def offset_partitions(self, group_id: str) -> list[TopicPartition]:
        """The partitions with committed offsets or pending commits: a deletion has to cover both."""
        return self._offsets.of(group_id).partitions()

    def _now(self) -> Now:
        clock = self._deps.ports.clock
        return Now(clock.monotonic_ms(), clock.now_ms())

    def exists(self, group_id: str) -> bool:
        """Whether there is a group of any kind."""
        return any(group_id in groups for groups in (self.classic.groups, self.consumers.groups, self.shares.groups))

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """A group of KIP-848."""
        return self.consumers.groups.get(group_id)

    def keep_for_offsets(self, group_id: str) -> None:
        """A group that did not exist has offsets."""
        self.classic.keep_for_offsets(group_id)

    def _count(self) -> int:
        return len(self.classic.groups) + len(self.consumers.groups) + len(self.shares.groups)

    # Groups of one kind or the other.

    def _begins_classic(self, group_id: str, request: Request) -> bool:
        """Whether a request makes a classic group of a consumer group without members, and the latter is removed."""
        if not isinstance(request, Join) or self.consumers.groups[group_id].members:
            return False
        if not self._offsets.delete(group_id, (), retried_later, self.consumers.tombstones(group_id)):
            return False
        self.consumers.forget(group_id)
        if not self._offsets.of(group_id).is_idle:
            self.classic.keep_for_offsets(group_id)  # The join may be refused: the offsets stay.
        return True

    def _remove_consumers(self, group_id: str, on_done: OnDone) -> None:
        """Delete a consumer group without members, and its offsets."""
        tombstones = self.consumers.tombstones(group_id)

        def written(code: ErrorCode) -> None:
            self.classic.remove_without_offsets(group_id)  # A commit before this may have made one.
            on_done(code)

        if self._offsets.delete(group_id, self.offset_partitions(group_id), written, tombstones):
            self.consumers.forget(group_id)
            self.histories.group_removed(group_id)

    def _submit_to_consumers(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        match request:
            case DeleteGroup() if self.consumers.groups[group_id].members:
                on_answer(GroupAnswer(ErrorCode.NON_EMPTY_GROUP))
            case DeleteGroup():
                self._remove_consumers(group_id, lambda code: on_answer(GroupAnswer(GROUP_ERRORS.get(code, code))))
            case ValidateOffsetCommit():
                self.commits.validate(group_id, request, (), on_answer)
            case _:
                requests_of_classic_members.submit(self.consumers, group_id, request, on_answer)

    def _submit_to_shares(self, group_id: str, request: Request, on_answer: OnAnswer) -> None:
        if isinstance(request, DeleteGroup):
            self._remove_shares(group_id, lambda code: on_answer(GroupAnswer(GROUP_ERRORS.get(code, code))))
        else:
            on_answer(classic_requests.refusal(request))

    def _remove_shares(self, group_id: str, on_done: OnDone) -> None:
        """Delete the states of a share group without members, and then the group."""

        def deleted(errors: Mapping[tuple[TopicId, int], ErrorCode]) -> None:
            failed = next((code for code in errors.values() if code), ErrorCode.NONE)
            group = self.shares.groups.get(group_id)
            if self.shares.is_closed:
                on_done(ErrorCode.NOT_COORDINATOR)
            elif failed or group is None:
                on_done(failed or ErrorCode.GROUP_ID_NOT_FOUND)
            elif group.members:
                on_done(ErrorCode.NON_EMPTY_GROUP)  # One has joined meanwhile.
            elif self._offsets.delete(group_id, (), on_done, self.shares.tombstones(group_id)):
                self.shares.forget(group_id)

        def begun(answer: StatesAnswer | Refusal) -> None:
            if isinstance(answer, Refusal):
                on_done(answer.code)
            else:
                self._deps.shares.states.delete(group_id, answer.partitions, deleted)

        self.shares.submit(group_id, BeginRemoval(), begun)

    def _remove_without_offsets(self, group_id: str) -> None:
        """Remove an empty group that has no offsets."""
        consumers = self.consumers.groups.get(group_id)
        if consumers is None:
            self.classic.remove_without_offsets(group_id)
        elif not consumers.members and self._offsets.of(group_id).is_idle:
            self._remove_consumers(group_id, retried_later)


def retried_later(_error: ErrorCode) -> None:
    """No request waits for this deletion; what fails is deleted by the next expiry check."""
