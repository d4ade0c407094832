"""Commits of offsets to the groups of one partition: by members, by simple consumers, and in transactions.

Who may commit: `machine/member_sessions.py` of classic groups, `consumer/machine/offset_validation.py` of the others.
`shard_offsets.py` writes and keeps them, `machine/offset_expiry.py` says when they end, `replay.py` reads them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from sordini.broker.coordinators.journal import OnDone, TransactionalProducer
from sordini.broker.coordinators.newest_connection import NewestConnections
from sordini.broker.groups.consumer.machine.events import Topics
from sordini.broker.groups.consumer.machine.offset_validation import commit_error
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.journal_errors import COMMIT_ERRORS
from sordini.broker.groups.machine.events import GroupAnswer, ValidateOffsetCommit
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.broker.groups.shard_offsets import ShardOffsets
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

AcceptedConnections = Callable[[], int] | None
"""The count of connections that this broker has accepted; None where requests may come on older connections."""


class Committers(Protocol):
    """The groups of the partition."""

    def exists(self, group_id: str) -> bool:
        """Whether there is a group of either kind."""

    def keep_for_offsets(self, group_id: str) -> None:
        """A group that did not exist has offsets."""

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """A group of KIP-848."""

    def submit(self, group_id: str, request: ValidateOffsetCommit, on_answer: Callable[[Any], None]) -> None:
        """Ask a classic group whether it admits a commit."""


class OffsetCommits:
    """Writes what a group admits."""

    def __init__(
        self, groups: Committers, offsets: ShardOffsets, topics: Topics, accepted_connections: AcceptedConnections
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._topics = topics
        self._accepted = accepted_connections
        self._connections = None if accepted_connections is None else NewestConnections(accepted_connections())

    def commit(
        self,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Write offsets if the group admits this member; `on_done` has NONE once committed."""
        if self._is_of_removed(group_id, request):
            on_done(ErrorCode.GROUP_ID_NOT_FOUND if request.has_member_epoch else ErrorCode.ILLEGAL_GENERATION)
            return

        def committed() -> None:
            if not self._groups.exists(group_id):
                self._groups.keep_for_offsets(group_id)

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))

        def validated(answer: GroupAnswer) -> None:
            if answer.error or not offsets:
                on_done(answer.error)
            else:
                self._offsets.commit(group_id, offsets, committed, written)

        self.validate(group_id, request, offsets, validated)

    def commit_in_transaction(
        self,
        producer: TransactionalProducer,
        group_id: str,
        request: ValidateOffsetCommit,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_done: OnDone,
    ) -> None:
        """Write offsets of a producer's transaction if the group admits its consumer."""
        if self._is_of_removed(group_id, request):
            on_done(ErrorCode.ILLEGAL_GENERATION)
            return

        def written(code: ErrorCode) -> None:
            on_done(COMMIT_ERRORS.get(code, code))

        def validated(answer: GroupAnswer) -> None:
            if answer.error or not offsets:
                on_done(answer.error)
                return
            is_written = self._offsets.commit_in_transaction(producer, group_id, offsets, written)
            if is_written and not self._groups.exists(group_id):
                self._groups.keep_for_offsets(group_id)

        self.validate(group_id, request, offsets, validated)

    def validate(
        self,
        group_id: str,
        request: ValidateOffsetCommit,
        partitions: Iterable[TopicPartition],
        on_answer: Callable[[GroupAnswer], None],
    ) -> None:
        """Whether the group admits a commit."""
        group = self._groups.consumer_group(group_id)
        if group is None:
            self._groups.submit(group_id, request, on_answer)
        else:
            on_answer(GroupAnswer(self._consumer_error(group, request, partitions)))

    def admits(self, producer: TransactionalProducer, connection: int) -> bool:
        """Whether a request of the producer's transaction comes on no older connection than one before."""
        return self._connections is None or self._connections.admit(_key_of(producer), connection)

    def transaction_aborted(self, producer: TransactionalProducer) -> None:
        """An abort marker is appended: a request that the producer gave up before it is late, even if none followed."""
        if self._connections is not None and self._accepted is not None:
            self._connections.admit(_key_of(producer), self._accepted())

    def _consumer_error(
        self, group: ConsumerGroup, request: ValidateOffsetCommit, partitions: Iterable[TopicPartition]
    ) -> ErrorCode:
        member = group.members.get(request.member_id)
        is_new = member is not None and member.classic is None
        if is_new and not request.has_member_epoch and not request.is_transactional:
            return ErrorCode.UNSUPPORTED_VERSION
        ids = ((self._topics.id_of(name), partition) for name, partition in partitions)
        epoch, is_transactional = request.generation_id, request.is_transactional
        return commit_error(group, request.member_id, epoch, ids, is_transactional=is_transactional)

    def _is_of_removed(self, group_id: str, request: ValidateOffsetCommit) -> bool:
        """Whether a member of a group that was removed commits."""
        return request.generation_id >= 0 and not self._groups.exists(group_id)


def _key_of(producer: TransactionalProducer) -> str:
    """With the epoch: a request of a fenced producer must not raise what is remembered of its successor."""
    return f"{producer.producer_id}/{producer.producer_epoch}"
