"""Members that join and leave: epochs, assignments, what is written."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE, LEAVE_FOR_A_WHILE, Story


@situation("the first member joins, reports, leaves")
def first(story: Story) -> None:
    story.join()
    story.records()
    story.describe()
    story.beat("a")
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.records()
    story.describe()
    story.leave()
    story.records()
    story.describe()


@situation("the only member leaves, another one comes")
def again(story: Story) -> None:
    story.join()
    story.leave()
    story.records()
    story.join("b")
    story.records()


@situation("a member that has left is unknown")
def left(story: Story) -> None:
    story.join("a")
    story.join("b")
    story.leave("b")
    for epoch in (1, 2, LEAVE, 9):
        story.beat("b", epoch)
    story.join("b")


@situation("heartbeats of unknown members of known and unknown groups")
def unknown(story: Story) -> None:
    for epoch in (1, LEAVE, LEAVE_FOR_A_WHILE, 2**31 - 1):
        story.beat("x", epoch, instance_id="i" if epoch == LEAVE_FOR_A_WHILE else None)
    story.records()
    story.join("a")
    for epoch in (1, LEAVE, LEAVE_FOR_A_WHILE, 2**31 - 1):
        story.beat("x", epoch, instance_id="i" if epoch == LEAVE_FOR_A_WHILE else None)


@situation("a subscription to a topic that does not exist, which comes later")
def later(story: Story) -> None:
    story.announce("later")
    story.join("a", topics=["later"])
    story.records()
    story.beat("a")
    story.topic("later", 2)
    story.wait_for_assignment("a")
    story.records()
    story.beat("a")


@situation("an empty subscription assigns nothing")
def nothing(story: Story) -> None:
    story.join("a", topics=[])
    story.beat("a")
    story.records()
    story.beat("a", topics=["foo"])
    story.records()
    story.beat("a")
    story.beat("a", topics=[])
    story.records()
    story.beat("a", owned={})
    story.records()


@situation("a member subscribes to more and to less")
def changed_subscription(story: Story) -> None:
    story.join("a", topics=["foo"])
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.records()
    story.beat("a", topics=["foo", "bar"])
    story.records()
    story.beat("a", owned={"foo": [0, 1, 2], "bar": [0, 1]})
    story.beat("a", topics=["bar", "foo"])
    story.records()
    story.beat("a", topics=["bar"])
    story.beat("a", owned={"bar": [0, 1]})
    story.records()
    story.beat("a")


@situation("a member joins again with its id while it is there")
def rejoin(story: Story) -> None:
    story.join("a")
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.records()
    story.join("a")
    story.records()
    story.join("a", topics=["bar"])
    story.records()
    story.join("a", rebalance_ms=5_000)
    story.records()


@situation("a member of two joins again with its id")
def rejoin_of_two(story: Story) -> None:
    story.join("a")
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.join("b")
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.records()
    story.join("a")
    story.records()
    story.join("b")
    story.records()
    story.beat("b")


@situation("the timeout of a rebalance changes, and nothing else")
def changed_timeout(story: Story) -> None:
    story.join("a", rebalance_ms=60_000)
    story.records()
    story.beat("a", rebalance_ms=30_000)
    story.records()
    story.beat("a", rebalance_ms=30_000)
    story.beat("a", rebalance_ms=0)
    story.records()


@situation("the range assignor, requested by the first and by most")
def range_assignor(story: Story) -> None:
    story.join("a", server_assignor="range", topics=["foo", "bar"])
    story.beat("a", owned={"foo": [0, 1, 2], "bar": [0, 1]})
    story.join("b", server_assignor="range", topics=["foo", "bar"])
    story.beat("a", owned={"foo": [0, 1, 2], "bar": [0, 1]})
    story.beat("a", owned={"foo": [0, 1], "bar": [0]})
    story.beat("b", owned={})
    story.describe()
    story.records()


@situation("members that request different assignors")
def votes(story: Story) -> None:
    story.join("a", server_assignor="range")
    story.describe()
    story.join("b", server_assignor="uniform")
    story.describe()
    story.join("c", server_assignor="uniform")
    story.describe()
    story.beat("c", server_assignor="range")
    story.records()
    story.describe()


@situation("a member leaves with its partitions unreported, reported, wrong")
def leaving(story: Story) -> None:
    story.join("a")
    story.leave("a", owned={"foo": [0, 1, 2]})
    story.join("b")
    story.leave("b", owned={"bar": [0]}, topics=["bar"], rebalance_ms=1)
    story.records()


@situation("-2 of a member that is not static")
def dynamic_leave(story: Story) -> None:
    story.join("a")
    story.leave("a", LEAVE_FOR_A_WHILE)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.beat("a")
    story.records()


@situation("three members come one by one and two go at once")
def three(story: Story) -> None:
    story.join("a")
    story.join("b")
    story.join("c")
    story.beat("a", owned={"foo": [0, 1, 2]})
    story.beat("a", owned={"foo": [0]})
    story.beat("b", owned={})
    story.beat("b", owned={})
    story.beat("c", owned={})
    story.records()
    story.describe()
    story.leave("a")
    story.leave("c")
    story.beat("b")
    story.beat("b")
    story.records()
    story.describe()
