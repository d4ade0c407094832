"""Start offsets of share groups: described, altered and deleted."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.share_group import ShareGroup
from tests.compat.consumer_groups.story import Story

ALL = {"foo": [0, 1, 2]}


@situation("DescribeShareGroupOffsets of all topics, of some partitions, and in both versions")
def described(story: Story) -> None:
    group = ShareGroup(story)
    group.settled(["foo", "bar"])
    for version in (0, 1):
        group.offsets(version=version)
        group.offsets({"foo": [2, 0]}, version)
        group.offsets({}, version)
        group.offsets({"foo": []}, version)


@situation("DescribeShareGroupOffsets of unknown topics and partitions, and of those that the group does not read")
def described_unknown(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    group.offsets({"never": [0]})
    group.offsets({"foo": [0, 3]})
    group.offsets({"foo": [0, -1]})
    group.offsets({"bar": [0, 1]})
    group.offsets({"never": [0], "foo": [1], "bar": [0]})


@situation("DescribeShareGroupOffsets of a group that there is not, of an empty id, and of none")
def described_no_group(story: Story) -> None:
    group = ShareGroup(story)
    group.offsets()
    group.offsets({"foo": [0]})
    for groups in ([{"group_id": "", "topics": None}], []):
        story.ask("DescribeShareGroupOffsets", 1, groups=groups)


@situation("DescribeShareGroupOffsets of a consumer group and of a classic one")
def described_others(story: Story) -> None:
    group = ShareGroup(story)
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    group.offsets()
    group.offsets({"foo": [0]})
    member.leave()
    story.join("b")
    group.offsets()
    group.offsets({"foo": [0]})


@situation("AlterShareGroupOffsets while the share group has members")
def altered_with_members(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    group.alter({"foo": {0: 5}})
    story.records()
    group.offsets()


@situation("AlterShareGroupOffsets of an empty share group, of some partitions and again")
def altered(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    story.records()
    group.alter({"foo": {0: 5, 2: 0}})
    story.records()
    group.offsets(version=0)
    group.alter({"foo": {0: 7}})
    story.records()
    group.offsets(version=0)
    group.join()
    story.records()


@situation("AlterShareGroupOffsets of topics that the share group did not read, unknown ones, and unknown partitions")
def altered_unknown(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    story.records()
    group.alter({"bar": {0: 1}})
    story.records()
    group.alter({"never": {0: 1}})
    group.alter({"foo": {3: 1}})
    group.alter({"never": {0: 1, 1: 2}, "foo": {0: 3, 7: 4}})
    story.records()
    group.alter({})
    group.offsets(version=0)


@situation("AlterShareGroupOffsets of a group that there is not makes one")
def altered_no_group(story: Story) -> None:
    group = ShareGroup(story)
    group.alter({"foo": {0: 3}})
    story.records()
    group.describe()
    group.list_it()
    group.offsets(version=0)
    group.settled()
    story.records()


@situation("AlterShareGroupOffsets and DeleteShareGroupOffsets without a group id, and of a consumer group")
def odd_groups(story: Story) -> None:
    group = ShareGroup(story)
    story.ask("AlterShareGroupOffsets", 0, group_id="", topics=[])
    story.ask("DeleteShareGroupOffsets", 0, group_id="", topics=[])
    story.join("b")
    group.alter({"foo": {0: 3}})
    group.delete_offsets("foo")
    story.leave("b")
    group.alter({"foo": {0: 3}})
    group.delete_offsets("foo")
    story.records()


@situation("DeleteShareGroupOffsets while the share group has members, and of a group that there is not")
def deleted_with_members(story: Story) -> None:
    group = ShareGroup(story)
    group.delete_offsets("foo")
    group.settled()
    story.records()
    group.delete_offsets("foo")
    story.records()


@situation("DeleteShareGroupOffsets of an empty share group: one of its topics, again, and unknown ones")
def deleted(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied(["foo", "bar"])
    story.records()
    group.delete_offsets("foo")
    story.records()
    group.offsets()
    group.delete_offsets("foo")
    group.delete_offsets("never")
    group.delete_offsets("bar", "never", "foo")
    group.delete_offsets()
    story.records()
    group.offsets()


@situation("offsets of a share group are deleted, and it is joined again")
def deleted_and_joined(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    group.delete_offsets("foo")
    story.records()
    group.settled()
    story.records()
    group.offsets()
