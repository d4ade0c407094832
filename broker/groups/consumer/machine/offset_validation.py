"""Whether a member may commit or read offsets, by the epoch that it sends.

A commit passes with the member's epoch, and with an older one for partitions that the member had by then already
(KIP-1251): the answer to a heartbeat that raised the epoch may be on its way.
"""

from __future__ import annotations

from collections.abc import Iterable

from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicId

NO_EPOCH = -1


def commit_error(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[tuple[TopicId | None, int]],
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    """Why a commit is refused, or NONE. A client that is no member commits while the group is empty.

    A producer that names no member commits in a transaction whatever the group's members do (KIP-447).
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if is_transactional and not member_id and epoch == NO_EPOCH:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_classic = member.classic is not None
    stale = ErrorCode.ILLEGAL_GENERATION if is_transactional or is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch or is_classic or not all(_had(member, epoch, *partition) for partition in partitions):
        return stale
    return ErrorCode.NONE


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Why the offsets are not read for a member, or NONE. An administrator names no member."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE if epoch == member.epoch else stale


def _had(member: ConsumerMember, epoch: int, topic_id: TopicId | None, partition: int) -> bool:
    """Whether the member had a partition at an epoch, and still has it."""
    if topic_id is None:
        return False
    assigned_at = member.assigned.get(topic_id, {}).get(partition)
    if assigned_at is None:
        assigned_at = member.pending_revocation.get(topic_id, {}).get(partition)
    return assigned_at is not None and assigned_at <= epoch
