"""Groups that change their protocol with members in them, both ways, and where that is not allowed."""

from collections.abc import Callable

from tests.compat.consumer_groups.classic import ClassicMember
from tests.compat.consumer_groups.registry import Play, situation
from tests.compat.consumer_groups.story import LEAVE_FOR_A_WHILE, Story

ALL = {"foo": [0, 1, 2]}


def _upgraded(story: Story, **fields: object) -> ClassicMember:
    """A classic member has all, and `b` joins with the new protocol."""
    member = ClassicMember(story, "classic", **fields)  # type: ignore[arg-type]
    member.stable_alone(ALL)
    story.records()
    story.join("b")
    story.records()
    return member


def upgraded(story: Story) -> None:
    member = _upgraded(story)
    story.describe()
    story.ask("DescribeGroups", 5, groups=[story.group])
    story.ask("DescribeGroups", 6, groups=[story.group])
    member.heartbeat()
    member.sync()
    member.join()
    story.records()
    member.heartbeat()
    member.sync()
    member.heartbeat()
    story.records()
    member.owned = {"foo": [0, 1]}
    member.join()
    member.sync()
    member.heartbeat()
    story.beat("b")
    story.records()
    story.describe()


def downgraded(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    member = ClassicMember(story, "classic")
    member.join()
    story.records()
    member.sync()
    member.heartbeat()
    story.describe()
    story.beat("a", owned=ALL)
    story.beat("a", owned={"foo": [0, 1]})
    member.heartbeat()
    member.join()
    member.sync()
    story.records()
    story.leave("a")
    story.records()
    story.describe()
    story.ask("DescribeGroups", 6, groups=[story.group])
    member.heartbeat()
    member.join()
    story.records()
    member.sync({member.member_id: ALL})
    story.records()


def _of_flavours(sentence: str, *flavours: str) -> Callable[[Play], Play]:
    """One situation under several policies of migration."""

    def register(play: Play) -> Play:
        for flavour in flavours:
            situation(f"{sentence} ({flavour or 'bidirectional'})", flavour=flavour)(play)
        return play

    return register


_of_flavours("a classic group is joined by a member of the new protocol", "", "disabled", "upgrade", "downgrade")(
    upgraded
)
_of_flavours("a consumer group is joined by a classic member, and the new one leaves", "", "upgrade", "downgrade")(
    downgraded
)


@situation("a consumer group is joined by a classic member (disabled)", flavour="disabled")
def refused(story: Story) -> None:
    story.join("a")
    member = ClassicMember(story, "classic")
    member.join()
    member.join(version=3)
    story.leave("a")
    member.join()
    story.records()


@situation("a classic group in the middle of a rebalance is joined by a member of the new protocol")
def while_joining(story: Story) -> None:
    story.count_partitions()
    first = ClassicMember(story, "first")
    first.stable_alone(ALL)
    second = ClassicMember(story, "second")
    second.send_join()
    second.joined()
    second.send_join()
    story.wait_for_classic_state("PreparingRebalance")
    first.heartbeat()
    story.join("b")
    second.joined()
    first.heartbeat()
    story.records()
    story.describe()


@situation("a classic group whose leader has not yet assigned is joined by a member of the new protocol")
def before_sync(story: Story) -> None:
    story.count_partitions()
    first = ClassicMember(story, "first")
    first.join()
    story.join("b")
    first.sync({first.member_id: ALL})
    first.heartbeat()
    story.records()
    story.describe()


@situation("the classic member of a mixed group leaves, by LeaveGroup")
def classic_leaves(story: Story) -> None:
    member = _upgraded(story)
    member.leave()
    story.records()
    story.beat("b")
    story.describe()


@situation("the new member of an upgraded group leaves before the classic one has joined again")
def new_leaves_first(story: Story) -> None:
    member = _upgraded(story)
    story.leave("b")
    story.records()
    member.heartbeat()
    story.ask("DescribeGroups", 6, groups=[story.group])
    story.describe()


@situation("two classic members of a mixed group rebalance one after the other")
def two_classic(story: Story) -> None:
    story.count_partitions()
    first, second = ClassicMember(story, "first"), ClassicMember(story, "second")
    first.stable_alone(ALL)
    second.send_join()
    second.joined()
    second.send_join()
    first.send_join()
    first.joined()
    second.joined()
    waiting = second.send_sync()
    first.sync({first.member_id: {"foo": [0, 1]}, second.member_id: {"foo": [2]}})
    waiting.answer()
    first.owned, second.owned = {"foo": [0, 1]}, {"foo": [2]}
    story.records()
    story.join("c")
    story.records()
    for member in (first, second):
        member.heartbeat()
        member.join()
        member.sync()
        member.heartbeat()
    story.records()
    story.describe()
    first.owned = {"foo": [0]}
    first.join()
    first.sync()
    story.beat("c")
    story.records()


@situation("a cooperative member of a mixed group revokes")
def cooperative(story: Story) -> None:
    member = _upgraded(story, protocols=("cooperative-sticky", "range"))
    member.owned = ALL
    member.heartbeat()
    member.join()
    member.sync()
    member.heartbeat()
    member.owned = {"foo": [0, 1]}
    member.join()
    member.sync()
    member.heartbeat()
    story.beat("b")
    story.records()


@situation("SyncGroup and Heartbeat of a classic member of a mixed group, with wrong fields")
def wrong_fields(story: Story) -> None:
    member = _upgraded(story)
    member.heartbeat(generation_id=7)
    member.heartbeat(generation_id=0)
    member.heartbeat(member_id="x")
    member.sync(generation_id=7)
    member.sync(protocol_name="roundrobin")
    member.sync(protocol_type="connect")
    member.join()
    member.sync(generation_id=0)
    member.sync(protocol_name="roundrobin")
    member.sync(protocol_type="connect")
    member.sync(protocol_type=None, protocol_name=None)
    story.beat(member.member_id, 2)
    story.join(member.member_id)
    story.records()


@situation("a static classic member is replaced by one of the new protocol")
def static_upgrade(story: Story) -> None:
    member = ClassicMember(story, "classic", group_instance_id="i")
    member.stable_alone(ALL)
    story.records()
    story.join("b", instance_id="i")
    story.records()
    story.describe()
    member.heartbeat()
    member.join()


@situation("a static member of the new protocol is replaced by a classic one, the last of them")
def static_downgrade(story: Story) -> None:
    story.join("a", instance_id="i")
    story.beat("a", owned=ALL)
    story.leave("a", LEAVE_FOR_A_WHILE, instance_id="i")
    story.records()
    member = ClassicMember(story, "classic", group_instance_id="i")
    member.join()
    story.records()
    member.sync()
    story.describe()
    story.ask("DescribeGroups", 6, groups=[story.group])


@situation("a classic group with an assignor's user data is joined by a member of the new protocol")
def user_data(story: Story) -> None:
    member = ClassicMember(story, "classic")
    member.join()
    rows = [{"topic": story.full("foo"), "partitions": [0, 1, 2]}]
    values = {"assigned_partitions": rows, "user_data": b"own"}
    assignment = b"\0\0" + story.broker.definitions.encode("ConsumerProtocolAssignment", 0, values)
    member.sync(assignments=[{"member_id": member.member_id, "assignment": assignment}])
    story.join("b")
    story.beat("b")
    member.heartbeat()
    story.describe()


@situation("a classic group that is as large as a consumer group may be is joined by a member of the new protocol")
def too_many(story: Story) -> None:
    story.count_partitions()
    members = [ClassicMember(story, f"m{number}") for number in range(4)]
    members[0].stable_alone(ALL)
    for member in members[1:]:
        member.send_join()
        member.joined()
    for member in members:
        member.send_join()
    for member in members:
        member.joined()
    waiting = [member.send_sync() for member in members[1:]]
    members[0].sync({members[0].member_id: ALL})
    for sent in waiting:
        sent.answer()
    story.records()
    story.join("b")
    story.records()
    story.describe()


@situation("subscriptions of every version of the embedded protocol are read")
def versions(story: Story) -> None:
    for version in range(4):
        member = ClassicMember(story, f"v{version}")
        member.version = version
        story.join("a")
        member.join()
        member.sync()
        story.records()
        member.leave()
        story.leave("a")
    story.records()


@situation("a static classic member of a mixed group: an instance id in use, fenced, and left by it")
def static_mixed(story: Story) -> None:
    story.join("a")
    story.join("s", instance_id="j")
    member = ClassicMember(story, "classic", group_instance_id="i")
    member.join()
    other = ClassicMember(story, "other", group_instance_id="j")
    other.join()
    again = ClassicMember(story, "again", group_instance_id="i")
    again.join()
    member.heartbeat()
    again.heartbeat()
    again.leave(member_id="")
    again.heartbeat()
    story.describe()


@situation("a classic member asks for an id in a consumer group, and joins with another")
def asked_ids(story: Story) -> None:
    story.join("a")
    member = ClassicMember(story, "classic")
    member.send_join()
    member.joined()
    story.describe()
    member.member_id = "own"
    member.join()
    member.sync()
    story.records()
    story.describe()


@situation("a classic member of a mixed group changes its topics and its protocols")
def changed_subscription(story: Story) -> None:
    member = _upgraded(story)
    member.join()
    member.sync()
    member.topics, member.owned = ("foo", "bar"), {"foo": [0, 1]}
    member.join()
    member.sync()
    member.heartbeat()
    story.records()
    member.protocols = ("roundrobin", "sticky")
    member.join()
    member.sync()
    story.records()
    story.describe()


@situation(
    "the last member of the new protocol is removed with its session, and the group is classic again", flavour="timed"
)
def downgraded_by_session(story: Story) -> None:
    story.join("a")
    story.beat("a", owned=ALL)
    member = ClassicMember(story, "classic")
    member.join()
    member.sync()
    story.records()
    story.records(up_to="GroupMetadata")
    story.ask("DescribeGroups", 6, groups=[story.group])
    member.heartbeat()
