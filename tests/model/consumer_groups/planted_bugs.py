"""Bugs planted into the product's machine, each to be found by the law that it breaks.

A bug takes the place of one function for as long as the model is explored; it is given the original. Its docstring
states it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import MappingProxyType
from typing import Any, NamedTuple

from sordini.broker.groups.consumer.machine import (
    heartbeat,
    leaving,
    machine,
    offset_validation,
    reconciliation,
    target,
)
from sordini.broker.groups.consumer.machine.changes import (
    AssignmentChange,
    Change,
    GroupEpoch,
    GroupEpochChange,
    SubscriptionChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.folded import FoldedGroup
from sordini.broker.groups.consumer.machine.state import FIRST_EPOCH, ConsumerMember, MemberState, partitions_of
from sordini.broker.groups.consumer.machine.transition import ConsumerTransition
from sordini.broker.groups.consumer.member_connections import NO_CONNECTION, MemberConnections
from sordini.protocol.errors import ErrorCode
from tests.model.consumer_groups.invariants import (
    EPOCHS,
    EVENTUALLY,
    IN_ORDER,
    LOG,
    ONE_OWNER,
    PROGRESS,
    RELEASED,
    TYPES,
)
from tests.model.consumer_groups.rules import Rules
from tests.model.consumer_groups.scopes import COMMITTED, DELAYED, OFFLOADED, PLAIN, TWO_DELAYED, Scope
from tests.model.consumer_groups.space import Space
from tests.model.consumer_groups.state import GROUP_ID
from tests.model.explore import Explored, explore

WORLDS_MAX = 400_000
Place = tuple[Any, str]
"""A module or class, and the name of a function in it."""


class Bug(NamedTuple):
    function: Callable[..., Any]
    what: str
    scope: Scope
    law: str
    places: tuple[Place, ...]


BUGS: dict[str, Bug] = {}


def bug(scope: Scope, law: str, *places: Place) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function by its name, to take the place of others."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.replace("_", " ")
        BUGS[name] = Bug(function, " ".join((function.__doc__ or "").split()), scope, law, places)
        return function

    return enter


def found(name: str, worlds_max: int = WORLDS_MAX) -> Explored:
    """The shortest trace on which a bug breaks its law; `broken` is empty if it does not within `worlds_max` states."""
    one = BUGS[name]
    with planted(one):
        return explore(Space(Rules(one.scope), frozenset({one.law})), worlds_max)


@contextmanager
def planted(one: Bug) -> Iterator[None]:
    originals = [getattr(where, name) for where, name in one.places]
    for (where, name), original in zip(one.places, originals, strict=True):
        setattr(where, name, _around(one.function, original))
    try:
        yield
    finally:
        for (where, name), original in zip(one.places, originals, strict=True):
            setattr(where, name, original)


def _around(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def instead(*arguments: Any, **keywords: Any) -> Any:
        return function(original, *arguments, **keywords)

    return instead


def _without(transition: ConsumerTransition, kind: type[Change]) -> None:
    transition.changes[:] = [change for change in transition.changes if not isinstance(change, kind)]


# One owner commits.


@bug(PLAIN, ONE_OWNER, (ConsumerTransition, "is_free"))
def every_partition_is_free(_: Any, *__: Any) -> bool:
    """A partition is given to its next owner at once."""
    return True


@bug(DELAYED, ONE_OWNER, (offset_validation, "_had"))
def an_older_epoch_commits_any_partition(_: Any, *__: Any) -> bool:
    """A commit of an older epoch passes for partitions that the member has lost, too."""
    return True


@bug(PLAIN, ONE_OWNER, (offset_validation, "commit_error"))
def a_fenced_member_commits(original: Any, group: Any, member_id: str, epoch: int, partitions: Any) -> ErrorCode:
    """A commit of a member that is none any more is accepted."""
    return original(group, member_id, epoch, partitions) if member_id in group.members else ErrorCode.NONE


# Released first.


@bug(PLAIN, RELEASED, (reconciliation, "_owns_any"))
def no_revocation_is_awaited(_: Any, *__: Any) -> bool:
    """A partition is free when its owner was to give it up."""
    return False


@bug(PLAIN, RELEASED, (reconciliation, "_owns_any"))
def silence_means_that_nothing_is_owned(original: Any, reported: Any, revoked: Any) -> bool:
    """A heartbeat that does not name its partitions reports that they are given up."""
    return reported is not None and original(reported, revoked)


@bug(PLAIN, RELEASED, (ConsumerTransition, "_take"))
def what_is_to_be_revoked_has_no_owner(original: Any, transition: Any, owned: Any, member_id: str) -> None:
    """Only assigned partitions have an owner, not those that are to be given up."""
    original(transition, owned[:1], member_id)


@bug(PLAIN, RELEASED, (FoldedGroup, "group"))
def a_folded_group_forgets_what_is_to_be_revoked(original: Any, *arguments: Any) -> Any:
    """After a move of the coordinator, what is to be given up has no owner."""
    group = original(*arguments)
    owners: dict[Any, dict[int, str]] = {}
    for name, member in group.members.items() if group else ():
        for topic, partitions in partitions_of(member.assigned).items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, name))
    return group and group._replace(owners=MappingProxyType(owners))


# Commits in order.


@bug(COMMITTED, IN_ORDER, (offset_validation, "_had"))
def the_epoch_of_an_assignment_is_not_compared(_: Any, member: Any, __: int, topic_id: Any, partition: int) -> bool:
    """A commit of an older epoch passes for partitions that the member has again."""
    return partition in member.assigned.get(topic_id, {})


@bug(COMMITTED, IN_ORDER, (reconciliation, "_added"))
def partitions_have_no_epoch_of_their_own(original: Any, *arguments: Any) -> Any:
    """A partition is assigned with the first of all epochs."""
    added, is_withheld = original(*arguments)
    return {topic: dict.fromkeys(epochs, 0) for topic, epochs in added.items()}, is_withheld


@bug(COMMITTED, IN_ORDER, (offset_validation, "commit_error"))
def every_older_epoch_commits(original: Any, group: Any, member_id: str, epoch: int, partitions: Any) -> ErrorCode:
    """A commit of an epoch that the member has had passes."""
    member = group.members.get(member_id)
    if member is not None and epoch < member.epoch:
        return ErrorCode.NONE
    return original(group, member_id, epoch, partitions)


@bug(COMMITTED, IN_ORDER, (offset_validation, "commit_error"))
def a_delayed_commit_of_a_fenced_member_is_taken(
    original: Any, group: Any, member_id: str, epoch: int, partitions: Any
) -> ErrorCode:
    """A commit of a member that is none any more is accepted."""
    return original(group, member_id, epoch, partitions) if member_id in group.members else ErrorCode.NONE


# Epochs do not fall.


@bug(PLAIN, EPOCHS, (FoldedGroup, "fold"))
def a_folded_group_begins_with_the_first_epoch(original: Any, group: Any, change: Change) -> None:
    """After a move of the coordinator, the group epoch is the first again."""
    if not isinstance(change, GroupEpochChange):
        original(group, change)


@bug(PLAIN, EPOCHS, (leaving, "use_no_target"))
def an_empty_group_begins_again(_: Any, transition: Any) -> None:
    """When the last member has left, epochs begin with the first again."""
    transition.epoch = transition.assignment_epoch = FIRST_EPOCH
    transition.changes.append(GroupEpochChange(GroupEpoch(FIRST_EPOCH, transition.metadata_hash)))
    transition.changes.append(TargetEpochChange(TargetEpoch(FIRST_EPOCH, 0)))


@bug(OFFLOADED, EPOCHS, (machine, "_target_computed"))
def a_target_that_comes_late_is_used(_: Any, transition: Any, event: Any) -> None:
    """A target is used when it is computed, even if the group has a newer one."""
    transition.is_target_under_way = False
    target.use_target(transition, event.epoch, event.targets, event.assignor)


@bug(PLAIN, EPOCHS, (reconciliation, "_next"))
def a_member_that_has_to_revoke_goes_back(original: Any, member: Any, *arguments: Any) -> Any:
    """A member that has to give partitions up returns to its previous epoch."""
    after = original(member, *arguments)
    return after._replace(epoch=member.previous_epoch) if after.state is MemberState.UNREVOKED_PARTITIONS else after


# The log is the group.


@bug(PLAIN, LOG, (target, "use_target"))
def targets_are_not_written(original: Any, transition: Any, *arguments: Any) -> None:
    """A new target has an epoch in the log, and no partitions."""
    original(transition, *arguments)
    _without(transition, TargetChange)


@bug(PLAIN, LOG, (ConsumerTransition, "drop_member"))
def a_departure_leaves_the_subscription(original: Any, transition: Any, member: Any, **keywords: Any) -> None:
    """A member that is removed has no tombstone for its subscription."""
    original(transition, member, **keywords)
    _without(transition, SubscriptionChange)


@bug(PLAIN, LOG, (target, "raise_epoch"), (leaving, "raise_epoch"))
def an_epoch_is_raised_without_a_record(original: Any, transition: Any, *arguments: Any) -> None:
    """The group epoch is raised in memory."""
    original(transition, *arguments)
    _without(transition, GroupEpochChange)


@bug(PLAIN, LOG, (ConsumerTransition, "write_assignment"))
def assignments_are_not_written(original: Any, transition: Any, member: Any) -> None:
    """What a member owns is in memory only."""
    original(transition, member)
    _without(transition, AssignmentChange)


# Progress.


@bug(PLAIN, PROGRESS, (ConsumerTransition, "_release"))
def nothing_is_released(_: Any, *__: Any) -> None:
    """A partition keeps its owner when that has given it up or has left."""


@bug(PLAIN, PROGRESS, (leaving, "raise_epoch"))
def a_departure_raises_no_epoch(_: Any, *__: Any) -> None:
    """When a member leaves or is fenced, the target stays."""


@bug(PLAIN, PROGRESS, (heartbeat, "_answer"))
def a_full_heartbeat_is_answered_in_part(original: Any, transition: Any, before: Any, name: str, event: Any) -> Any:
    """A member that missed an answer is not sent its assignment again."""
    return original(transition, before, name, event._replace(owned=None))


@bug(PLAIN, PROGRESS, (reconciliation, "_added"))
def what_is_withheld_is_forgotten(original: Any, *arguments: Any) -> Any:
    """A member is stable with the part of its target that was free."""
    return original(*arguments)[0], False


@bug(OFFLOADED, PROGRESS, (machine, "_target_computed"))
def a_target_stays_under_way(original: Any, transition: Any, event: Any) -> None:
    """After a target was computed, none is begun any more."""
    original(transition, event)
    transition.is_target_under_way = True


# Delayed heartbeats.


@bug(DELAYED, RELEASED, (MemberConnections, "admit"))
def older_connections_are_served(original: Any, *arguments: Any) -> bool:
    """A delayed join says that a member owns nothing, and what it consumes is given away."""
    return original(*arguments) or True


@bug(DELAYED, PROGRESS, (MemberConnections, "admit"))
def older_connections_are_served_what_is_to_be_revoked(original: Any, *arguments: Any) -> bool:
    """A delayed heartbeat takes the answer that names what is to be given up."""
    return original(*arguments) or True


@bug(DELAYED, EVENTUALLY, (MemberConnections, "admit"))
def older_connections_are_served_new_partitions(original: Any, *arguments: Any) -> bool:
    """A delayed heartbeat takes the answer that names a new partition, which no member consumes then."""
    return original(*arguments) or True


@bug(DELAYED, RELEASED, (MemberConnections, "admit"))
def the_first_connection_is_kept(original: Any, connections: Any, group: Any, member_id: str, connection: int) -> bool:
    """What is remembered of a member is its first connection, not the newest."""
    newest = connections.newest(GROUP_ID, member_id)
    is_admitted = original(connections, group, member_id, connection)
    if newest != NO_CONNECTION:
        _rejoined(connections, member_id, newest)
    return is_admitted


@bug(TWO_DELAYED._replace(moves=0, fences=0), RELEASED, (MemberConnections, "admit"))
def a_refused_connection_is_remembered(
    original: Any, connections: Any, group: Any, member_id: str, connection: int
) -> bool:
    """A refused heartbeat counts as the newest: the next one on its connection, or on one in between, is served."""
    is_admitted = original(connections, group, member_id, connection)
    if not is_admitted:
        _rejoined(connections, member_id, connection)
    return is_admitted


@bug(DELAYED, RELEASED, (MemberConnections, "changed"))
def a_connection_is_forgotten_by_every_step(original: Any, connections: Any, *arguments: Any) -> None:
    """The newest connection of a member is remembered until the group changes."""
    original(connections, *arguments)
    connections.clear()


def _rejoined(connections: MemberConnections, member_id: str, connection: int) -> None:
    for value in (None, ConsumerMember(member_id)):
        connections.changed(GROUP_ID, (SubscriptionChange(member_id, value),), member_id, connection)


# Types.


@bug(PLAIN, TYPES, (ConsumerTransition, "stop_rebalance_timer"))
def a_rebalance_timer_runs_on(_: Any, *__: Any) -> None:
    """A member that has given up what it had to is fenced at the deadline all the same."""


@bug(PLAIN, TYPES, (ConsumerTransition, "start_rebalance_timer"))
def no_rebalance_timer_runs(_: Any, *__: Any) -> None:
    """A member that gives nothing up is never fenced."""


@bug(PLAIN, TYPES, (FoldedGroup, "group"))
def a_folded_group_has_no_rebalance_timers(original: Any, *arguments: Any) -> Any:
    """After a move of the coordinator, a member that gives nothing up is never fenced."""
    group = original(*arguments)
    return group and group._replace(rebalance_deadlines_ms=MappingProxyType({}))
