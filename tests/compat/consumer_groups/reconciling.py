"""Partitions that change their owner: revoked, released, handed over."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import Story

ALL = {"foo": [0, 1, 2]}


def _two(story: Story) -> None:
    """`a` has all and reports it; `b` has joined."""
    story.join("a")
    story.beat("a", owned=ALL)
    story.join("b")
    story.records()


@situation("a second member gets what the first one revokes and reports")
def revoked(story: Story) -> None:
    _two(story)
    story.beat("b")
    story.records()
    story.beat("a", owned=ALL)
    story.records()
    story.beat("b")
    story.describe()
    story.beat("a", owned={"foo": [0, 1]})
    story.records()
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("b", owned={})
    story.records()
    story.beat("b", owned={"foo": [2]})
    story.describe()


@situation("a member that revokes and does not report keeps the other one waiting")
def unreported(story: Story) -> None:
    _two(story)
    story.beat("a")
    story.records()
    story.beat("a")
    story.beat("a", owned=ALL)
    story.beat("b")
    story.records()
    story.describe()


@situation("a member that reports what it never had")
def never_assigned(story: Story) -> None:
    _two(story)
    story.beat("a", owned={"foo": [0, 1, 2], "bar": [0]})
    story.beat("b", owned={"foo": [0]})
    story.beat("b", owned={"bar": [0]})
    story.records()


@situation("a member that reports less than it keeps")
def less(story: Story) -> None:
    _two(story)
    story.beat("a", owned={})
    story.beat("a", owned={})
    story.beat("b", owned={})
    story.records()


@situation("a member reports only a part of what it revokes")
def part(story: Story) -> None:
    story.topic("wide", 6)
    story.join("a", topics=["wide"])
    story.beat("a", owned={"wide": range(6)})
    story.join("b", topics=["wide"])
    story.beat("a", owned={"wide": range(6)})
    story.beat("a", owned={"wide": [0, 1, 2, 3, 4]})
    story.records()
    story.beat("b")
    story.beat("a", owned={"wide": [0, 1, 2, 3]})
    story.beat("a", owned={"wide": [0, 1, 2]})
    story.beat("b")
    story.records()


@situation("a third member joins while the first one revokes")
def third_while_revoking(story: Story) -> None:
    _two(story)
    story.beat("a", owned=ALL)
    story.join("c")
    story.records()
    story.beat("a", owned=ALL)
    story.records()
    story.beat("a", owned={"foo": [0, 1]})
    story.records()
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("a", owned={"foo": [0]})
    story.beat("b")
    story.beat("c")
    story.records()


@situation("the second member leaves again while the first one revokes")
def leaves_while_revoking(story: Story) -> None:
    _two(story)
    story.beat("a", owned=ALL)
    story.leave("b")
    story.records()
    story.beat("a", owned=ALL)
    story.records()
    story.beat("a", owned={"foo": [0, 1]})
    story.records()
    story.beat("a")


@situation("the revoking member leaves: what it held is free")
def revoking_leaves(story: Story) -> None:
    _two(story)
    story.beat("a", owned=ALL)
    story.leave("a")
    story.records()
    story.beat("b")
    story.records()


@situation("a member that waits for partitions becomes stable, one by one")
def one_by_one(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    story.join("b")
    story.join("c")
    story.beat("a", owned=ALL)
    story.beat("b")
    story.beat("c")
    story.beat("a", owned={"foo": [0]})
    story.beat("c")
    story.beat("b")
    story.beat("b")
    story.records()
    story.describe()


@situation("a member changes its subscription while it revokes")
def subscribes_while_revoking(story: Story) -> None:
    _two(story)
    story.beat("a", owned=ALL)
    story.beat("a", topics=["bar"])
    story.records()
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("a", owned={})
    story.beat("b")
    story.records()


@situation("when a heartbeat repeats the assignment and when it does not")
def repeats(story: Story) -> None:
    story.join("a")
    story.beat("a")
    story.beat("a", owned={})
    story.beat("a", owned={"foo": [0]})
    story.beat("a", topics=["foo"])
    story.beat("a", topics=["foo"], owned=ALL, rebalance_ms=60_000)
    story.beat("a", rebalance_ms=60_000)
    story.records()
