"""Static members (KIP-345): known by their instance id, replaced and fenced."""

from typing import Any

from tests.compat.situations.members import SHORT_MS, Group, Member
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


@situation("a static member is let in at once, in v5 to v9")
def let_in(broker: Broker) -> Any:
    seen = {}
    for version in range(5, 10):
        with Group(broker, f"static-in-v{version}") as group:
            seen[version] = [group.member(instance="one").join(version), group.describe()]
    return seen


@situation("a static leader that returns to a Stable group, in v5 to v9")
def leader_back(broker: Broker) -> Any:
    seen = {}
    for version in range(5, 10):
        with Group(broker, f"static-leader-v{version}") as group:
            first = group.member(b"a", instance="one")
            group.settle(first, group.member(b"b", instance="two"))
            back = group.member(b"a", instance="one")
            seen[version] = [back.join(version), back.sync({back: b"new"}), group.state()]
    return seen


@situation("a static follower that returns to a Stable group causes no rebalance")
def follower_back(broker: Broker) -> Any:
    seen = {}
    for version in (5, 9):
        with Group(broker, f"static-follower-v{version}") as group:
            leader = group.member(b"a", instance="one")
            group.settle(leader, group.member(b"b", instance="two"))
            back = group.member(b"b", instance="two")
            seen[version] = [back.join(version), back.sync(), leader.heartbeat(), group.describe()]
    return seen


@situation("a static member that returns with other metadata for the same protocol")
def back_changed(broker: Broker) -> Any:
    with Group(broker, "static-changed") as group:
        leader = group.member(b"a", instance="one")
        group.settle(leader, group.member(b"b", instance="two"))
        back = group.member(b"c", instance="two")
        return {"back": back.join(), "leader": leader.heartbeat(), "described": group.describe()}


@situation("a static member whose protocols change the group's choice begins a rebalance")
def back_with_other_protocols(broker: Broker) -> Any:
    with Group(broker, "static-protocols") as group:
        both = {"range": b"r", "sticky": b"s"}
        leader = group.member(instance="one", protocols=both)
        group.settle(leader, group.member(instance="two", protocols=both))
        back = group.member(instance="two", protocols={"sticky": b"s"})
        back.send_join()
        group.wait_for_state("PreparingRebalance")
        return {"heartbeat": leader.heartbeat(), "leader": leader.join(), "back": back.receive()}


@situation("a static member that returns while the assignment is awaited")
def back_before_sync(broker: Broker) -> Any:
    with Group(broker, "static-before-sync") as group:
        leader = group.member(b"a", instance="one")
        group.gather(leader, group.member(b"b", instance="two"))
        back = group.member(b"b", instance="two")
        back.send_join()
        group.wait_for_state("PreparingRebalance")
        return {"heartbeat": leader.heartbeat(), "leader": leader.join(), "back": back.receive()}


def _everything(member: Member, topic: str) -> dict[str, Any]:
    return {
        "heartbeat": member.heartbeat(),
        "sync": member.sync(),
        "join": member.join(),
        "commit": member.commit(topic, 5),
        "leave": member.leave(),
    }


@situation("a static member that was replaced is fenced from everything")
def fenced(broker: Broker) -> Any:
    topic = broker.create("static-fenced")
    with Group(broker, "static-fenced") as group:
        old = group.member(b"a", instance="one")
        group.settle(old)
        new = group.member(b"a", instance="one")
        new.join()
        return _everything(old, topic) | {"the new one": new.heartbeat(), "state": group.state()}


@situation("a static member that was replaced while its JoinGroup waited")
def fenced_waiting(broker: Broker) -> Any:
    with Group(broker, "static-waiting") as group:
        group.settle(leader := group.member(b"a"))
        old = group.member(b"b", instance="two")
        old.send_join()
        group.wait_for_state("PreparingRebalance")
        new = group.member(b"b", instance="two")
        new.send_join()
        fenced_join = old.receive()
        return {"old": fenced_join, "leader": leader.join(), "new": new.receive()}


