"""What time brings: sessions and rebalances that end, changes that are batched."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE_FOR_A_WHILE, Story
from tests.compat.situations.waiting import until

ALL = {"foo": [0, 1, 2]}
TIMED = "timed"


def _until_gone(story: Story, member: str) -> None:
    """Until the member is no longer described; only the last answer is noted."""

    def describe() -> list[str]:
        del story.lines[noted:]
        answer = story.describe()
        return [row["member_id"] for row in answer["groups"][0]["members"]]

    noted = len(story.lines)
    until(describe, lambda members: member not in members)


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
    story.join("a", rebalance_ms=700)
    story.beat("a", owned=ALL)
    story.records()
    story.join("b", rebalance_ms=700)

    def assigned() -> bool:
        del story.lines[noted:]
        story.beat("b")
        answer = story.beat("a", owned=ALL)
        return answer["error_code"] != 0

    noted = len(story.lines)
    until(assigned, bool)
    story.records()
    story.settle("b")
    story.records()
    story.describe()


@situation("members that join within the interval of assignments get theirs together", flavour=TIMED)
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


@situation("a member that leaves within the interval of assignments", flavour=TIMED)
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
    member = ClassicMember(story, "classic", session_timeout_ms=700)
    member.stable_alone(ALL)
    story.join("b")
    story.records()

    def left() -> int:
        del story.lines[noted:]
        story.beat("b")
        return len(story.describe()["groups"][0]["members"])

    noted = len(story.lines)
    until(left, lambda count: count == 1)
    story.records()
    member.heartbeat()
    story.beat("b")
    story.describe()


@situation("a classic member of a mixed group that does not join again in time is removed", flavour=TIMED)
def classic_rebalance(story: Story) -> None:
    member = ClassicMember(story, "classic", rebalance_timeout_ms=700)
    member.stable_alone(ALL)
    story.join("b")
    story.records()

    def refused() -> bool:
        del story.lines[noted:]
        story.beat("b")
        return member.heartbeat()["error_code"] not in (0, 27)

    noted = len(story.lines)
    until(refused, bool)
    story.records()
    story.beat("b")
    story.describe()
