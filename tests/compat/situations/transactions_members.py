"""TxnOffsetCommit of members of a group and of fenced producers: those that may, and those that may not (KIP-447)."""

from typing import Any

from tests.compat.situations.members import Group, Member
from tests.compat.situations.producers import Producer, at, fetched, initialised, settled
from tests.compat.situations.registry import KRAFT, situation
from tests.compat.situations.wire import Broker


def _begun(broker: Broker, group: Group, name: str) -> Producer:
    producer = initialised(broker, name)
    added = producer.add_offsets(group.id)
    assert added["error_code"] == 0, added
    return producer


def _of(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance,
        "generation_id": member.generation,
    }


def _with_a_fenced_one(broker: Broker, name: str) -> Any:
    """A fenced producer sends an offset of a partition of which its successor has sent one."""
    topic = broker.create_led(name)
    with Group(broker, name) as group:
        producer = initialised(broker, name)
        former = producer.identity()
        producer.init()
        producer.add_offsets(group.id)
        sent = producer.commit_offsets(group.id, {topic: [at(7)]})
        late = producer.commit_offsets(group.id, {topic: [at(3)]}, **former)
        still_open = fetched(group, topic, stable=True)
        return [sent, late, still_open, producer.commit(), settled(group, topic)]


@situation("TxnOffsetCommit of a fenced producer while its successor's offset is not committed yet")
def of_a_fenced_one(broker: Broker) -> Any:
    return _with_a_fenced_one(broker, "txn-fenced-offset")


@situation("TxnOffsetCommit of a fenced producer beside its successor's, to the newest Apache Kafka", judge=KRAFT)
def of_a_fenced_one_newest(broker: Broker) -> Any:
    return _with_a_fenced_one(broker, "txn-fenced-offset-newest")


@situation("TxnOffsetCommit v3 and v4 of a member with its generation")
def of_a_member(broker: Broker) -> Any:
    topic = broker.create("txn-member")
    with Group(broker, "txn-member") as group:
        group.settle(member := group.member())
        producer = _begun(broker, group, "txn-member")
        answers = [
            producer.commit_offsets(group.id, {topic: [at(version)]}, version, **_of(member)) for version in (3, 4)
        ]
        return [
            answers,
            fetched(group, topic, stable=True),
            producer.commit(),
            settled(group, topic),
            member.heartbeat(),
        ]


@situation("TxnOffsetCommit of an unknown member, of another generation, and of half an identity")
def wrong_member(broker: Broker) -> Any:
    topic = broker.create("txn-wrong-member")
    with Group(broker, "txn-wrong-member") as group:
        group.settle(member := group.member())
        producer = _begun(broker, group, "txn-wrong-member")
        asked: dict[str, Any] = {
            "unknown member": {"member_id": "x"},
            "unknown member without a generation": {"member_id": "x", "generation_id": -1},
            "generation 0": {"generation_id": 0},
            "generation 2": {"generation_id": 2},
            "no generation": {"generation_id": -1},
            "no member": {"member_id": ""},
            "an instance that it has not": {"group_instance_id": "i"},
        }
        seen = {
            f"{name} v{version}": producer.commit_offsets(
                group.id, {topic: [at(5)]}, version, **{**_of(member), **changes}
            )
            for name, changes in asked.items()
            for version in (3, 4)
        }
        return [seen, fetched(group, topic, stable=True), producer.commit()]


@situation("TxnOffsetCommit without a member while the group has members, v0 to v4")
def without_a_member(broker: Broker) -> Any:
    topic = broker.create("txn-no-member")
    with Group(broker, "txn-no-member") as group:
        group.settle(group.member())
        producer = _begun(broker, group, "txn-no-member")
        answers = [producer.commit_offsets(group.id, {topic: [at(version)]}, version) for version in range(5)]
        return [answers, producer.commit(), settled(group, topic), group.state()]


