"""Bugs of static members (KIP-848) that the simulated broker must find by what becomes of them (K4 to K6)."""

from __future__ import annotations

from typing import Any

from sordini.broker.groups import offset_commits
from sordini.broker.groups.consumer.machine import heartbeat, leaving, membership, sessions
from sordini.broker.groups.consumer.machine.events import EpochCause
from sordini.broker.groups.consumer.machine.state import (
    NOTHING_OWNED,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.protocol.errors import BrokerError, ErrorCode
from tests.sim.planted_bugs import Bug


def _give_up_at_once(_right: Any) -> Any:
    """As if the member had left for good."""

    def leave(transition: Any, member: ConsumerMember) -> None:
        leaving.remove(transition, [member], EpochCause(RebalanceCause.MEMBER_LEFT, "left", (member,)))

    return leave


def _give_up_the_partitions(right: Any) -> Any:
    return lambda transition, member: right(transition, member._replace(assigned=NOTHING_OWNED))


def _let_in(right: Any) -> Any:
    """The member that claims the instance id."""

    def joined(transition: Any, event: Any) -> Any:
        former = None if event.instance_id is None else transition.static_member(event.instance_id)
        if former is None or former.member_id == event.member_id:
            return right(transition, event)
        return membership.successor_of(transition, former, event.member_id)

    return joined


def _keep_out(right: Any) -> Any:
    """A process of an instance id that is known, also if it was released."""

    def joined(transition: Any, event: Any) -> Any:
        former = None if event.instance_id is None else transition.static_member(event.instance_id)
        if former is not None and former.member_id != event.member_id:
            raise BrokerError(ErrorCode.UNRELEASED_INSTANCE_ID, "taken")
        return right(transition, event)

    return joined


def _come_as_another(right: Any) -> Any:
    """The successor is taken for a member whose subscription is new."""

    def successor(transition: Any, former: Any, member_id: str) -> Any:
        return right(transition, former, member_id)._replace(subscribed_topics=frozenset())

    return successor


def _serve_any_process(_right: Any) -> Any:
    """The holder of an instance id, whichever process asks."""

    def known(transition: Any, _member_id: str, instance_id: str) -> Any:
        static = transition.static_member(instance_id)
        if static is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "unknown")
        return static

    return known


def _admit_members_that_were_succeeded(right: Any) -> Any:
    def error(group: Any, member_id: str, *others: Any, **more: Any) -> ErrorCode:
        code: ErrorCode = right(group, member_id, *others, **more)
        return ErrorCode.NONE if code == ErrorCode.UNKNOWN_MEMBER_ID and group.static_member_ids else code

    return error


def _wait_for_ever(right: Any) -> Any:
    """The session of a member that is away does not end."""

    def fence(transition: Any, member_ids: list[str], *others: Any) -> None:
        away = {each for each in member_ids if _is_away(transition.members.get(each))}
        for member_id in away:
            transition.restart_session(member_id)
        right(transition, [each for each in member_ids if each not in away], *others)

    return fence


def _is_away(member: ConsumerMember | None) -> bool:
    return member is not None and member.epoch == STATIC_LEAVE_EPOCH


STATIC_BUGS: tuple[Bug, ...] = (
    Bug("a static member that is away is removed at once", "K5", leaving, "_leave_for_a_while", _give_up_at_once),
    Bug("a static member that is away has no partitions", "K5", leaving, "_leave_for_a_while", _give_up_the_partitions),
    Bug("a static member that is back is a new one", "K5", membership, "successor_of", _come_as_another),
    Bug(
        "commits of a static member with a successor are stored",
        "K5",
        offset_commits,
        "commit_error",
        _admit_members_that_were_succeeded,
    ),
    Bug("an instance id is taken from a member that is alive", "K6", heartbeat, "joined_member", _let_in),
    Bug("an instance id is not released by leaving", "K6", heartbeat, "joined_member", _keep_out),
    Bug("a process is served that has a successor", "K6", membership, "known_static", _serve_any_process),
    Bug("a static member that is away is never removed", "K4", sessions, "_fence", _wait_for_ever),
)
