"""Members of share groups: ShareGroupHeartbeat (KIP-932)."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.share_group import ShareGroup
from tests.compat.consumer_groups.story import JOIN, LEAVE, LEAVE_FOR_A_WHILE, Story

ALL = {"foo": [0, 1, 2]}


@situation("the first member of a share group joins, and gets all partitions once they are initialized")
def first(story: Story) -> None:
    group = ShareGroup(story)
    group.join()
    group.wait_for_assignment()
    story.records()
    group.describe()


@situation("steady heartbeats of a share group's member bring nothing new")
def steady(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    for _ in range(3):
        group.beat()
    group.beat(topics=["foo"])
    story.records()


@situation("a second, third and fourth member share the partitions of a share group")
def more(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled()
    for member in ("b", "c", "d"):
        group.join(member)
        for other in sorted(group.epochs):
            group.beat(other)
        story.records()
    group.describe()


@situation("a share group that is full refuses another member, and takes one when one has left")
def full(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled()
    for member in ("b", "c", "d", "e"):
        group.join(member)
    story.records()
    group.leave("b")
    group.join("e")
    story.records()
    group.describe()


@situation("a share group's member with its previous epoch, with older ones, and with one that is too large")
def epochs(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled()
    group.join("b")
    group.beat("a")
    group.join("c")
    group.beat("a")
    current = group.epochs["a"]
    for epoch in (current - 1, current - 2, current + 1, 2**31 - 1, current):
        group.beat("a", epoch)
    story.records()


@situation("a share group's member leaves, and leaves again")
def leaves(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled()
    group.join("b")
    group.beat("a")
    story.records()
    group.leave("a")
    group.leave("a")
    story.records()
    group.beat("b")
    group.leave("b")
    story.records()
    group.describe()


@situation("a share group's member joins again under its id, without having left and after it")
def rejoins(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    group.join()
    story.records()
    group.beat()
    group.leave()
    group.join()
    story.records()


@situation("an unknown member beats, and leaves, in a share group")
def unknown(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    for epoch in (1, 2, 100, LEAVE):
        group.beat("x", epoch)
    story.records()


@situation("heartbeats with an epoch to a share group that there is not")
def no_group(story: Story) -> None:
    group = ShareGroup(story)
    for epoch in (1, LEAVE, LEAVE_FOR_A_WHILE, -3):
        group.beat("a", epoch)
    story.records()


@situation("share group heartbeats with an empty member id, and without a group id")
def empty_ids(story: Story) -> None:
    group = ShareGroup(story)
    group.join("")
    group.beat("", 1)
    group.join("m" * 36)
    group.join("m" * 37)
    group.beat(" ", JOIN, topics=["foo"])
    group.join("a", group_id="")
    group.join("a", group_id=" ")
    group.beat("a", 1, group_id="")
    story.records()


@situation("share group heartbeats with epochs that are none")
def odd_epochs(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    for epoch in (LEAVE_FOR_A_WHILE, -3, -(2**31)):
        group.beat("a", epoch)
    story.records()


@situation("a share group is joined without a subscription, and with one of no topics")
def no_subscription(story: Story) -> None:
    group = ShareGroup(story)
    group.join(topics=None)
    group.join(topics=[])
    story.records()
    group.settled()
    group.join("b", topics=None)
    group.join("b", topics=[])
    story.records()
    group.describe()


@situation("a rack of a share group's member: empty, given, and changed")
def racks(story: Story) -> None:
    group = ShareGroup(story)
    group.join(rack_id="")
    group.settled(rack_id="r1")
    group.beat(rack_id="r1")
    group.beat(rack_id="r2")
    story.records()
    group.beat()
    group.join(rack_id=None)
    story.records()
    group.describe()


@situation("a share group's member subscribes to another topic, to both, and to none")
def changed(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    group.beat(topics=["bar"])
    group.wait_for_assignment()
    story.records()
    group.beat(topics=["foo", "bar"])
    story.records()
    group.beat()
    group.beat(topics=["bar", "foo"])
    story.records()
    group.beat(topics=[])
    story.records()
    group.describe()


@situation("members of a share group that subscribe to different topics")
def different(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled(["foo", "bar"])
    group.join("b", ["bar"])
    group.beat("a")
    group.beat("b")
    story.records()
    group.join("c", ["foo"])
    for member in ("a", "b", "c"):
        group.beat(member)
    story.records()
    group.describe()


@situation("a share group's member subscribes to one topic twice")
def twice(story: Story) -> None:
    group = ShareGroup(story)
    group.settled(["foo", "foo"])
    story.records()
    group.describe()


@situation("a share group's member subscribes to a topic that is created later")
def later(story: Story) -> None:
    group = ShareGroup(story)
    story.announce("later")
    group.join(topics=["later"])
    group.beat()
    story.records()
    group.describe()
    story.topic("later", 2)
    group.wait_for_assignment()
    story.records()
    group.offsets()


@situation("a share group's topic is given more partitions")
def grown(story: Story) -> None:
    group = ShareGroup(story)
    story.topic("more", 2)
    group.settled(["more"])
    story.records()
    story.grow("more", 4)
    group.wait_for_assignment()
    story.records()
    group.offsets()


@situation("a share group's topic is deleted")
def deleted(story: Story) -> None:
    group = ShareGroup(story)
    story.topic("gone", 2)
    group.settled(["gone", "foo"])
    story.records()
    story.delete_topic("gone")
    group.wait_for_assignment()
    group.describe()
    group.offsets({"foo": [0]})


@situation("heartbeats of a share group to a consumer group, to a classic group, and to one of offsets")
def other_kinds(story: Story) -> None:
    group = ShareGroup(story)
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    group.join()
    group.beat("a", 1)
    group.beat("a", LEAVE)
    member.leave()
    group.join()
    story.join("b")
    group.join()
    group.beat("b", story.epochs["b"])
    group.beat("b", LEAVE)
    story.leave("b")
    group.join()
    group.describe()
    story.records()


@situation("a group of which there are offsets alone is joined by a member of a share group")
def offsets_alone(story: Story) -> None:
    group = ShareGroup(story)
    topics = [{"name": story.full("foo"), "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    story.ask("OffsetCommit", 9, group_id=story.group, topics=topics)
    group.join()
    group.beat("a", 1)
    group.describe()
    story.records()


@situation("a share group's member that falls silent is removed", flavour="timed")
def silent(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    story.last(group.describe, lambda answer: not answer["groups"][0]["members"])
    story.records()
    group.beat()
