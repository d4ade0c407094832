"""Commits and their epochs (KIP-848, KIP-1251), offsets that are read and deleted."""

from typing import Any

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE, LEAVE_FOR_A_WHILE, Story

ALL = {"foo": [0, 1, 2]}


def _commit(story: Story, member: str, epoch: int, version: int = 9, partitions: Any = (0,), **fields: Any) -> Any:
    rows = [{"partition_index": index, "committed_offset": 5} for index in partitions]
    topic = {"topic_id": story.ids["foo"]} if version >= 10 else {"name": story.full("foo")}
    ends = {"group_id": story.group, "member_id": member, "generation_id_or_member_epoch": epoch}
    return story.ask("OffsetCommit", version, **ends, topics=[{**topic, "partitions": rows}], **fields)


def _fetch(story: Story, member: str | None, epoch: int, version: int = 9, topics: Any = None) -> Any:
    group = {"group_id": story.group, "member_id": member, "member_epoch": epoch, "topics": topics}
    if version < 9:
        group = {"group_id": story.group, "topics": topics}
    return story.ask("OffsetFetch", version, groups=[group])


@situation("a commit with the member's epoch, an older one, a newer one, and none")
def epochs(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    story.records()
    for epoch in (story.epochs["a"], story.epochs["a"] - 1, story.epochs["a"] + 1, 0, -1, -2, -3):
        _commit(story, "a", epoch)
    story.records()


@situation("a commit in every version")
def versions(story: Story) -> None:
    story.join("a")
    for version in range(2, 11):
        _commit(story, "a", story.epochs["a"], version)
    story.records()


@situation("commits of unknown members, and of none")
def unknown(story: Story) -> None:
    _commit(story, "x", 1)
    _commit(story, "", 1)
    story.join("a")
    _commit(story, "x", story.epochs["a"])
    _commit(story, "", story.epochs["a"])
    _commit(story, "", -1)
    _commit(story, "x", -1)
    story.leave("a")
    _commit(story, "a", 2)
    _commit(story, "", -1)
    story.records()


@situation("a commit with an older epoch of a partition that was assigned before and after it (KIP-1251)")
def assignment_epochs(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    first = story.epochs["a"]
    story.join("b")
    story.beat("a", owned=ALL)
    _commit(story, "a", first, partitions=(0, 1, 2))
    story.beat("a", owned={"foo": [0, 1]})
    story.beat("b")
    second = story.epochs["a"]
    for epoch in (first - 1, first, second, second + 1):
        for partition in range(3):
            _commit(story, "a", epoch, partitions=(partition,))
            _commit(story, "b", epoch, partitions=(partition,))
    story.leave("b")
    story.beat("a")
    for epoch in (first, second, story.epochs["a"]):
        _commit(story, "a", epoch, partitions=(0, 1, 2))
    story.records()


@situation("a commit with an older epoch of partitions that were never the member's")
def never_assigned(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    first = story.epochs["a"]
    story.beat("a", topics=["foo", "bar"])
    rows = [{"partition_index": index, "committed_offset": 5} for index in (0, 1, 7)]
    topics = [{"name": story.full(name), "partitions": rows} for name in ("foo", "bar", "nowhere")]
    for epoch in (first, story.epochs["a"]):
        story.ask(
            "OffsetCommit",
            9,
            group_id=story.group,
            member_id="a",
            generation_id_or_member_epoch=epoch,
            topics=topics,
        )
    story.records()


@situation("a commit while the member revokes: what it keeps and what it gives away")
def while_revoking(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    story.join("b")
    story.beat("a", owned=ALL)
    _commit(story, "a", story.epochs["a"], partitions=(0, 1, 2))
    _commit(story, "a", story.epochs["a"] - 1, partitions=(2,))
    _commit(story, "b", story.epochs["b"], partitions=(2,))
    story.records()


@situation("a commit by topic ids: known, unknown, zero, and twice")
def topic_ids(story: Story) -> None:
    story.join("a")
    rows = [{"partition_index": 0, "committed_offset": 5}]
    ids = [story.ids["foo"], b"\5" * 16, bytes(16), story.ids["foo"]]
    ends = {"group_id": story.group, "member_id": "a", "generation_id_or_member_epoch": story.epochs["a"]}
    story.ask("OffsetCommit", 10, **ends, topics=[{"topic_id": topic_id, "partitions": rows} for topic_id in ids])
    topics = [{"topic_id": topic_id, "partition_indexes": [0, 9]} for topic_id in ids[:3]]
    _fetch(story, "a", story.epochs["a"], 10, topics)
    _fetch(story, "a", story.epochs["a"], 10)


@situation("a commit of a static member, with its instance id, another one, and as it is away")
def static(story: Story) -> None:
    story.join("a", instance_id="i")
    epoch = story.epochs["a"]
    _commit(story, "a", epoch, group_instance_id="i")
    _commit(story, "a", epoch, group_instance_id="j")
    _commit(story, "a", epoch)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    _commit(story, "a", epoch, group_instance_id="i")
    _commit(story, "a", -2, group_instance_id="i")
    story.join("b", instance_id="i")
    _commit(story, "a", epoch, group_instance_id="i")
    _commit(story, "b", story.epochs["b"], group_instance_id="i")


@situation("a fetch with the member's epoch, an older one, a newer one, none, and of unknown members")
def fetches(story: Story) -> None:
    _fetch(story, "a", 2)
    _fetch(story, None, -1)
    story.join("a")
    _commit(story, "a", story.epochs["a"], partitions=(0, 1))
    topics = [{"name": story.full("foo"), "partition_indexes": [0, 2]}]
    for epoch in (story.epochs["a"], 1, 0, 3, -1, -2):
        _fetch(story, "a", epoch, topics=topics)
    for member in ("x", "", None):
        for epoch in (story.epochs["a"], -1, 0):
            _fetch(story, member, epoch, topics=topics)
    _fetch(story, "a", story.epochs["a"])
    _fetch(story, None, -1, 8, topics)
    story.leave("a")
    _fetch(story, "a", LEAVE)
    _fetch(story, "a", 2)
    _fetch(story, None, -1)


@situation("commits and fetches of a classic member of a mixed group")
def mixed(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    _commit(story, member.member_id, member.generation, 8)
    story.join("b")
    for version in (8, 9):
        for generation in (member.generation, member.generation + 1, member.generation - 1, 9):
            _commit(story, member.member_id, generation, version, partitions=(0, 2))
    _fetch(story, member.member_id, member.generation)
    _fetch(story, member.member_id, 9)
    member.join()
    member.sync()
    _commit(story, member.member_id, member.generation, 8, partitions=(0, 2))
    _commit(story, member.member_id, member.generation - 1, 9, partitions=(0, 2))
    story.records()


@situation("a consumer group is deleted: with members, static ones away, and none")
def delete(story: Story) -> None:
    story.join("a", instance_id="i")
    _commit(story, "a", story.epochs["a"])
    story.ask("DeleteGroups", 2, groups_names=[story.group])
    story.ask("DeleteGroups", 3, groups_names=[story.group])
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.ask("DeleteGroups", 3, groups_names=[story.group])
    story.leave("a", instance_id="i")
    story.records()
    story.ask("DeleteGroups", 3, groups_names=[story.group])
    story.records()
    story.ask("DeleteGroups", 3, groups_names=[story.group])
    story.beat("a", 1)
    story.describe()


@situation("offsets of a consumer group are deleted: of a subscribed topic, of another one")
def offset_delete(story: Story) -> None:
    story.join("a", ["foo"])
    rows = [{"partition_index": 0, "committed_offset": 5}]
    topics = [{"name": story.full(name), "partitions": rows} for name in ("foo", "bar")]
    ends = {"group_id": story.group, "member_id": "a", "generation_id_or_member_epoch": story.epochs["a"]}
    story.ask("OffsetCommit", 9, **ends, topics=topics)
    partitions = [{"partition_index": 0}, {"partition_index": 9}]
    deleted = [{"name": story.full(name), "partitions": partitions} for name in ("foo", "bar", "nowhere")]
    story.records()
    story.ask("OffsetDelete", 0, group_id=story.group, topics=deleted)
    story.records()
    story.leave("a")
    story.ask("OffsetDelete", 0, group_id=story.group, topics=deleted)
    story.records()


@situation("offsets of a group that subscribes by regular expression are deleted")
def offset_delete_regex(story: Story) -> None:
    story.join("a", topics=None, regex=f"{story.broker.prefix}-foo")
    story.records(up_to="ConsumerGroupRegularExpression")
    story.beat("a")
    _commit(story, "a", story.epochs["a"])
    deleted = [{"name": story.full("foo"), "partitions": [{"partition_index": 0}]}]
    story.ask("OffsetDelete", 0, group_id=story.group, topics=deleted)
