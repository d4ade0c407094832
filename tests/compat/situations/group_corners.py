"""Groups where several rules meet: waiting and timeouts, lost connections, odd names, odd timeouts."""

import time
from typing import Any

from tests.compat.situations.members import LONG_MS, SHORT_MS, Group, Member
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

UNKNOWN_MEMBER_ID = 25


def _simple_commit(broker: Broker, group: Group, topic: str, **fields: Any) -> Any:
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [row]}]
    return broker.ask("OffsetCommit", 9, group_id=group.id, topics=topics, **fields)


@situation("a member that waits in a JoinGroup outlives its session timeout")
def waiting_in_join(broker: Broker) -> Any:
    with Group(broker, "corner-join") as group:
        leader = group.member(b"a", rebalance_timeout_ms=3 * SHORT_MS)
        follower = group.member(b"b", session_timeout_ms=SHORT_MS, rebalance_timeout_ms=3 * SHORT_MS)
        group.settle(leader, follower)
        follower.protocols = {"range": b"c"}
        # The leader does not come, and the rebalance lasts longer than the follower's session.
        return {"joined": follower.join(), "leader": leader.heartbeat()}


@situation("a member that waits in a SyncGroup outlives its session timeout")
def waiting_in_sync(broker: Broker) -> Any:
    with Group(broker, "corner-sync") as group:
        leader, follower = group.member(b"a"), group.member(b"b", session_timeout_ms=SHORT_MS)
        group.gather(leader, follower)
        follower.send_sync()
        end = time.monotonic() + 2 * SHORT_MS / 1_000
        until(leader.heartbeat, lambda _: time.monotonic() > end)
        return {"leader": leader.sync({follower: b"1"}), "follower": follower.receive(), "state": group.state()}


@situation("a new member whose connection is lost while its JoinGroup waits takes part all the same")
def lost_connection(broker: Broker) -> Any:
    with Group(broker, "corner-lost") as group:
        leader, lost = group.member(b"a"), group.member(b"b")
        group.settle(leader)
        lost.ask_for_id().send_join()
        group.wait_for_state("PreparingRebalance")
        lost.close()
        return {"joined": leader.join(), "described": group.describe()}


def _two_of_version_0(broker: Broker, name: str, timeout_ms: int) -> tuple[Group, Member, Member]:
    """A member in a generation, and one whose JoinGroup waits for it."""
    group = Group(broker, name)
    first, second = (group.member(data, session_timeout_ms=timeout_ms) for data in (b"a", b"b"))
    first.join(0)
    first.sync({first: b"0"}, version=0)
    second.send_join(0)
    group.wait_for_state("PreparingRebalance")
    return group, first, second


@situation("JoinGroup v0 takes the session timeout for the rebalance timeout too, and is in time")
def old_rebalance_in_time(broker: Broker) -> Any:
    group, first, second = _two_of_version_0(broker, "corner-v0-in-time", LONG_MS)
    with group:
        end = time.monotonic() + SHORT_MS / 1_000
        reported = until(lambda: first.heartbeat(0), lambda _: time.monotonic() > end)
        return {"heartbeat": reported, "first": first.join(0), "second": second.receive()}


@situation("JoinGroup v0 takes the session timeout for the rebalance timeout too, and is too late")
def old_rebalance_too_late(broker: Broker) -> Any:
    group, first, second = _two_of_version_0(broker, "corner-v0-too-late", SHORT_MS)
    with group:
        reported = until(lambda: first.heartbeat(0), lambda seen: seen["error_code"] == UNKNOWN_MEMBER_ID)
        return {"heartbeat": reported, "second": second.receive()}


@situation("JoinGroup with a rebalance timeout of nothing and of less")
def odd_rebalance_timeouts(broker: Broker) -> Any:
    seen = {}
    for timeout_ms in (0, -1):
        with Group(broker, f"corner-rebalance{timeout_ms}") as group:
            first = group.member(b"a", rebalance_timeout_ms=timeout_ms)
            entered = first.enter()
            # Before it can bring its assignment, its time is up.
            group.wait_for_state("Empty")
            seen[timeout_ms] = [entered, first.sync({first: b"0"}), first.heartbeat()]
    return seen


