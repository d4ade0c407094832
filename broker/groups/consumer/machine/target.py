"""The group epoch, and the target assignment that is computed for it.

Members' subscriptions and the topics that exist decide; the group epoch is raised when either changes, and the target
follows at once, or when the assignment interval since the last one has passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.assignors.group import Member as AssignorMember
from sordini.broker.groups.consumer.machine.changes import (
    GroupEpoch,
    GroupEpochChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.events import (
    EpochCause,
    EpochRaised,
    TargetAssigned,
    Topics,
)
from sordini.broker.groups.consumer.machine.state import (
    NO_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
    Partitions,
    ResolvedRegex,
)
from sordini.broker.groups.consumer.machine.topic_hashes import group_hash
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.types import TopicId

TOPICS_CHANGED: Final = EpochCause(RebalanceCause.TOPICS_CHANGED, "topics changed")


def topics_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """The topics that a member subscribes to, by name and by its regular expression."""
    if not member.subscribed_regex:
        return member.subscribed_topics
    resolved = regexes.get(member.subscribed_regex)
    return member.subscribed_topics if resolved is None else member.subscribed_topics | resolved.topics


def subscribed_topics(members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """All topics that members subscribe to. Equal subscriptions are looked at once."""
    distinct = {(member.subscribed_topics, member.subscribed_regex): member for member in members}
    return frozenset(chain.from_iterable(topics_of(member, regexes) for member in distinct.values()))


def has_unresolved_regex(group: ConsumerGroup) -> bool:
    """Whether a member's regular expression has not been resolved yet."""
    regexes = {member.subscribed_regex for member in group.members.values() if member.subscribed_regex}
    return not regexes <= group.regexes.keys()


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A number that is different when a topic among `names` is created, deleted, gets partitions or moves to other
    racks; 0 without any.
    """
    found = map(topics.hash_of, sorted(names))
    return group_hash([each for each in found if each is not None])


def has_new_topics(transition: ConsumerTransition) -> bool:
    """Whether the topics of the cluster have changed since they were looked at."""
    return transition.topics_version != transition.around.topics.version


def follow_topics(
    transition: ConsumerTransition, cause: EpochCause | None, of_topics: EpochCause = TOPICS_CHANGED
) -> None:
    """Raise the group epoch for this cause, or because subscribed topics have changed; if neither, it stays."""
    topics = transition.around.topics
    names = subscribed_topics(transition.members.values(), transition.regexes)
    current = metadata_hash(names, topics)
    transition.topics_version = topics.version
    if current != transition.metadata_hash:
        cause = cause or of_topics
    if cause is not None:
        raise_epoch(transition, cause, current)


def raise_epoch(transition: ConsumerTransition, cause: EpochCause, current: int) -> None:
    """Raise the group epoch; `current` is the hash of the subscribed topics."""
    transition.epoch += 1
    transition.metadata_hash = current
    transition.changes.append(GroupEpochChange(GroupEpoch(transition.epoch, current)))
    transition.actions.append(EpochRaised(transition.epoch, cause))


def assign_if_due(transition: ConsumerTransition) -> None:
    """Compute a target for the group epoch if it has none, unless the last one is too recent or one is under way."""
    if transition.assignment_epoch >= transition.epoch or transition.is_target_under_way:
        return
    now, settings = transition.around.now, transition.around.settings
    wait_ms = transition.assigned_ms + settings.assignment_interval_ms - now.wall_ms
    if 0 < wait_ms <= settings.assignment_interval_ms:
        return  # A later heartbeat computes it; no member would learn of it before.
    assignor = assignor_of(transition.members.values(), settings.assignors)
    targets = transition.around.assign(transition.group_id, transition.epoch, assignor, assignor_input(transition))
    if targets is None:
        transition.is_target_under_way = True
    else:
        use_target(transition, transition.epoch, targets, assignor)


def use_target(transition: ConsumerTransition, epoch: int, targets: Mapping[str, Partitions], assignor: str) -> None:
    """A new target: what of it is different is written. Members that have left since are left out."""
    for member_id in transition.members:
        target = targets.get(member_id, NO_PARTITIONS)
        if transition.targets.get(member_id) != target:
            transition.put_target(member_id, target)
            transition.changes.append(TargetChange(member_id, target))
    transition.assignment_epoch = epoch
    transition.assigned_ms = transition.around.now.wall_ms
    transition.changes.append(TargetEpochChange(TargetEpoch(epoch, transition.assigned_ms)))
    transition.actions.append(TargetAssigned(epoch, assignor, len(transition.members)))


def has_only_classic_members(transition: ConsumerTransition) -> bool:
    """Whether no member sends heartbeats that compute a target: then one is computed by a timer."""
    members = transition.members.values()
    return bool(members) and all(member.classic is not None for member in members)


def use_no_target(transition: ConsumerTransition) -> None:
    """The last member has left: nothing is assigned, and the next member need not wait for the assignment interval."""
    transition.assignment_epoch, transition.assigned_ms = transition.epoch, 0
    transition.changes.append(TargetEpochChange(TargetEpoch(transition.epoch, 0)))


def assignor_of(members: Iterable[ConsumerMember], known: Sequence[str]) -> str:
    """The assignor that most members name; of equal ones, or without any, the first of those that are known."""
    names = Counter(member.server_assignor for member in members)
    return max(known, key=lambda name: names[name])


def assignor_input(transition: ConsumerTransition) -> AssignorInput:
    """The group, as an assignor sees it. Equal subscriptions are resolved once."""
    topics, ids_of = transition.around.topics, dict[frozenset[str], frozenset[TopicId]]()
    names_of: dict[tuple[frozenset[str], str | None], frozenset[str]] = {}
    counts: dict[TopicId, int] = {}
    members: dict[str, AssignorMember] = {}
    for member_id, member in transition.members.items():
        subscription = member.subscribed_topics, member.subscribed_regex
        if subscription not in names_of:
            names_of[subscription] = topics_of(member, transition.regexes)
        names = names_of[subscription]
        if names not in ids_of:
            found = [topic for topic in map(topics.get, names) if topic is not None]
            counts.update((topic.topic_id, topic.partitions) for topic in found)
            ids_of[names] = frozenset(topic.topic_id for topic in found)
        target = transition.targets.get(member_id, NO_PARTITIONS)
        members[member_id] = AssignorMember(ids_of[names], target, member.instance_id)
    return AssignorInput(members, counts, is_homogeneous=len(ids_of) < 2)
