"""The way of one member from what it owns to what it shall own (KIP-848).

    STABLE, UNRELEASED ── the target lacks something it owns ──► UNREVOKED: the old epoch, (owned and target)
          ▲                                                          │ its heartbeat reports none of that any more
          │                                                          ▼
          └── nothing is withheld ◄── the target's epoch ── partitions that others still own are withheld: UNRELEASED

Invariant: a partition is in the `assigned` or `pending_revocation` of one member at most. It is given to a new owner
only once no other member has it, which the caller tells by `is_free`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sordini.broker.groups.consumer.machine.state import NOTHING_OWNED, ConsumerMember, MemberState, Owned, Partitions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

IsFree = Callable[[TopicId, int], bool]
"""Whether no other member owns a partition or has yet to give it up."""

UNKNOWN_STATE = "The member is in a state of a newer release. The member must abandon all its partitions and rejoin."


class Target(NamedTuple):
    """What a member shall own, and from which assignment epoch on."""

    epoch: int
    partitions: Partitions


def reconciled(
    member: ConsumerMember,
    target: Target,
    reported: Partitions | None,
    is_free: IsFree,
    unsubscribed: Collection[TopicId] = (),
) -> ConsumerMember:
    """The member after one heartbeat. Only epochs, state and partitions are different in the result.

    `reported` is what the member says that it owns; None when it says nothing, and then it is taken to own all it had.
    `unsubscribed` are topics that it has and does not want any more: they are revoked, even before the next target.
    Raises BrokerError FENCED_MEMBER_EPOCH for a member of an unknown state that owns anything.
    """
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return _without(member, unsubscribed) if unsubscribed else member
        case MemberState.UNREVOKED_PARTITIONS if _owns_any(reported, member.pending_revocation):
            return _without(member, unsubscribed) if unsubscribed else member
        case MemberState.UNKNOWN if reported is None or reported:
            raise BrokerError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE)
        case _:
            return _next(member, target, reported, is_free)


def _next(member: ConsumerMember, target: Target, reported: Partitions | None, is_free: IsFree) -> ConsumerMember:
    kept, revoked = _split(member.assigned, target.partitions)
    if revoked and _owns_any(reported, revoked):
        return member._replace(
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    added, is_withheld = _added(kept, target, is_free)
    state = MemberState.UNRELEASED_PARTITIONS if is_withheld else MemberState.STABLE
    return member._replace(
        previous_epoch=member.epoch,
        epoch=target.epoch,
        state=state,
        assigned=_union(kept, added),
        pending_revocation=NOTHING_OWNED,
    )


def _without(member: ConsumerMember, topics: Collection[TopicId]) -> ConsumerMember:
    """The member as it has to give up all it has of some topics."""
    revoked = {topic: epochs for topic, epochs in member.assigned.items() if topic in topics}
    return member._replace(
        previous_epoch=member.epoch,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={topic: epochs for topic, epochs in member.assigned.items() if topic not in topics},
        pending_revocation=_union(member.pending_revocation, revoked),
    )


def _split(owned: Owned, target: Partitions) -> tuple[Owned, Owned]:
    """What of it the target has, and what it lacks."""
    kept: dict[TopicId, dict[int, int]] = {}
    revoked: dict[TopicId, dict[int, int]] = {}
    for topic, epochs in owned.items():
        wanted = target.get(topic, frozenset())
        for partition, epoch in epochs.items():
            (kept if partition in wanted else revoked).setdefault(topic, {})[partition] = epoch
    return kept, revoked


def _added(kept: Owned, target: Target, is_free: IsFree) -> tuple[Owned, bool]:
    """What the member gets now, and whether anything of its target is withheld, since others have it still."""
    added: dict[TopicId, dict[int, int]] = {}
    is_withheld = False
    for topic, wanted in target.partitions.items():
        for partition in sorted(wanted - kept.get(topic, {}).keys()):
            if is_free(topic, partition):
                added.setdefault(topic, {})[partition] = target.epoch
            else:
                is_withheld = True
    return added, is_withheld


def _union(first: Owned, second: Owned) -> Owned:
    return {topic: {**first.get(topic, {}), **second.get(topic, {})} for topic in {**first, **second}}


def _owns_any(reported: Partitions | None, revoked: Owned) -> bool:
    """Whether a member may still own one of these partitions."""
    if reported is None:
        return bool(revoked)
    return any(not epochs.keys().isdisjoint(reported.get(topic, frozenset())) for topic, epochs in revoked.items())
