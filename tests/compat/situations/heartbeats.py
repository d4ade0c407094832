"""Heartbeat and LeaveGroup: staying in a group, and going."""

from typing import Any

from tests.compat.situations.members import SHORT_MS, Group
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


@situation("Heartbeat v0 to v4 of a member of a Stable group")
def every_version(broker: Broker) -> Any:
    with Group(broker, "heartbeat-versions") as group:
        member = group.member()
        group.settle(member)
        return {version: member.heartbeat(version) for version in range(5)}


@situation("Heartbeat of an unknown member, of another generation, and in an unknown group")
def wrong(broker: Broker) -> Any:
    with Group(broker, "heartbeat-wrong") as group:
        member = group.member()
        seen: dict[str, Any] = {"no such group": member.heartbeat(member_id="x", generation_id=1)}
        group.settle(member)
        for version in (0, 4):
            seen |= {
                f"unknown member v{version}": member.heartbeat(version, member_id="x"),
                f"no member v{version}": member.heartbeat(version, member_id=""),
                f"generation 0 v{version}": member.heartbeat(version, generation_id=0),
                f"generation 2 v{version}": member.heartbeat(version, generation_id=2),
                f"generation -1 v{version}": member.heartbeat(version, generation_id=-1),
                f"unknown member of another generation v{version}": member.heartbeat(
                    version, member_id="x", generation_id=7
                ),
                f"empty group id v{version}": member.heartbeat(version, group_id=""),
            }
        return seen


@situation("Heartbeat in every state of a group")
def every_state(broker: Broker) -> Any:
    with Group(broker, "heartbeat-states") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.gather(leader, second)
        seen = {"CompletingRebalance": [leader.heartbeat(), second.heartbeat(), second.heartbeat(generation_id=1)]}
        leader.sync({leader: b"0", second: b"1"})
        second.sync()
        seen["Stable"] = [leader.heartbeat(), second.heartbeat()]
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        seen["PreparingRebalance"] = [second.heartbeat(), second.heartbeat(generation_id=1)]
        second.leave()
        leader.receive()
        leader.leave()
        seen["Empty"] = [leader.heartbeat(), leader.heartbeat(member_id="")]
        return seen


@situation("Heartbeat with a member id that was given out but not used")
def pending_member(broker: Broker) -> Any:
    with Group(broker, "heartbeat-pending") as group:
        member = group.member().ask_for_id()
        return [member.heartbeat(), member.heartbeat(generation_id=0), member.sync(), group.describe()]


@situation("a member that falls silent for its session timeout is put out")
def session_expires(broker: Broker) -> Any:
    with Group(broker, "heartbeat-expires") as group:
        leader, silent = group.member(b"a"), group.member(b"b", session_timeout_ms=SHORT_MS)
        group.settle(leader, silent)
        group.wait_for_state("PreparingRebalance")
        return {
            "heartbeat": leader.heartbeat(),
            "rejoined": leader.join(),
            "silent": [silent.heartbeat(), silent.sync(), silent.join(), silent.leave()],
        }


@situation("the last member's session runs out and leaves an Empty group")
def last_session_expires(broker: Broker) -> Any:
    with Group(broker, "heartbeat-last") as group:
        member = group.member(session_timeout_ms=SHORT_MS)
        group.settle(member)
        group.wait_for_state("Empty")
        return [group.describe(), member.heartbeat()]


@situation("LeaveGroup v0 to v5 of a member that is alone")
def leave_versions(broker: Broker) -> Any:
    seen = {}
    for version in range(6):
        with Group(broker, f"leave-v{version}") as group:
            member = group.member()
            group.settle(member)
            seen[version] = [member.leave(version), group.describe(), member.leave(version)]
    return seen


@situation("LeaveGroup of unknown members and in an unknown group")
def leave_wrong(broker: Broker) -> Any:
    with Group(broker, "leave-wrong") as group:
        stranger = group.member()
        stranger.member_id = "x"
        seen: dict[str, Any] = {f"no such group v{version}": stranger.leave(version) for version in (0, 2, 3, 5)}
        group.settle(group.member())
        seen |= {f"unknown v{version}": stranger.leave(version) for version in (0, 2, 3, 5)}
        stranger.member_id = ""
        seen |= {f"no id v{version}": stranger.leave(version) for version in (0, 2, 3, 5)}
        for version in (0, 3, 5):
            fields: dict[str, Any] = {"members": [{"member_id": "x"}]} if version >= 3 else {"member_id": "x"}
            seen[f"empty group id v{version}"] = broker.ask("LeaveGroup", version, group_id="", **fields)
        return seen | {"state": group.state()}


@situation("LeaveGroup of several members at once, some of them unknown or named twice")
def leave_batch(broker: Broker) -> Any:
    with Group(broker, "leave-batch") as group:
        first, second, static = group.member(b"a"), group.member(b"b"), group.member(b"c", instance="three")
        group.settle(first, second, static)
        rows = [
            {"member_id": second.member_id, "reason": "because"},
            {"member_id": "x"},
            {"member_id": "", "group_instance_id": "three"},
            {"member_id": second.member_id},
        ]
        answer = broker.ask("LeaveGroup", 5, group_id=group.id, members=rows)
        return {"answer": answer, "heartbeat": first.heartbeat(), "rejoined": first.join()}


@situation("LeaveGroup without members")
def leave_without_members(broker: Broker) -> Any:
    with Group(broker, "leave-none") as group:
        seen = {"no such group": broker.ask("LeaveGroup", 5, group_id=broker.name("leave-nowhere"), members=[])}
        group.settle(group.member())
        return seen | {"group": broker.ask("LeaveGroup", 5, group_id=group.id, members=[]), "state": group.state()}


@situation("LeaveGroup with a member id that was given out but not used")
def leave_pending(broker: Broker) -> Any:
    with Group(broker, "leave-pending") as group:
        group.settle(leader := group.member(b"a"))
        pending = group.member(b"b").ask_for_id()
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        return {"left": pending.leave(), "leader": leader.receive(), "its join": pending.join()}


@situation("LeaveGroup of the leader makes the next member lead")
def leader_leaves(broker: Broker) -> Any:
    with Group(broker, "leave-leader") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.settle(leader, second)
        return [leader.leave(), second.heartbeat(), second.join(), second.sync({second: b"all"}), group.describe()]
