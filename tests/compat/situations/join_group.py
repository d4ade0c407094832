"""JoinGroup: admission, the leader, and the selected protocol."""

from typing import Any

from tests.compat.situations.members import LONG_MS, SHORT_MS, Group
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


@situation("JoinGroup v0 to v3 without a member id is let in at once")
def old_versions(broker: Broker) -> Any:
    seen = {}
    for version in range(4):
        with Group(broker, f"join-old-v{version}") as group:
            seen[version] = group.member().join(version)
    return seen


@situation("JoinGroup v4 to v9 without a member id is given one and has to come again")
def new_versions(broker: Broker) -> Any:
    seen = {}
    for version in range(4, 10):
        with Group(broker, f"join-new-v{version}") as group:
            member = group.member()
            seen[version] = [member.join(version), group.state(), member.join(version), group.state()]
    return seen


@situation("JoinGroup with a member id that the group never gave")
def unknown_member(broker: Broker) -> Any:
    with Group(broker, "join-unknown") as group:
        seen: dict[str, Any] = {
            f"no group v{version}": group.member().join(version, member_id="x") for version in (0, 3, 4, 9)
        }
        group.settle(group.member())
        seen |= {f"group v{version}": group.member().join(version, member_id="x") for version in (0, 3, 4, 9)}
        return seen


@situation("JoinGroup of a member of another protocol type")
def other_type(broker: Broker) -> Any:
    with Group(broker, "join-type") as group:
        first = group.member()
        group.settle(first)
        stranger = group.member(protocol_type="connect")
        return [stranger.join(version) for version in (0, 4, 7, 9)] + [first.heartbeat()]


@situation("JoinGroup of a member without a protocol in common")
def no_common_protocol(broker: Broker) -> Any:
    with Group(broker, "join-protocols") as group:
        first = group.member(protocols={"range": b"r", "sticky": b"s"})
        group.settle(first)
        stranger = group.member(protocols={"roundrobin": b"x"})
        return [stranger.join(version) for version in (0, 4, 9)] + [first.heartbeat()]


@situation("JoinGroup with no protocols, and with an empty protocol type")
def nothing_offered(broker: Broker) -> Any:
    with Group(broker, "join-nothing") as group:
        return {
            f"{name} v{version}": group.member(**fields).join(version)
            for name, fields in (
                ("no protocols", {"protocols": {}}),
                ("no type", {"protocol_type": ""}),
            )
            for version in (0, 4, 9)
        }


@situation("JoinGroup with session timeouts at and beyond the limits")
def session_timeouts(broker: Broker) -> Any:
    seen = {}
    for timeout_ms in (-1, 0, 99, 100, 1_800_000, 1_800_001):
        with Group(broker, f"join-timeout{timeout_ms}") as group:
            seen[timeout_ms] = [group.member(session_timeout_ms=timeout_ms).join(version) for version in (4, 9)]
    return seen


@situation("JoinGroup with an empty group id")
def empty_group_id(broker: Broker) -> Any:
    with Group(broker, "join-empty-id") as group:
        seen: dict[Any, Any] = {version: group.member().join(version, group_id="") for version in range(10)}
        return seen | {"with a member id": group.member().join(group_id="", member_id="x")}


@situation("JoinGroup: the first member leads, and only its response lists the members")
def first_leads(broker: Broker) -> Any:
    with Group(broker, "join-leader") as group:
        members = [group.member(b"a"), group.member(b"b"), group.member(b"c")]
        answers = group.gather(*members)
        return {"answers": answers, "described": group.describe()}


@situation("JoinGroup chooses the protocol that most members like best")
def votes(broker: Broker) -> Any:
    with Group(broker, "join-votes") as group:
        members = [
            group.member(protocols={"range": b"1r", "sticky": b"1s"}),
            group.member(protocols={"sticky": b"2s", "range": b"2r"}),
            group.member(protocols={"sticky": b"3s", "range": b"3r", "own": b"3o"}),
        ]
        return group.gather(*members)


@situation("JoinGroup chooses a protocol that every member supports")
def supported_by_all(broker: Broker) -> Any:
    with Group(broker, "join-supported") as group:
        members = [
            group.member(protocols={"range": b"1r", "own": b"1o", "sticky": b"1s"}),
            group.member(protocols={"range": b"2r", "sticky": b"2s"}),
            group.member(protocols={"sticky": b"3s"}),
        ]
        return group.gather(*members)


@situation("JoinGroup of another protocol type into a group that has become empty")
def other_type_when_empty(broker: Broker) -> Any:
    with Group(broker, "join-type-empty") as group:
        first = group.member()
        group.settle(first)
        first.leave()
        newcomer = group.member(protocol_type="connect", protocols={"other": b"o"})
        return {"joined": newcomer.enter(), "described": group.describe()}


