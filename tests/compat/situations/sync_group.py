"""SyncGroup: the leader's assignment on its way to the members."""

from typing import Any

from tests.compat.situations.members import SHORT_MS, Group
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


@situation("SyncGroup v0 to v5 of a leader that is alone")
def every_version(broker: Broker) -> Any:
    seen = {}
    for version in range(6):
        with Group(broker, f"sync-v{version}") as group:
            member = group.member()
            group.gather(member)
            seen[version] = [member.sync({member: b"mine"}, version), group.describe()]
    return seen


@situation("SyncGroup of followers waits for the leader's, and hands each its own")
def followers_wait(broker: Broker) -> Any:
    with Group(broker, "sync-wait") as group:
        leader, second, third = group.member(b"a"), group.member(b"b"), group.member(b"c")
        group.gather(leader, second, third)
        second.send_sync()
        third.send_sync(version=3)
        answer = leader.sync({leader: b"0", second: b"1", third: b"2"})
        return [answer, second.receive(), third.receive(), group.describe()]


@situation("SyncGroup of a member without an assignment, and for an unknown member")
def left_out(broker: Broker) -> Any:
    with Group(broker, "sync-left-out") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.gather(leader, second)
        stranger = group.member()
        stranger.member_id = "stranger"
        return [leader.sync({leader: b"0", stranger: b"9"}), second.sync(), group.describe()]


@situation("SyncGroup of a leader that assigns nothing at all")
def no_assignment(broker: Broker) -> Any:
    with Group(broker, "sync-nothing") as group:
        member = group.member()
        group.gather(member)
        return [member.sync(), group.describe()]


@situation("SyncGroup of a follower that brings an assignment is not heeded")
def followers_assignment(broker: Broker) -> Any:
    with Group(broker, "sync-follower") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.gather(leader, second)
        second.send_sync({leader: b"bad", second: b"bad"})
        return [group.state(), leader.sync({leader: b"0", second: b"1"}), second.receive()]


@situation("SyncGroup in a Stable group gives the assignment again")
def again(broker: Broker) -> Any:
    with Group(broker, "sync-again") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.settle(leader, second)
        return [second.sync(), leader.sync({leader: b"other", second: b"other"}), second.sync(), group.state()]


@situation("SyncGroup of an unknown member, of another generation, and in an unknown group")
def wrong(broker: Broker) -> Any:
    with Group(broker, "sync-wrong") as group:
        member = group.member()
        seen: dict[str, Any] = {"no such group": member.sync(member_id="x", generation_id=1)}
        group.gather(member)
        for version in (0, 5):
            seen |= {
                f"unknown member v{version}": member.sync(version=version, member_id="x"),
                f"no member v{version}": member.sync(version=version, member_id=""),
                f"generation 0 v{version}": member.sync(version=version, generation_id=0),
                f"generation 9 v{version}": member.sync(version=version, generation_id=9),
                f"generation -1 v{version}": member.sync(version=version, generation_id=-1),
                f"empty group id v{version}": member.sync(version=version, group_id=""),
            }
        return seen | {"state": group.state()}


@situation("SyncGroup v5 with another protocol name or type, or none")
def wrong_protocol(broker: Broker) -> Any:
    with Group(broker, "sync-protocol") as group:
        member = group.member()
        group.gather(member)
        return {
            "name": member.sync(protocol_name="sticky"),
            "type": member.sync(protocol_type="connect"),
            "no name": member.sync(protocol_name=None),
            "no type": member.sync(protocol_type=None),
            "neither": member.sync(protocol_name=None, protocol_type=None),
            "v4 has no room for them": member.sync(version=4, protocol_name="sticky"),
        }


@situation("SyncGroup during a rebalance")
def during_rebalance(broker: Broker) -> Any:
    with Group(broker, "sync-rebalance") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.settle(leader, second)
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        seen = {"sync": second.sync(), "sync of an old generation": second.sync(generation_id=1)}
        return seen | {"join": second.join(), "leader": leader.receive()}


@situation("a pending SyncGroup ends with a rebalance when a member joins")
def rebalanced_while_waiting(broker: Broker) -> Any:
    with Group(broker, "sync-rebalanced") as group:
        leader, second, third = group.member(b"a"), group.member(b"b"), group.member(b"c")
        group.gather(leader, second)
        second.send_sync()
        third.ask_for_id().send_join()
        waited = second.receive()
        second.send_join()
        return {"waited": waited, "leader": leader.join(), "joined": second.receive(), "third": third.receive()}


@situation("a pending SyncGroup ends with a rebalance when the leader leaves")
def leader_leaves(broker: Broker) -> Any:
    with Group(broker, "sync-leader-leaves") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.gather(leader, second)
        second.send_sync()
        left = leader.leave()
        waited = second.receive()
        return {"left": left, "waited": waited, "leads now": second.join()}


@situation("a leader that brings no assignment within the rebalance timeout is put out")
def leader_silent(broker: Broker) -> Any:
    with Group(broker, "sync-leader-silent") as group:
        leader, second = (
            group.member(b"a", rebalance_timeout_ms=SHORT_MS),
            group.member(b"b", rebalance_timeout_ms=SHORT_MS),
        )
        group.gather(leader, second)
        second.send_sync()
        waited = second.receive()
        return {"waited": waited, "leads now": second.join(), "the silent one": leader.heartbeat()}


@situation("a follower that does not sync within the rebalance timeout is put out")
def follower_silent(broker: Broker) -> Any:
    with Group(broker, "sync-follower-silent") as group:
        leader, second = (
            group.member(b"a", rebalance_timeout_ms=SHORT_MS),
            group.member(b"b", rebalance_timeout_ms=SHORT_MS),
        )
        group.gather(leader, second)
        synced = leader.sync({leader: b"0", second: b"1"})
        group.wait_for_state("PreparingRebalance")
        return {"synced": synced, "leader": leader.join(), "the silent one": second.heartbeat()}


@situation("SyncGroup of an assignment of a hundred kilobytes")
def large_assignment(broker: Broker) -> Any:
    with Group(broker, "sync-large") as group:
        member = group.member()
        group.gather(member)
        answer = member.sync({member: bytes(100_000)})
        return {"error": answer["error_code"], "bytes": len(answer["assignment"]), "state": group.state()}
