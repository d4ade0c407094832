"""Subscriptions by regular expression."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import Story

RESOLVED = "ConsumerGroupRegularExpression"


@situation("an invalid regular expression: at join, later, and as RE2 does not have it")
def invalid(story: Story) -> None:
    for regex in ("(", "[", "*", "a{2000}", "(?=a)", "\\1", "(?<n>a)", "(?P<n>a)", "\\pN", "a++"):
        story.join("a", topics=None, regex=regex)
        story.leave("a")


@situation("an invalid regular expression of a member that is there")
def invalid_later(story: Story) -> None:
    story.join("a")
    story.beat("a", regex="(")
    story.beat("a")
    story.records()


@situation("a regular expression that matches nothing")
def nothing(story: Story) -> None:
    story.join("a", topics=None, regex="nothing-.*")
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()
    story.describe()


@situation("a regular expression that matches a part of a name")
def part(story: Story) -> None:
    story.join("a", topics=None, regex=f"{story.broker.prefix}-fo")
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()


@situation("a regular expression that matches a whole name")
def whole(story: Story) -> None:
    story.join("a", topics=None, regex=f"{story.broker.prefix}-fo+")
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()


@situation("a second regular expression in a group is resolved by a later heartbeat, and goes")
def changes(story: Story) -> None:
    story.join("a", topics=None, regex=f"{story.broker.prefix}-foo")
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()
    story.describe()
    story.beat("a", regex=f"{story.broker.prefix}-bar")
    story.beat("a", owned={})
    story.records()
    story.settle("a")
    story.records()
    story.beat("a", owned={"bar": [0, 1]})
    story.beat("a", regex="")
    story.beat("a", topics=["foo"], owned={})
    story.records()
    story.leave("a")
    story.records()


@situation("names and a regular expression together")
def both(story: Story) -> None:
    story.join("a", topics=["bar"], regex=f"{story.broker.prefix}-foo")
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()
    story.describe()
    story.leave("a")
    story.records()


@situation("two members with one regular expression: it is resolved once and stays until both have left")
def shared(story: Story) -> None:
    regex = f"{story.broker.prefix}-bar"
    story.join("a", topics=None, regex=regex)
    story.records(up_to=RESOLVED)
    story.beat("a")
    story.records()
    story.join("b", topics=None, regex=regex)
    story.beat("b")
    story.records()
    story.leave("a")
    story.records()
    story.leave("b")
    story.records()


@situation("version 0 knows no regular expressions")
def version_0(story: Story) -> None:
    story.join("a", topics=None, version=0)
    story.join("a", version=0)
