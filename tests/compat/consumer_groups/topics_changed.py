"""Topics that are deleted, made again and grow while they are subscribed."""

from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import Story


@situation("a subscribed topic grows")
def grown(story: Story) -> None:
    story.topic("more", 1)
    story.join("a", ["more"])
    story.beat("a", owned={"more": [0]})
    story.records()
    story.grow("more", 3)
    story.wait_for_assignment("a")
    story.records()
    story.beat("a", owned={"more": [0, 1, 2]})
    story.records()


@situation("a subscribed topic is deleted")
def deleted(story: Story) -> None:
    story.topic("gone", 2)
    story.join("a", ["gone"])
    story.beat("a", owned={"gone": [0, 1]})
    story.records()
    story.delete_topic("gone")
    story.wait_for_assignment("a")
    story.records()
    story.beat("a", owned={"gone": [0, 1]})
    story.beat("a", owned={})
    story.beat("a")
    story.records()
    story.describe()


@situation("a subscribed topic is deleted and made again with another id")
def made_again(story: Story) -> None:
    story.topic("again", 2)
    story.join("a", ["again"])
    story.beat("a", owned={"again": [0, 1]})
    old = story.ids["again"]
    story.delete_topic("again")
    story.wait_for_assignment("a")
    story.beat("a", owned={})
    story.records()
    story.names.name_topic(old, "again-before")
    story.topic("again", 2)
    story.wait_for_assignment("a")
    story.records()
    story.ask(
        "ConsumerGroupHeartbeat",
        1,
        group_id=story.group,
        member_id="a",
        member_epoch=story.epochs["a"],
        topic_partitions=[{"topic_id": old, "partitions": [0]}],
    )


@situation("offsets of a deleted topic are deleted")
def offsets(story: Story) -> None:
    story.topic("gone", 1)
    story.join("a", ["gone", "foo"])
    row = {"partition_index": 0, "committed_offset": 5}
    topics = [{"name": story.full(name), "partitions": [row]} for name in ("gone", "foo")]
    ends = {"group_id": story.group, "member_id": "a", "generation_id_or_member_epoch": story.epochs["a"]}
    story.ask("OffsetCommit", 9, **ends, topics=topics)
    story.records()
    story.delete_topic("gone")
    story.wait_for_assignment("a")
    story.ask("OffsetFetch", 9, groups=[{"group_id": story.group, "topics": None, "member_epoch": -1}])
    story.records()


@situation("a topic that matches a regular expression comes later", flavour="timed")
def regex(story: Story) -> None:
    story.announce("matched")
    story.join("a", topics=None, regex=story.full("matched"))
    story.records(up_to="ConsumerGroupRegularExpression")
    story.topic("matched", 2)
    story.wait_for_assignment("a")
    story.records()


@situation("a topic grows while a member revokes")
def grows_while_revoking(story: Story) -> None:
    story.topic("more", 2)
    story.join("a", ["more"])
    story.beat("a", owned={"more": [0, 1]})
    story.join("b", ["more"])
    story.beat("a", owned={"more": [0, 1]})
    story.records()
    story.grow("more", 4)
    story.settle("b")
    story.records()
    story.beat("a", owned={"more": [0, 1]})
    story.beat("a", owned={"more": [0]})
    story.beat("b")
    story.records()
