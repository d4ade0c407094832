"""Groups of both kinds, listed and described."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE_FOR_A_WHILE, Story

ALL = {"foo": [0, 1, 2]}


def _list(story: Story, version: int = 5, **filters: list[str]) -> None:
    """Only the group of this situation is noted."""
    answer = story.broker.ask("ListGroups", version, **filters)
    answer["groups"] = [row for row in answer["groups"] if row["group_id"] == story.group]
    story.note_exchange("ListGroups", version, filters, answer)


def _all_ways(story: Story) -> None:
    for version in range(6):
        _list(story, version)
    for states in (
        ["Stable"],
        ["stable"],
        ["Empty"],
        ["Reconciling"],
        ["Assigning"],
        ["Nonsense"],
        ["Empty", "Stable"],
    ):
        _list(story, states_filter=states)
    for types in (["consumer"], ["classic"], ["Consumer"], ["share"], ["nonsense"], ["consumer", "classic"]):
        _list(story, types_filter=types)
    _list(story, states_filter=["Stable"], types_filter=["consumer"])


@situation("a stable consumer group in ListGroups, by every version, state and type")
def listed(story: Story) -> None:
    story.join("a")
    _all_ways(story)


@situation("an empty consumer group in ListGroups")
def listed_empty(story: Story) -> None:
    story.join("a")
    story.leave("a")
    _list(story)
    _list(story, states_filter=["Empty"])
    _list(story, 4, states_filter=["Empty"])


@situation("a reconciling consumer group in ListGroups, and a mixed one")
def listed_reconciling(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    _list(story)
    _list(story, types_filter=["classic"])
    story.join("b")
    _list(story)
    _list(story, states_filter=["Reconciling"])
    _list(story, states_filter=["reconciling"], types_filter=["CONSUMER"])


@situation("a consumer group in DescribeGroups of every version")
def described(story: Story) -> None:
    story.join("a", instance_id="i")
    for version in range(7):
        story.ask("DescribeGroups", version, groups=[story.group])
    story.ask("DescribeGroups", 6, groups=[story.group, story.broker.name("nothing"), ""])
    story.ask("DescribeGroups", 5, groups=[story.group, story.broker.name("nothing"), ""])


@situation("ConsumerGroupDescribe of nothing, of a classic group, of an empty id, of one twice, and of none")
def described_others(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    for version in (0, 1):
        for groups in ([story.broker.name("nothing")], [story.group], [""], [" "], []):
            story.ask("ConsumerGroupDescribe", version, group_ids=groups)
    story.join("b")
    story.ask("ConsumerGroupDescribe", 1, group_ids=[story.group, story.group])


@situation("ConsumerGroupDescribe with the operations that are allowed")
def operations(story: Story) -> None:
    story.join("a", rack_id="r", instance_id="i", server_assignor="range")
    for version in (0, 1):
        story.ask("ConsumerGroupDescribe", version, group_ids=[story.group], include_authorized_operations=True)


@situation("ConsumerGroupDescribe of a group whose static member is away, and of members in every state")
def states(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.join("b")
    story.describe()
    story.beat("a", owned=ALL)
    story.describe()
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.describe()
    story.beat("b")
    story.describe()


@situation("ConsumerGroupDescribe of a group whose topic is gone")
def gone(story: Story) -> None:
    story.topic("gone", 2)
    story.join("a", ["gone"])
    story.describe()
    story.delete_topic("gone")
    story.describe_until(lambda members: not members[0]["assignment"]["topic_partitions"])
