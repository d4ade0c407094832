"""Heartbeats that are refused for what is in them, and the order in which that is checked."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import JOIN, LEAVE, LEAVE_FOR_A_WHILE, Story

EPOCHS = (JOIN, LEAVE, LEAVE_FOR_A_WHILE, -3, -(2**31), 1, 5, 2**31 - 1)


@situation("an empty group id")
def empty_group(story: Story) -> None:
    for epoch in EPOCHS:
        story.beat(group_id="", epoch=epoch, topics=["foo"], owned={}, rebalance_ms=1_000)


@situation("a blank group id")
def blank_group(story: Story) -> None:
    story.join(group_id=" ")
    story.leave(group_id=" ")


@situation("an empty member id, with either version and every epoch")
def empty_member(story: Story) -> None:
    for version in (0, 1):
        for epoch in EPOCHS:
            if (version, epoch) != (0, JOIN):
                story.beat("", epoch, version, topics=["foo"], owned={}, rebalance_ms=1_000)


@situation("a blank member id")
def blank_member(story: Story) -> None:
    story.join(" ")
    story.beat(" ")
    story.leave(" ")


@situation("version 0 makes the id of a member, or takes the one that is given")
def generated_member(story: Story) -> None:
    answer = story.join("", version=0)
    story.beat(answer["member_id"], version=0)
    story.leave(answer["member_id"], version=0)
    story.join("a", version=0)
    story.leave("a", version=0)


@situation("empty and blank instance ids, racks and assignors")
def empty_strings(story: Story) -> None:
    for name in ("instance_id", "rack_id", "server_assignor"):
        for text in ("", " "):
            story.join(**{name: text})
            story.beat("b", **{name: text})
    story.records()


@situation("a join without a rebalance timeout, and with odd ones")
def rebalance_timeouts(story: Story) -> None:
    for timeout_ms in (-1, -2, 0, 2**31 - 1):
        story.join(f"with{timeout_ms}", rebalance_ms=timeout_ms)
        story.records()


@situation("a join without owned partitions, and with some")
def owned_on_join(story: Story) -> None:
    story.join(topic_partitions=None, owned=None)
    story.join(owned={"foo": [0]})
    story.join(owned={"foo": []})
    story.join(owned={"nowhere": [0]})


@situation("a join without a subscription, and with empty ones")
def subscriptions_on_join(story: Story) -> None:
    story.join(topics=None)
    story.join(topics=None, version=0)
    story.join("b", topics=[])
    story.join("c", topics=None, regex="")
    story.join("d", topics=[], regex="")
    story.records()


@situation("a join that lacks everything is refused for the first reason")
def first_reason(story: Story) -> None:
    story.beat("", JOIN, group_id="", instance_id="", rack_id="", server_assignor="nothing")
    story.beat("a", JOIN, group_id="", instance_id="", rack_id="", server_assignor="nothing")
    story.beat("a", JOIN, instance_id="", rack_id="", server_assignor="nothing")
    story.beat("a", JOIN, rack_id="", server_assignor="nothing")
    story.beat("a", JOIN, server_assignor="nothing")
    story.beat("a", JOIN, server_assignor="nothing", rebalance_ms=1_000)
    story.beat("a", JOIN, server_assignor="nothing", rebalance_ms=1_000, owned={})
    story.beat("a", JOIN, server_assignor="nothing", rebalance_ms=1_000, owned={}, topics=["foo"])
    story.beat("a", JOIN, rebalance_ms=1_000, owned={}, topics=["foo"], regex="(")


@situation("an assignor that is unknown: at join, later, in another case, with an unknown member")
def unknown_assignor(story: Story) -> None:
    story.join(server_assignor="nothing")
    story.join(server_assignor="Range")
    story.join(server_assignor="range")
    story.beat("a", server_assignor="nothing")
    story.beat("a", server_assignor="")
    story.beat("b", server_assignor="nothing")
    story.beat("a", LEAVE, server_assignor="nothing")
    story.records()


@situation("epochs below -2, of known and unknown members")
def impossible_epochs(story: Story) -> None:
    story.join()
    for member in ("a", "b"):
        for epoch in (-3, -(2**31)):
            story.beat(member, epoch)
            story.beat(member, epoch, instance_id="i")


@situation("names subscribed twice, with invalid names, and names of nothing")
def odd_names(story: Story) -> None:
    story.join("a", topics=["foo", "foo"])
    story.join("b", topics=["bar", "nowhere"])
    story.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id=story.group,
        member_id="c",
        rebalance_timeout_ms=1_000,
        topic_partitions=[],
        subscribed_topic_names=["", " ", "a/b", ".."],
    )
    story.describe()
    story.records()


@situation("owned partitions with ids and numbers that do not exist")
def odd_owned(story: Story) -> None:
    story.join()
    story.beat("a", owned={"nowhere": [0]})
    story.beat("a", owned={"foo": [0, 1, 2, 99]})
    story.beat("a", owned={"foo": [-1]})
    story.beat("a", owned={"foo": [0, 0, 1, 2]})
    story.beat("a", owned={"bar": [0]})
    story.records()


@situation("a member's rack and client are written down")
def rack(story: Story) -> None:
    story.join(rack_id="r1")
    story.records()
    story.beat("a", rack_id="r2")
    story.records()
    story.describe(0)


@situation("one member in two groups")
def two_groups(story: Story) -> None:
    other = story.broker.name("other-than-g")
    story.join("a")
    story.join("a", group_id=other)
    story.beat("a")
    story.beat("a", group_id=other)
    story.leave("a", group_id=other)
    story.beat("a")
    story.beat("a", group_id=other)


@situation("more members than a group may have")
def too_many(story: Story) -> None:
    for member in ("a", "b", "c", "d", "e"):
        story.join(member)
    story.join("a")
    story.join("s", instance_id="i")
    story.leave("d")
    story.join("e")
    story.records()
