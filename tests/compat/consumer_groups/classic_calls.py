"""The classic protocol before a consumer group, and the new one before a classic group."""

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import situation
from tests.compat.consumer_groups.story import LEAVE, Story

ALL = {"foo": [0, 1, 2]}


def _calls(story: Story, member_id: str, generation: int) -> None:
    """Every call of the classic protocol as this member of the group."""
    member = ClassicMember(story, "classic")
    member.member_id, member.generation = member_id, generation
    member.heartbeat()
    member.sync()
    member.leave()
    for version in (0, 3, 4):
        story.ask("Heartbeat", version, group_id=story.group, generation_id=generation, member_id=member_id)


@situation("Heartbeat, SyncGroup and LeaveGroup as a member that uses the new protocol")
def as_a_new_member(story: Story) -> None:
    story.join("a")
    story.join("b")
    _calls(story, "a", story.epochs["a"])
    story.beat("a")
    story.records()


@situation("Heartbeat, SyncGroup and LeaveGroup of unknown members of a consumer group")
def as_an_unknown_member(story: Story) -> None:
    story.join("a")
    _calls(story, "x", 2)
    _calls(story, "", -1)


@situation("LeaveGroup of several members of a consumer group at once, one of them static")
def leave_several(story: Story) -> None:
    story.join("a")
    story.join("s", instance_id="i")
    members = [
        {"member_id": "a"},
        {"member_id": "x"},
        {"member_id": "", "group_instance_id": "i"},
        {"member_id": "", "group_instance_id": "j"},
    ]
    story.ask("LeaveGroup", 5, group_id=story.group, members=members)
    story.ask("LeaveGroup", 2, group_id=story.group, member_id="a")
    story.records()
    story.describe()


@situation("JoinGroup with another protocol type, and without protocols, before a consumer group")
def inconsistent(story: Story) -> None:
    story.join("a")
    member = ClassicMember(story, "classic")
    member.join(protocol_type="connect")
    member.join(protocols=[])
    member.join(protocol_type="", protocols=[])
    member.join(protocols=[{"name": "range", "metadata": b"\0"}])
    member.join(protocols=[{"name": "range", "metadata": b""}])
    member.join(protocols=[{"name": "own", "metadata": member.subscription()}])
    story.records()
    story.describe()


@situation("JoinGroup with session timeouts out of bounds, and with unknown members, before a consumer group")
def odd_joins(story: Story) -> None:
    story.join("a")
    member = ClassicMember(story, "classic")
    member.join(session_timeout_ms=1)
    member.join(session_timeout_ms=2**31 - 1)
    member.join(member_id="x")
    member.join(member_id="a")
    member.join(version=2)
    story.records()


@situation("a heartbeat of the new protocol to a classic group that is empty")
def empty_classic(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    member.leave()
    story.records()
    story.join("a")
    story.records()
    story.describe()


@situation("a JoinGroup to a consumer group that is empty")
def empty_consumer(story: Story) -> None:
    story.join("a")
    story.leave("a")
    story.records()
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    story.records()
    story.ask("DescribeGroups", 6, groups=[story.group])
    story.describe()


@situation("heartbeats with epochs other than 0 to a classic group")
def epochs_to_classic(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.stable_alone(ALL)
    story.beat("a", 1)
    story.beat("a", LEAVE)
    story.beat(member.member_id, 1)
    story.beat(member.member_id, LEAVE)
    story.describe()


@situation("a heartbeat of the new protocol to a classic group of connectors")
def connectors(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.join(protocol_type="connect")
    member.sync({member.member_id: {}}, protocol_type="connect")
    story.join("a")
    story.beat("a", 1)
    story.describe()


@situation("a heartbeat of the new protocol to a group that only has offsets")
def offsets_only(story: Story) -> None:
    row = {"partition_index": 0, "committed_offset": 5}
    topics = [{"name": story.full("foo"), "partitions": [row]}]
    story.ask("OffsetCommit", 9, group_id=story.group, topics=topics)
    story.describe()
    story.beat("a", 1)
    story.join("a")
    story.records()
    story.leave("a")
    story.ask("OffsetFetch", 9, groups=[{"group_id": story.group, "topics": None}])
