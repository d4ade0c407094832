"""Share groups described, listed and deleted, and what else is asked of them by requests for other groups."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.share_group import ShareGroup
from tests.compat.consumer_groups.story import JOIN, LEAVE, Story

ALL = {"foo": [0, 1, 2]}


@situation("ShareGroupDescribe of nothing, of an empty id, of a blank one, of one twice, and of none")
def described(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    nothing = story.broker.name("nothing")
    for groups in ([nothing], [""], [" "], [], [story.group, nothing], [story.group, story.group]):
        story.ask("ShareGroupDescribe", 1, group_ids=groups)


@situation("ShareGroupDescribe of a consumer group and of a classic one")
def described_others(story: Story) -> None:
    group = ShareGroup(story)
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    group.describe()
    member.leave()
    group.describe()
    story.join("b")
    group.describe()
    story.leave("b")
    group.describe()


@situation("ShareGroupDescribe with the operations that are allowed, of a group of two members and of an empty one")
def described_members(story: Story) -> None:
    story.count_partitions()
    group = ShareGroup(story)
    group.settled(rack_id="r")
    group.join("b")
    group.describe(include_authorized_operations=True)
    group.beat("a")
    group.describe(include_authorized_operations=True)
    group.leave("a")
    group.leave("b")
    group.describe(include_authorized_operations=True)


@situation("ShareGroupDescribe of members whose topic is not there")
def described_unknown_topic(story: Story) -> None:
    group = ShareGroup(story)
    story.announce("never")
    group.join(topics=["never"])
    group.describe()


@situation("a stable share group in ListGroups, by every version, state and type")
def listed(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    for version in range(6):
        group.list_it(version)
    for state in ("Stable", "stable", "Empty", "Reconciling", "Dead", "Nonsense"):
        group.list_it(states_filter=[state])
    for kinds in (["share"], ["Share"], ["consumer"], ["classic"], ["nonsense"], ["share", "classic"]):
        group.list_it(types_filter=kinds)
    group.list_it(states_filter=["Stable"], types_filter=["share"])
    group.list_it(states_filter=["Empty"], types_filter=["share"])


@situation("an empty share group in ListGroups")
def listed_empty(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    group.list_it()
    group.list_it(states_filter=["Empty"], types_filter=["share"])
    group.list_it(states_filter=["Stable"])


@situation("DeleteGroups of a share group with members, without them, and of one that is gone")
def delete(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    group.delete()
    story.records()
    group.leave()
    story.records()
    group.delete()
    story.records()
    group.delete()
    group.describe()
    group.list_it()
    group.offsets()


@situation("a share group is deleted that never had an assignment")
def delete_unassigned(story: Story) -> None:
    group = ShareGroup(story)
    story.announce("never")
    group.join(topics=["never"])
    group.leave()
    group.delete()
    story.records()


@situation("a share group is deleted, and joined again")
def delete_and_join(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    group.delete()
    story.records()
    group.settled()
    story.records()


@situation("DeleteGroups of a share group beside one that there is not, and twice in one request")
def delete_several(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    story.records()
    story.ask("DeleteGroups", 2, groups_names=[story.broker.name("nothing"), story.group])
    story.records()


@situation("OffsetCommit, OffsetFetch and OffsetDelete of a share group")
def committed(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    topics = [{"name": story.full("foo"), "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    for member, epoch in (("", -1), ("a", group.epochs["a"]), ("x", 1)):
        ends = {"member_id": member, "generation_id_or_member_epoch": epoch}
        for version in (8, 9):
            story.ask("OffsetCommit", version, group_id=story.group, topics=topics, **ends)
    wanted = [{"name": story.full("foo"), "partition_indexes": [0]}]
    for version in (8, 9):
        story.ask("OffsetFetch", version, groups=[{"group_id": story.group, "topics": wanted}])
        story.ask("OffsetFetch", version, groups=[{"group_id": story.group, "topics": None}])
    rows = [{"name": story.full("foo"), "partitions": [{"partition_index": 0}]}]
    story.ask("OffsetDelete", 0, group_id=story.group, topics=rows)
    group.leave()
    story.ask("OffsetCommit", 9, group_id=story.group, topics=topics)
    story.ask("OffsetDelete", 0, group_id=story.group, topics=rows)
    story.records()


@situation("ConsumerGroupDescribe and DescribeGroups of a share group, with members and without")
def described_otherwise(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    for _ in range(2):
        story.describe(0)
        story.describe()
        for version in (0, 5, 6):
            story.ask("DescribeGroups", version, groups=[story.group])
        group.leave()


@situation("JoinGroup and the other requests of a classic member to a share group")
def classic(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    member = ClassicMember(story, "classic")
    member.join()
    member.member_id, member.generation = "a", group.epochs["a"]
    member.send_join()
    member.joined()
    member.sync()
    member.heartbeat()
    for version in (2, 5):
        row = {"member_id": "a"}
        fields = row if version == 2 else {"members": [row]}
        story.ask("LeaveGroup", version, group_id=story.group, **fields)
    story.records()
    group.describe()


@situation("JoinGroup and the other requests of a classic member to an empty share group")
def classic_to_empty(story: Story) -> None:
    group = ShareGroup(story)
    group.emptied()
    story.records()
    member = ClassicMember(story, "classic")
    member.join()
    member.member_id, member.generation = "a", 1
    member.sync()
    member.heartbeat()
    story.ask("LeaveGroup", 5, group_id=story.group, members=[{"member_id": "a"}])
    story.records()
    group.describe()


@situation("ConsumerGroupHeartbeat to a share group, with members and without")
def consumer_heartbeat(story: Story) -> None:
    group = ShareGroup(story)
    group.settled()
    story.records()
    for _ in range(2):
        story.join("b")
        for epoch in (1, LEAVE):
            story.beat("a", epoch)
        group.leave()
    story.beat("b", JOIN, topics=["foo"], owned={}, rebalance_ms=1_000)
    story.records()
    group.describe()
