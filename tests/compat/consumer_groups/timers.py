"""What time brings: sessions and rebalances that end, changes that are batched."""

from collections.abc import Callable
from typing import Any

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE_FOR_A_WHILE, Story
from tests.compat.situations.waiting import until

ALL = {"foo": [0, 1, 2]}
TIMED, BATCHED = "timed", "batched"
LIMIT_MS = 2_000
"""Of a rebalance and of a classic session; only the member that is to exceed it sends heartbeats meanwhile, or none.

Each heartbeat of another one may come before or after the removal, which gives that one partitions.
"""


def _until_gone(story: Story, member: str) -> None:
    story.describe_until(lambda members: all(row["member_id"] != member for row in members))


def _until_refused(story: Story, beat: Callable[[], Any]) -> None:
    """Until a heartbeat is answered with an error other than REBALANCE_IN_PROGRESS; only the last is noted."""
    noted = len(story.lines)

    def code() -> int:
        del story.lines[noted:]
        return int(beat()["error_code"])

    until(code, lambda code: code not in (0, 27))


@situation("a member that falls silent is removed", flavour=TIMED)
def session(story: Story) -> None:
    story.join("a")
    story.records()
    _until_gone(story, "a")
    story.records()
    story.beat("a")


@situation("a static member that is away for longer than its session is removed", flavour=TIMED)
def static_session(story: Story) -> None:
    story.join("a", instance_id="i")
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.records()
    _until_gone(story, "a")
    story.records()
    story.join("b", instance_id="i")


@situation("a member that does not revoke in time is removed, and what it held is free", flavour=TIMED)
def rebalance(story: Story) -> None:
    story.join("a", rebalance_ms=LIMIT_MS)
    story.beat("a", owned=ALL)
    story.records()
    story.join("b", rebalance_ms=LIMIT_MS)
    _until_refused(story, lambda: story.beat("a", owned=ALL))
    story.records()
    story.settle("b")
    story.records()
    story.describe()


@situation("members that join within the interval of assignments get theirs together", flavour=BATCHED)
def interval(story: Story) -> None:
    story.join("a")
    story.records()
    story.join("b")
    story.records()
    story.describe()
    story.join("c")
    story.records()
    story.beat("a", owned=ALL)
    story.wait_for_assignment("a", owned=ALL)
    story.records()
    story.describe()


@situation("a member that leaves within the interval of assignments", flavour=BATCHED)
def leave_in_interval(story: Story) -> None:
    story.join("a")
    story.join("b")
    story.leave("b")
    story.records()
    story.describe()
    story.beat("a", owned=ALL)
    story.settle("a", owned=ALL)
    story.records()


@situation("a classic member of a mixed group that falls silent is removed", flavour=TIMED)
def classic_session(story: Story) -> None:
    member = ClassicMember(story, "classic", session_timeout_ms=LIMIT_MS)
    member.stable_alone(ALL)
    story.join("b")
    story.records()
    story.describe_until(lambda members: len(members) == 1)
    story.records()
    member.heartbeat()
    story.beat("b")
    story.describe()


@situation("a classic member of a mixed group that does not join again in time is removed", flavour=TIMED)
def classic_rebalance(story: Story) -> None:
    member = ClassicMember(story, "classic", rebalance_timeout_ms=LIMIT_MS)
    member.stable_alone(ALL)
    story.join("b")
    story.records()
    _until_refused(story, member.heartbeat)
    story.records()
    story.beat("b")
    story.describe()