@situation("JoinGroup again of a follower that changes nothing gets its generation back")
def follower_again(broker: Broker) -> Any:
    with Group(broker, "join-again-follower") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.settle(leader, follower)
        again = [follower.join(version) for version in (4, 5, 7, 9)]
        return {"again": again, "leader": leader.heartbeat(), "state": group.state()}


@situation("JoinGroup again of a follower with other metadata begins a rebalance")
def follower_changed(broker: Broker) -> Any:
    with Group(broker, "join-changed") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.settle(leader, follower)
        follower.protocols = {"range": b"c"}
        follower.send_join()
        group.wait_for_state("PreparingRebalance")
        reported = leader.heartbeat()
        return {"heartbeat of the leader": reported, "leader": leader.join(), "follower": follower.receive()}


@situation("JoinGroup again of the leader begins a rebalance though it changes nothing")
def leader_again(broker: Broker) -> Any:
    with Group(broker, "join-again-leader") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.settle(leader, follower)
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        return {"heartbeat": follower.heartbeat(), "follower": follower.join(), "leader": leader.receive()}


@situation("JoinGroup again while the leader's assignment is awaited")
def again_before_sync(broker: Broker) -> Any:
    with Group(broker, "join-before-sync") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.gather(leader, follower)
        seen: dict[str, Any] = {"follower": follower.join(), "leader": leader.join(), "state": group.state()}
        follower.protocols = {"range": b"c"}
        follower.send_join()
        group.wait_for_state("PreparingRebalance")
        return seen | {"leader after a change": leader.join(), "changed follower": follower.receive()}


@situation("JoinGroup of a member that went on to another connection")
def other_connection(broker: Broker) -> Any:
    with Group(broker, "join-connection") as group:
        member = group.member()
        group.settle(member)
        second = group.member()
        second.member_id = member.member_id
        member.close()
        return [second.join(), second.sync({second: b"x"}), second.heartbeat()]


@situation("JoinGroup into a group that is full")
def full(broker: Broker) -> Any:
    with Group(broker, "join-full") as group:
        members = [group.member(b"%d" % index) for index in range(4)]
        group.settle(*members)
        late = {version: group.member(b"late").join(version) for version in (3, 4, 9)}
        return {"late": late, "those inside": [member.heartbeat() for member in members]}


@situation("JoinGroup gives out more member ids than the group has room for")
def full_of_ids(broker: Broker) -> Any:
    with Group(broker, "join-full-ids") as group:
        group.settle(group.member())
        asked = [group.member(b"%d" % index).join() for index in range(5)]
        return [answer["error_code"] for answer in asked]


@situation("a member that does not rejoin within the rebalance timeout is left out")
def rebalance_timeout(broker: Broker) -> Any:
    with Group(broker, "join-rebalance-timeout") as group:
        leader, follower = (
            group.member(b"a", rebalance_timeout_ms=SHORT_MS),
            group.member(b"b", rebalance_timeout_ms=SHORT_MS),
        )
        group.settle(leader, follower)
        rejoined = leader.join()
        return {"rejoined": rejoined, "left out": follower.heartbeat(), "its join": follower.join()}


@situation("the leader that does not rejoin within the rebalance timeout is followed by another")
def leader_timeout(broker: Broker) -> Any:
    with Group(broker, "join-leader-timeout") as group:
        leader, follower = (
            group.member(b"a", rebalance_timeout_ms=SHORT_MS),
            group.member(b"b", rebalance_timeout_ms=SHORT_MS),
        )
        group.settle(leader, follower)
        follower.protocols = {"range": b"c"}
        return {"leads now": follower.join(), "left out": leader.heartbeat(), "state": group.state()}


@situation("a member id that is not used within the session timeout is forgotten")
def forgotten_id(broker: Broker) -> Any:
    with Group(broker, "join-forgotten") as group:
        group.settle(member := group.member(b"a"))
        stranger = group.member(b"b", session_timeout_ms=SHORT_MS)
        stranger.ask_for_id()
        # The rebalance waits for the stranger, whose id has to run out first.
        rejoined = member.join()
        return {"rejoined": rejoined, "too late": stranger.join(session_timeout_ms=LONG_MS)}


@situation("a member that leaves while others wait for it in a rebalance")
def leaves_meanwhile(broker: Broker) -> Any:
    with Group(broker, "join-leaves") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.settle(leader, follower)
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        return {"leaves": follower.leave(), "alone": leader.receive()}