@situation("groups with names of every form")
def group_names(broker: Broker) -> Any:
    topic = broker.create("corner-names")
    seen = {}
    for name in (" ", ".", "a" * 300, "new\nline", "späte", "a/b", "__consumer_offsets"):
        with Group(broker, f"corner-{name}") as group:
            joined = group.settle(group.member())
            seen[f"{name[:12]} ({len(name)})"] = [joined[0]["error_code"], group.describe()["group_state"]]
            seen[f"{name[:12]} ({len(name)}), its offsets"] = [
                _simple_commit(broker, group, topic)["topics"][0]["partitions"][0]["error_code"],
                group.committed(topic),
            ]
    return seen


@situation("SyncGroup with two assignments for one member")
def assigned_twice(broker: Broker) -> Any:
    with Group(broker, "corner-assigned-twice") as group:
        member = group.member()
        group.gather(member)
        rows = [{"member_id": member.member_id, "assignment": share} for share in (b"one", b"two")]
        member.send("SyncGroup", 5, **member.sync_fields(), assignments=rows)
        return member.receive()


@situation("OffsetCommit with parts of an identity in a group that is empty")
def half_identities(broker: Broker) -> Any:
    topic = broker.create("corner-half")
    parts: dict[str, dict[str, Any]] = {
        "an instance": {"group_instance_id": "one"},
        "a member": {"member_id": "x"},
        "a generation": {"generation_id_or_member_epoch": 1},
        "generation 0": {"generation_id_or_member_epoch": 0},
        "generation -2": {"generation_id_or_member_epoch": -2},
        "a member and a generation": {"member_id": "x", "generation_id_or_member_epoch": 1},
    }
    with Group(broker, "corner-half") as group:
        unknown = {
            f"{name}, no group": _simple_commit(broker, group, topic, **fields) for name, fields in parts.items()
        }
        _simple_commit(broker, group, topic)
        return unknown | {name: _simple_commit(broker, group, topic, **fields) for name, fields in parts.items()}


@situation("DeleteGroups during a rebalance, and of a group where ids were given out only")
def delete_in_motion(broker: Broker) -> Any:
    with Group(broker, "corner-delete") as group:
        pending = group.member().ask_for_id()
        seen: dict[str, Any] = {"ids only": broker.ask("DeleteGroups", 2, groups_names=[group.id])}
        seen["its join"] = pending.join()
        group.settle(group.member())
        group.member(b"b").ask_for_id().send_join()
        group.wait_for_state("PreparingRebalance")
        return seen | {"rebalancing": broker.ask("DeleteGroups", 2, groups_names=[group.id])}


@situation("a member may leave between JoinGroup and SyncGroup, and the group continues")
def leaves_before_sync(broker: Broker) -> Any:
    with Group(broker, "corner-leave") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.gather(leader, follower)
        return {
            "left": follower.leave(),
            "heartbeat": leader.heartbeat(),
            "sync of what is over": leader.sync({leader: b"0", follower: b"1"}),
            "rejoined": leader.join(),
        }


@situation("the same generation is joined by members of every protocol version")
def mixed_versions(broker: Broker) -> Any:
    with Group(broker, "corner-mixed") as group:
        first, second, third = group.member(b"a"), group.member(b"b"), group.member(b"c")
        first.enter(9)
        second.send_join(1)
        group.wait_until(lambda seen: len(seen["members"]) == 2)
        third.ask_for_id().send_join(4)
        group.wait_until(lambda seen: len(seen["members"]) == 3)
        first.send_join(6)
        joined = [member.receive() for member in (first, second, third)]
        second.send_sync(version=1)
        third.send_sync(version=3)
        synced = first.sync({first: b"0", second: b"1", third: b"2"}, version=4)
        return {"joined": joined, "synced": [synced, second.receive(), third.receive()]}


@situation("a group grows and shrinks by one generation each time")
def generations(broker: Broker) -> Any:
    with Group(broker, "corner-generations") as group:
        leader, follower = group.member(b"a"), group.member(b"b")
        group.settle(leader)
        follower.ask_for_id().send_join()
        group.wait_for_state("PreparingRebalance")
        grown = [leader.join()["generation_id"], follower.receive()["generation_id"]]
        leader.sync({leader: b"0", follower: b"1"})
        follower.sync()
        follower.leave()
        shrunk = leader.join()["generation_id"]
        leader.leave()
        again = group.member()
        return {"grown": grown, "shrunk": shrunk, "after it was empty": again.enter()["generation_id"]}
