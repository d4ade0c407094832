"""One group of a test's cluster, of either protocol: `kafka.group("shop").fence(member)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from sordini.client.lag.model import Condition, GroupLag, PartitionLag
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.testing.arguments import ArgumentRefused, flag, text, texts
from sordini.testing.faults.script import Rule
from sordini.testing.group_state import CLASSIC, CONSUMER, GroupMember, GroupState, member_ids
from sordini.testing.groups import Groups
from sordini.testing.own_client import KitError, NotInTime

HEARTBEATS: Final = {CLASSIC: ApiKey.HEARTBEAT, CONSUMER: ApiKey.CONSUMER_GROUP_HEARTBEAT}
FENCED: Final = {CLASSIC: ErrorCode.ILLEGAL_GENERATION, CONSUMER: ErrorCode.FENCED_MEMBER_EPOCH}
"""The heartbeat is of an epoch, or a generation, that is no longer the member's: it loses its partitions and joins."""
REFUSALS: Final = (
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, ErrorCode.UNSUPPORTED_ASSIGNOR),
    (ApiKey.JOIN_GROUP, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
)
"""Where a member names assignors, and the error for one that cannot be used."""
LEFT_SHOWN_MAX: Final = 10
"""Partitions that a failed assertion names."""
RULES_MAX: Final = 2
"""Of one fault: one for each protocol."""


class GroupFault:
    """A fault of a group: the rules that make it, one for each protocol that it is for."""

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = tuple(rules)

    @property
    def used(self) -> int:
        """How many requests it has acted on."""
        return sum(rule.used for rule in self.rules)

    def release(self) -> None:
        """As `Rule.release`. Raises ValueError for a fault that does not hold."""
        for rule in self.rules:
            rule.release()

    def undo(self) -> None:
        """End it, and let go what it holds."""
        for rule in self.rules:
            rule.undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


class GroupHandle:
    """What a test asks of a group, and does to it."""

    def __init__(self, groups: Groups, on: Callable[..., Rule], name: str) -> None:
        """`on` is `Kafka.on`. Raises ArgumentRefused."""
        self._groups = groups
        self._on = on
        self.name = text("group", name)

    def describe(self) -> GroupState:
        """The group and its members. Raises KitError."""
        return self._groups.describe(self.name)

    def lag(self, topic: str | Iterable[str] | None = None) -> GroupLag:
        """How far it is behind, of all its topics or of some: `lag` in records, `oldest`, `partitions`.

        Raises KitError.

        The time since a record was appended is what the broker has seen, and it takes a sample once a second.
        """
        return self._groups.lag(self.name, frozenset(() if topic is None else texts("topic", topic)))

    def assert_caught_up(self, topic: str | Iterable[str] | None = None, *, timeout_s: float = 0) -> None:
        """Fail unless it has committed all records, markers of transactions aside; for `timeout_s` it may get there.

        Raises AssertionError with what is left, also where nothing is committed, and KitError.
        """
        left: list[PartitionLag] = []

        def is_done() -> bool | None:
            partitions = self.lag(topic).partitions
            left[:] = [row for row in partitions if row.condition is not Condition.CAUGHT_UP]
            return True if partitions and not left else None

        if is_done():
            return
        if timeout_s > 0:
            with suppress(NotInTime):
                self._groups.wait(is_done, f"group {self.name!r} has caught up", timeout_s)
                return
        raise AssertionError(f"group {self.name!r} has not caught up: {_left_text(left)}")

    def fence(self, member: GroupMember | str | None = None, *, instance_id: str | None = None) -> GroupFault:
        """Refuse the next heartbeat of a member, which has lost its partitions then and joins again.

        The member is named by its id, or a static one by its instance id. The error is FENCED_MEMBER_EPOCH, or for a
        member of the classic protocol ILLEGAL_GENERATION. Raises ValueError, and KitError for one that is not there.
        """
        found = self._member(member, instance_id)
        if found is None:
            raise ArgumentRefused("member", member, "the id of a member, or instance_id=")
        rule = self._on(HEARTBEATS[found.protocol], group=self.name, member_id=found.id, times=1)
        return GroupFault([rule.fail(FENCED[found.protocol])])

    def hold_heartbeats(
        self, member: GroupMember | str | None = None, *, instance_id: str | None = None, before: bool = False
    ) -> GroupFault:
        """Keep the answers to heartbeats until `release`: of one member, or of all, of those that join later, too.

        With `before` heartbeats are handled only then: sessions end when the clock is advanced meanwhile. Raises
        ValueError, and KitError for a member that is not there.
        """
        flag("before", before)
        found = self._member(member, instance_id)
        if found is None:
            rules = [self._on(api, group=self.name) for api in HEARTBEATS.values()]
        else:
            rules = [self._on(HEARTBEATS[found.protocol], group=self.name, member_id=found.id)]
        return GroupFault([rule.hold(before=before) for rule in rules])

    def refuse_assignor(self, assignor: str | None = None) -> GroupFault:
        """Refuse an assignor to members that request it, or whatever members request: to clients the error is fatal.

        It is UNSUPPORTED_ASSIGNOR, or where a member of the classic protocol joins INCONSISTENT_GROUP_PROTOCOL. Raises
        ValueError.
        """
        selected: dict[str, Any] = {"group": self.name, "assignor": assignor}
        return GroupFault([self._on(api, **selected).fail(code) for api, code in REFUSALS])

    def _member(self, member: GroupMember | str | None, instance_id: str | None) -> GroupMember | None:
        """The member that a test names, if it does. Raises ArgumentRefused, KitError."""
        if member is None and instance_id is None:
            return None
        if member is not None and instance_id is not None:
            raise ArgumentRefused("instance_id", instance_id, "None beside member=: one of them names the member")
        if member is None:
            wanted, field, what = text("instance_id", instance_id), "instance_id", "with the instance id "
        else:
            ids = member_ids("member", member)
            if len(ids) != 1:
                raise ArgumentRefused("member", member, "the id of one member")
            wanted, field, what = ids[0], "id", ""
        members = self.describe().members
        for one in members:
            if getattr(one, field) == wanted:
                return one
        known = [shown for one in members if (shown := getattr(one, field)) is not None]
        there = f"there are {', '.join(map(repr, known))}" if known else "there is none"
        raise KitError(f"group {self.name!r} has no member {what}{wanted!r}: {there}")


def _left_text(left: Sequence[PartitionLag]) -> str:
    """`orders:0 is 3 behind (at 2 of 5), ...`."""
    if not left:
        return "it has no committed offset"
    shown = [
        f"{row.topic}:{row.partition} is {row.lag} behind (at {row.committed} of {row.end})"
        if row.condition is Condition.BEHIND
        else f"{row.topic}:{row.partition}: {row.condition.value}"
        for row in left[:LEFT_SHOWN_MAX]
    ]
    more = [f"and {len(left) - LEFT_SHOWN_MAX} more"] if len(left) > LEFT_SHOWN_MAX else []
    return ", ".join([*shown, *more])
