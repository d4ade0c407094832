"""Epochs from the future and the past, and the answer that was lost."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import Story

ALL = {"foo": [0, 1, 2]}


@situation("an epoch from the future")
def future(story: Story) -> None:
    story.join("a")
    for epoch in (story.epochs["a"] + 1, 9, 2**31 - 1):
        story.beat("a", epoch)
        story.beat("a", epoch, owned=ALL)
    story.beat("a")
    story.records()


def _advanced(story: Story) -> int:
    """`a` has [0, 1] and had all at the previous epoch, which is returned; `b` waits no more."""
    story.join("a")
    story.beat("a", owned=ALL)
    previous = story.epochs["a"]
    story.join("b")
    story.beat("a", owned=ALL)
    story.beat("a", owned={"foo": [0, 1]})
    story.records()
    return previous


@situation("the previous epoch with exactly the partitions that are assigned")
def lost(story: Story) -> None:
    previous = _advanced(story)
    story.beat("a", previous, owned={"foo": [0, 1]})
    story.beat("a", previous, owned={"foo": [0, 1]})
    story.records()


@situation("the previous epoch with a part of the partitions, and with none")
def subset(story: Story) -> None:
    previous = _advanced(story)
    story.beat("a", previous, owned={"foo": [0]})
    story.beat("a", previous, owned={})
    story.records()


@situation("the previous epoch with more partitions")
def superset(story: Story) -> None:
    previous = _advanced(story)
    story.beat("a", previous, owned=ALL)
    story.beat("a", previous, owned={"foo": [0, 1], "bar": [0]})
    story.beat("a", previous, owned={"bar": []})
    story.records()


@situation("the previous epoch without a report of partitions")
def unreported(story: Story) -> None:
    previous = _advanced(story)
    story.beat("a", previous)
    story.records()


@situation("an epoch before the previous one")
def older(story: Story) -> None:
    previous = _advanced(story)
    story.join("c")
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("a", owned={"foo": [0]})
    story.describe()
    story.beat("a", previous, owned={"foo": [0]})
    story.beat("a", owned={"foo": [0]})
    story.beat("a", owned={"foo": [0]})
    story.records()


@situation("after its first join a member sends the first epochs: 0 is the previous one")
def first_epoch(story: Story) -> None:
    story.join("a")
    story.records()
    story.join("a")
    story.beat("a")
    story.records()


@situation("a fenced member is still there, and joins again")
def fenced(story: Story) -> None:
    story.join("a")
    story.beat("a", 7)
    story.describe()
    story.beat("a", 1)
    story.join("a")
    story.records()


@situation("an empty group has an epoch that goes on")
def epoch_of_the_empty(story: Story) -> None:
    story.join("a")
    story.leave("a")
    story.describe()
    story.beat("a", 1)
    story.join("a")
    story.describe()
