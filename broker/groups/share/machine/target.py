"""The group epoch of a share group, the target that is computed for it, and what a member gets of that.

Only partitions whose states are initialized are assigned. A member has the target of the assignment epoch at once, with
its next heartbeat: partitions have no owner who would have to give them up first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.broker.groups.consumer.machine.assignors.group import Member
from sordini.broker.groups.consumer.machine.changes import TargetEpoch, TargetEpochChange
from sordini.broker.groups.consumer.machine.events import TargetAssigned, Topics
from sordini.broker.groups.consumer.machine.target import metadata_hash
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.share.machine.events import EpochCause
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup
from sordini.broker.groups.share.machine.state import NO_PARTITIONS, Partitions, ShareMember
from sordini.broker.groups.share.machine.transition import ShareTransition
from sordini.protocol.types import TopicId

SIMPLE: Final = "simple"
STATES_CHANGED: Final = EpochCause(RebalanceCause.STATES_INITIALIZED, "states of partitions initialized")
TOPICS_CHANGED: Final = EpochCause(RebalanceCause.TOPICS_CHANGED, "topics changed")


def topic_names(members: Mapping[str, ShareMember]) -> frozenset[str]:
    """All topics that members subscribe to. Equal subscriptions are counted once."""
    distinct = {member.subscribed_topics for member in members.values()}
    return frozenset().union(*distinct)


def follow(transition: ShareTransition, cause: EpochCause | None, updated: ShareMember) -> bool:
    """Raise the group epoch for this cause, or because partitions are initialized or topics have changed.

    `updated` is the member that sends the heartbeat. Returns whether it was raised.
    """
    topics = transition.around.topics
    if cause is None and transition.assignment_epoch >= transition.epoch and _is_assignment_pending(transition):
        cause = STATES_CHANGED
    if cause is None and transition.topics_version == topics.version:
        return False
    names = topic_names({**transition.members, updated.member_id: updated})
    current = metadata_hash(names, topics)
    transition.topics_version = topics.version
    if current != transition.metadata_hash:
        cause = cause or TOPICS_CHANGED
    if cause is None:
        return False
    transition.raise_epoch(cause, current)
    return True


def _is_assignment_pending(transition: ShareTransition) -> bool:
    """Whether partitions of a subscribed topic are initialized that no member's target has, or the other way round.

    The members are those before the heartbeat.
    """
    states, members = transition.states, transition.before.members
    if not members or states is None or not states.initialized:
        return False
    names = topic_names(members)
    assigned: dict[TopicId, set[int]] = {}
    for target in transition.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        topic.name in names and frozenset(assigned.get(topic_id, ())) != topic.partitions
        for topic_id, topic in states.initialized.items()
    )


def assign_if_due(transition: ShareTransition) -> None:
    """Compute a target for the group epoch if it has none, unless the last one is too recent or one is under way."""
    if transition.assignment_epoch >= transition.epoch or transition.is_target_under_way:
        return
    now, interval_ms = transition.around.now, transition.around.settings.assignment_interval_ms
    if 0 < transition.assigned_ms + interval_ms - now.wall_ms <= interval_ms:
        return  # A later heartbeat computes it; no member would learn of it before.
    targets = transition.around.assign(transition.before.group_id, transition.epoch, _assignor_input(transition))
    if targets is None:
        transition.is_target_under_way = True
    else:
        use_target(transition, transition.epoch, targets)


def use_target(transition: ShareTransition, epoch: int, targets: Mapping[str, Partitions]) -> None:
    """A new target: what of it is different is written. Members that have left since are left out."""
    for member_id in transition.members:
        target = targets.get(member_id, NO_PARTITIONS)
        if transition.targets.get(member_id) != target:
            transition.put_target(member_id, target)
    transition.assignment_epoch, transition.assigned_ms = epoch, transition.around.now.wall_ms
    transition.changes.append(TargetEpochChange(TargetEpoch(epoch, transition.assigned_ms)))
    transition.actions.append(TargetAssigned(epoch, SIMPLE, len(transition.members)))


def use_no_target(transition: ShareTransition) -> None:
    """The last member has left: nothing is assigned, and the next member need not wait for the assignment interval."""
    transition.assignment_epoch, transition.assigned_ms = transition.epoch, 0
    transition.changes.append(TargetEpochChange(TargetEpoch(transition.epoch, 0)))


def reconcile(transition: ShareTransition, member_id: str, *, is_raised: bool) -> None:
    """Give a member its target, as far as it subscribes to it."""
    member = transition.members[member_id]
    if not is_raised and member.epoch == transition.assignment_epoch:
        return
    target = transition.targets.get(member_id, NO_PARTITIONS)
    ids = {transition.around.topics.id_of(name) for name in member.subscribed_topics}
    assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in ids}
    updated = member._replace(assigned=assigned)
    if member.epoch != transition.assignment_epoch:
        updated = updated._replace(epoch=transition.assignment_epoch, previous_epoch=member.epoch)
    if updated != member:
        transition.write_assigned(updated)


def _assignor_input(transition: ShareTransition) -> AssignableGroup:
    """The group, as the assignor sees it. Equal subscriptions are resolved once."""
    topics, states = transition.around.topics, transition.states
    initialized = {} if states is None else states.initialized
    ids_of: dict[frozenset[str], frozenset[TopicId]] = {}
    assignable: dict[TopicId, frozenset[int]] = {}
    members: dict[str, Member] = {}
    for member_id, member in transition.members.items():
        names = member.subscribed_topics
        if names not in ids_of:
            ids_of[names] = _existing(names, topics)
            for topic_id in ids_of[names] & initialized.keys():
                assignable[topic_id] = _within(topics, topic_id, initialized[topic_id].partitions)
        members[member_id] = Member(ids_of[names], transition.targets.get(member_id, NO_PARTITIONS))
    return AssignableGroup(members, assignable, is_homogeneous=len(ids_of) < 2)


def _existing(names: frozenset[str], topics: Topics) -> frozenset[TopicId]:
    return frozenset(topic.topic_id for topic in map(topics.get, names) if topic is not None)


def _within(topics: Topics, topic_id: TopicId, partitions: frozenset[int]) -> frozenset[int]:
    """Those of the partitions that exist."""
    name = topics.name_of(topic_id)
    topic = None if name is None else topics.get(name)
    return frozenset() if topic is None else frozenset(index for index in partitions if index < topic.partitions)