@situation("TxnOffsetCommit with a member and a generation of a group that does not exist")
def no_group(broker: Broker) -> Any:
    topic = broker.create("txn-no-group")
    with Group(broker, "txn-no-group") as group:
        producer = _begun(broker, group, "txn-no-group")
        asked: dict[str, Any] = {
            "member": {"member_id": "x"},
            "generation": {"generation_id": 3},
            "both": {"member_id": "x", "generation_id": 3},
            "instance": {"group_instance_id": "i"},
        }
        seen = {name: producer.commit_offsets(group.id, {topic: [at(5)]}, **changes) for name, changes in asked.items()}
        return [seen, group.state(), producer.commit()]


@situation("TxnOffsetCommit of a member that left, and of one of the generation before")
def former_members(broker: Broker) -> Any:
    topic = broker.create("txn-former")
    with Group(broker, "txn-former") as group:
        first, second = group.member(b"a"), group.member(b"b")
        group.settle(first, second)
        producer = _begun(broker, group, "txn-former")
        second.leave()
        before = _of(first)
        seen = {
            "left": producer.commit_offsets(group.id, {topic: [at(5)]}, **_of(second)),
            "while it rebalances": producer.commit_offsets(group.id, {topic: [at(6)]}, **before),
        }
        group.settle(first)
        seen["the generation before"] = producer.commit_offsets(group.id, {topic: [at(7)]}, **before)
        seen["the present one"] = producer.commit_offsets(group.id, {topic: [at(8)]}, **_of(first))
        return [seen, producer.commit(), settled(group, topic)]


@situation("TxnOffsetCommit in every state of a group")
def every_state(broker: Broker) -> Any:
    topic = broker.create("txn-states")
    with Group(broker, "txn-states") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        producer = _begun(broker, group, "txn-states")

        def ask(member: Member, offset: int) -> Any:
            return producer.commit_offsets(group.id, {topic: [at(offset)]}, **_of(member))

        group.gather(leader, second)
        seen = {"CompletingRebalance": [ask(leader, 1), ask(second, 2)]}
        leader.sync({leader: b"0", second: b"1"})
        second.sync()
        seen["Stable"] = [ask(second, 3)]
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        seen["PreparingRebalance"] = [ask(second, 4)]
        second.leave()
        leader.receive()
        leader.leave()
        seen["Empty"] = [ask(leader, 5), producer.commit_offsets(group.id, {topic: [at(6)]})]
        return [seen, producer.commit(), settled(group, topic)]


@situation("TxnOffsetCommit of a static member, and of the one that took its place")
def static_members(broker: Broker) -> Any:
    topic = broker.create("txn-static")
    with Group(broker, "txn-static") as group:
        first = group.member(instance="one")
        group.settle(first)
        producer = _begun(broker, group, "txn-static")
        old = _of(first)
        seen = {"its own": producer.commit_offsets(group.id, {topic: [at(5)]}, **old)}
        second = group.member(instance="one")
        group.settle(second)
        seen |= {
            "replaced": producer.commit_offsets(group.id, {topic: [at(6)]}, **old),
            "replaced, without its instance": producer.commit_offsets(
                group.id, {topic: [at(6)]}, **{**old, "group_instance_id": None}
            ),
            "an unknown instance": producer.commit_offsets(
                group.id, {topic: [at(6)]}, **{**_of(second), "group_instance_id": "two"}
            ),
            "the new one": producer.commit_offsets(group.id, {topic: [at(7)]}, **_of(second)),
        }
        return [seen, producer.commit(), settled(group, topic)]


@situation("TxnOffsetCommit of a group whose members are not consumers")
def other_type(broker: Broker) -> Any:
    topic = broker.create("txn-type")
    with Group(broker, "txn-type") as group:
        member = group.member(b"x", protocol_type="connect")
        group.gather(member)
        member.sync({member: b"0"}, protocol_type="connect")
        producer = _begun(broker, group, "txn-type")
        answers = [
            producer.commit_offsets(group.id, {topic: [at(5)]}, **_of(member)),
            producer.commit_offsets(group.id, {topic: [at(6)]}),
        ]
        return [answers, producer.commit(), settled(group, topic)]