@situation("a static member that was replaced while its SyncGroup waited")
def fenced_syncing(broker: Broker) -> Any:
    with Group(broker, "static-syncing") as group:
        leader, old = group.member(b"a", instance="one"), group.member(b"b", instance="two")
        group.gather(leader, old)
        old.send_sync()
        new = group.member(b"b", instance="two")
        group.wait_until(lambda seen: len(seen["members"]) == 2)
        new.send_join()
        old_answer = old.receive()
        return {"old": old_answer, "leader": leader.join(), "new": new.receive()}


@situation("a static member's requests with an unknown instance id")
def unknown_instance(broker: Broker) -> Any:
    topic = broker.create("static-unknown")
    with Group(broker, "static-unknown") as group:
        member = group.member(b"a")
        group.settle(member)
        member.instance = "unknown"
        return _everything(member, topic)


@situation("a static member's requests without its instance id")
def without_instance(broker: Broker) -> Any:
    topic = broker.create("static-without")
    with Group(broker, "static-without") as group:
        member = group.member(b"a", instance="one")
        group.settle(member)
        member.instance = None
        return {
            "heartbeat": member.heartbeat(),
            "sync": member.sync(),
            "commit": member.commit(topic, 5),
            "leave": member.leave(),
            "state": group.state(),
        }


@situation("a static JoinGroup with a member id that is wrong")
def wrong_member_id(broker: Broker) -> Any:
    with Group(broker, "static-wrong-id") as group:
        one = group.member(b"a", instance="one")
        seen = {"no such group": one.join(member_id="x")}
        one.member_id = ""
        group.settle(one)
        return seen | {
            "not its id": group.member(b"a", instance="one").join(member_id="x"),
            "no such instance": group.member(b"b", instance="two").join(member_id="x"),
            "another's id": group.member(b"b", instance="two").join(member_id=one.member_id),
        }


@situation("JoinGroup with instance ids of every form")
def instance_ids(broker: Broker) -> Any:
    seen = {}
    for index, instance in enumerate(("", ".", "a" * 249, "a" * 250, "with space", "a/b")):
        with Group(broker, f"static-form{index}") as group:
            seen[instance[:10] + f" ({len(instance)})"] = group.member(instance=instance).join()
    return seen


@situation("LeaveGroup of static members by their instance ids")
def leave_by_instance(broker: Broker) -> Any:
    with Group(broker, "static-leave") as group:
        one, two = group.member(b"a", instance="one"), group.member(b"b", instance="two")
        group.settle(one, two)

        def leave(instance: str, member_id: str = "") -> Any:
            row = {"member_id": member_id, "group_instance_id": instance}
            return broker.ask("LeaveGroup", 5, group_id=group.id, members=[row])

        return {
            "with a wrong id": leave("two", "x"),
            "unknown": leave("three"),
            "by instance": leave("two"),
            "again": leave("two"),
            "heartbeat": one.heartbeat(),
            "by both": leave("one", one.member_id),
            "state": group.state(),
        }


@situation("a static member that left may rejoin as a new one")
def left_and_back(broker: Broker) -> Any:
    with Group(broker, "static-back") as group:
        one = group.member(b"a", instance="one")
        group.settle(one)
        one.leave()
        again = group.member(b"a", instance="one")
        return [one.heartbeat(), again.join(), group.describe()]


@situation("a static member that does not rejoin within the rebalance timeout keeps its place")
def keeps_its_place(broker: Broker) -> Any:
    with Group(broker, "static-place") as group:
        leader = group.member(b"a", rebalance_timeout_ms=SHORT_MS)
        absent = group.member(b"b", instance="two", rebalance_timeout_ms=SHORT_MS)
        group.settle(leader, absent)
        joined = leader.join()
        synced = leader.sync({leader: b"0", absent: b"1"})
        return {
            "joined": joined,
            "synced": synced,
            "absent": [absent.heartbeat(), absent.join(), absent.sync()],
            "described": group.describe(),
        }


@situation("a static member's session runs out like any other's")
def session_runs_out(broker: Broker) -> Any:
    with Group(broker, "static-expires") as group:
        leader = group.member(b"a")
        silent = group.member(b"b", instance="two", session_timeout_ms=SHORT_MS)
        group.settle(leader, silent)
        group.wait_for_state("PreparingRebalance")
        return {"joined": leader.join(), "silent": [silent.heartbeat(), silent.join()]}
