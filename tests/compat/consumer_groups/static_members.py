"""Members with an instance id (KIP-345) in consumer groups."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE, LEAVE_FOR_A_WHILE, Story

ALL = {"foo": [0, 1, 2]}


@situation("a static member joins, leaves for a while, and another id takes over")
def take_over(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.records()
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.records()
    story.describe()
    story.join("b", instance_id="i")
    story.records()
    story.beat("b", owned=ALL)
    story.describe()
    story.beat("a")
    story.beat("a", instance_id="i")


@situation("an instance id that is in use")
def unreleased(story: Story) -> None:
    story.join("a", instance_id="i")
    story.join("b", instance_id="i")
    story.join("b", instance_id="i", version=0)
    story.beat("b", instance_id="i")
    story.leave("b", instance_id="i")
    story.leave("b", LEAVE_FOR_A_WHILE, instance_id="i")
    story.beat("a", instance_id="i")
    story.records()


@situation("a heartbeat with another instance id, an unknown one, and none")
def other_instance(story: Story) -> None:
    story.join("a", instance_id="i")
    story.join("b", instance_id="j")
    story.join("c")
    story.records()
    story.beat("a", instance_id="j")
    story.beat("a", instance_id="k")
    story.beat("a")
    story.beat("c", instance_id="k")
    story.beat("c", instance_id="i")
    story.beat("x", instance_id="i")
    story.records()


@situation("a static member leaves for good, with its instance id and without")
def for_good(story: Story) -> None:
    story.join("a", instance_id="i")
    story.leave("a", instance_id="i")
    story.records()
    story.join("a", instance_id="i")
    story.leave("a")
    story.records()
    story.beat("a", instance_id="i")
    story.join("b", instance_id="i")


@situation("a static member that is away is addressed by its old id")
def away(story: Story) -> None:
    story.join("a", instance_id="i")
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.beat("a", instance_id="i")
    story.beat("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.beat("a")
    story.records()
    story.leave("a", LEAVE, instance_id="i")
    story.records()
    story.describe()


@situation("a static member that is away joins again with the same id")
def same_id(story: Story) -> None:
    story.join("a", instance_id="i")
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.records()
    story.join("a", instance_id="i")
    story.records()
    story.beat("a")


@situation("a static member comes back with another subscription")
def other_subscription(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.join("b", ["bar"], instance_id="i")
    story.records()


@situation("a rebalance while a static member is away")
def rebalance_while_away(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.join("c")
    story.records()
    story.beat("c")
    story.join("b", instance_id="i")
    story.records()
    story.beat("b", owned={"foo": [0, 1]})
    story.beat("b", owned={"foo": [0, 1]})
    story.beat("c")
    story.records()


@situation("a static member leaves for a while as it revokes")
def away_while_revoking(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.join("c")
    story.beat("a", owned=ALL)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.records()
    story.describe()
    story.beat("c")
    story.join("b", instance_id="i")
    story.records()
    story.beat("c")


@situation("a static member joins again with its id while it is active")
def active_rejoins(story: Story) -> None:
    story.join("a", instance_id="i")
    story.join("a", instance_id="i")
    story.join("a")
    story.join("a", instance_id="j")
    story.describe()
    story.records()


@situation("a dynamic member joins again as a static one")
def becomes_static(story: Story) -> None:
    story.join("a")
    story.join("a", instance_id="i")
    story.beat("a", instance_id="i")
    story.describe()
    story.records()
