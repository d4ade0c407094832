"""OffsetFetch and OffsetDelete: reading what was committed, and forgetting it."""

import struct
from typing import Any

from tests.compat.situations.members import Group
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


def _commit(broker: Broker, group: Group, topic: str, *partitions: int, offset: int = 5, epoch: int = -1) -> None:
    rows = [
        {
            "partition_index": partition,
            "committed_offset": offset + partition,
            "committed_metadata": "note",
            "committed_leader_epoch": epoch,
        }
        for partition in partitions
    ]
    answer = broker.ask("OffsetCommit", 9, group_id=group.id, topics=[{"name": topic, "partitions": rows}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer


def _sorted(answer: Any) -> Any:
    """Topics and partitions in order; where all are asked for, a broker may begin with any."""
    for group in answer.get("groups", [answer]):
        for topic in group["topics"]:
            topic["partitions"].sort(key=lambda partition: partition["partition_index"])
        group["topics"].sort(key=lambda topic: topic["name"])
    return answer


def _fetch(broker: Broker, group_id: str, topics: Any, version: int, **fields: Any) -> Any:
    """One group's offsets in any version."""
    if version >= 8:
        fields["groups"] = [{"group_id": group_id, "topics": topics}]
    else:
        fields |= {"group_id": group_id, "topics": topics}
    answer = broker.ask("OffsetFetch", version, **fields)
    return answer if isinstance(answer, str) else _sorted(answer)


@situation("OffsetFetch v1 to v9 of offsets that are there and that are not")
def every_version(broker: Broker) -> Any:
    topic = broker.create("fetched-versions", partitions=3)
    with Group(broker, "fetched-versions") as group:
        _commit(broker, group, topic, 0, 2, epoch=0)
        asked = [
            {"name": topic, "partition_indexes": [0, 1, 2, 9]},
            {"name": broker.name("fetched-nowhere"), "partition_indexes": [0]},
        ]
        return {version: _fetch(broker, group.id, asked, version) for version in range(1, 10)}


@situation("OffsetFetch of all topics, v2 to v9")
def all_topics(broker: Broker) -> Any:
    one, two = broker.create("fetched-one", partitions=2), broker.create("fetched-two")
    with Group(broker, "fetched-all") as group:
        _commit(broker, group, one, 0, 1)
        _commit(broker, group, two, 0)
        return {version: _fetch(broker, group.id, None, version) for version in range(2, 10)}


@situation("OffsetFetch of an unknown group and of an empty group id")
def unknown_group(broker: Broker) -> Any:
    topic = broker.create("fetched-unknown")
    with Group(broker, "fetched-unknown") as group:
        asked = [{"name": topic, "partition_indexes": [0]}]
        return {
            f"{name} v{version}": [_fetch(broker, group_id, asked, version), _fetch(broker, group_id, [], version)]
            for name, group_id in (("unknown", group.id), ("empty", ""))
            for version in (1, 2, 7, 8, 9)
        } | {"all of an unknown one": _fetch(broker, group.id, None, 8)}


@situation("OffsetFetch of several groups at once")
def several_groups(broker: Broker) -> Any:
    topic = broker.create("fetched-several")
    with Group(broker, "fetched-first") as first, Group(broker, "fetched-second") as second:
        _commit(broker, first, topic, 0)
        _commit(broker, second, topic, 0, offset=9)
        asked = [{"name": topic, "partition_indexes": [0]}]
        rows = [
            {"group_id": first.id, "topics": asked},
            {"group_id": broker.name("fetched-third"), "topics": asked},
            {"group_id": second.id, "topics": None},
        ]
        answers = [broker.ask("OffsetFetch", version, groups=rows) for version in (8, 9)]
        for answer in answers:
            answer["groups"].sort(key=lambda row: row["group_id"])
        return answers


@situation("OffsetFetch of one group and of one partition named twice")
def twice(broker: Broker) -> Any:
    topic = broker.create("fetched-twice")
    with Group(broker, "fetched-twice") as group:
        _commit(broker, group, topic, 0)
        row = {"group_id": group.id, "topics": [{"name": topic, "partition_indexes": [0]}]}
        return {
            "group": broker.ask("OffsetFetch", 8, groups=[row, row]),
            "partition": _fetch(broker, group.id, [{"name": topic, "partition_indexes": [0, 0]}], 5),
        }


@situation("OffsetFetch that requires stable offsets")
def require_stable(broker: Broker) -> Any:
    topic = broker.create("fetched-stable")
    with Group(broker, "fetched-stable") as group:
        _commit(broker, group, topic, 0)
        asked = [{"name": topic, "partition_indexes": [0, 1]}]
        return {version: _fetch(broker, group.id, asked, version, require_stable=True) for version in (7, 8, 9)}


@situation("OffsetFetch v9 with a member id and epoch of the newer protocol")
def member_epochs(broker: Broker) -> Any:
    topic = broker.create("fetched-epochs")
    with Group(broker, "fetched-epochs") as group:
        _commit(broker, group, topic, 0)
        group.settle(member := group.member())
        asked = [{"name": topic, "partition_indexes": [0]}]
        return {
            f"{name} {epoch}": broker.ask(
                "OffsetFetch",
                9,
                groups=[{"group_id": group.id, "topics": asked, "member_id": member_id, "member_epoch": epoch}],
            )
            for name, member_id in (("none", None), ("its own", member.member_id), ("unknown", "x"))
            for epoch in (-1, 1, 7)
        }


@situation("OffsetFetch after the topic was deleted")
def deleted_topic(broker: Broker) -> Any:
    topic = broker.create("fetched-deleted")
    with Group(broker, "fetched-deleted") as group:
        _commit(broker, group, topic, 0)
        broker.ask("DeleteTopics", 4, topic_names=[topic], timeout_ms=10_000)
        left = until(lambda: group.committed(topic), lambda row: row["committed_offset"] == -1)
        return [left, _fetch(broker, group.id, None, 8)]


def _forget(broker: Broker, group_id: str, rows: dict[str, list[int]]) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in rows.items()
    ]
    return _sorted(broker.ask("OffsetDelete", 0, group_id=group_id, topics=topics))


@situation("OffsetDelete of offsets of an Empty group, known and unknown")
def forget(broker: Broker) -> Any:
    topic = broker.create("forget", partitions=3)
    with Group(broker, "forget") as group:
        _commit(broker, group, topic, 0, 1)
        rows = {topic: [0, 2, 9, -1], broker.name("forget-nowhere"): [0]}
        answer = _forget(broker, group.id, rows)
        return {"answer": answer, "left": _fetch(broker, group.id, None, 8), "again": _forget(broker, group.id, rows)}


@situation("OffsetDelete of a group's last offset")
def forget_last(broker: Broker) -> Any:
    topic = broker.create("forget-last")
    with Group(broker, "forget-last") as group:
        _commit(broker, group, topic, 0)
        before = group.state()
        return [before, _forget(broker, group.id, {topic: [0]}), _fetch(broker, group.id, None, 8)]


@situation("OffsetDelete of an unknown group, of an empty group id, and of nothing")
def forget_wrong(broker: Broker) -> Any:
    topic = broker.create("forget-wrong")
    with Group(broker, "forget-wrong") as group:
        seen = {"unknown": _forget(broker, group.id, {topic: [0]}), "empty id": _forget(broker, "", {topic: [0]})}
        _commit(broker, group, topic, 0)
        return seen | {
            "no topics": _forget(broker, group.id, {}),
            "no partitions": _forget(broker, group.id, {topic: []}),
            "left": group.committed(topic),
        }


def _subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0: the topics it wants, and no user data."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


@situation("OffsetDelete of a topic that the group subscribes to, and of one that it does not")
def forget_subscribed(broker: Broker) -> Any:
    used, unused = broker.create("forget-used"), broker.create("forget-unused")
    with Group(broker, "forget-subscribed") as group:
        _commit(broker, group, used, 0)
        _commit(broker, group, unused, 0)
        member = group.member(_subscription(used))
        group.settle(member)
        seen = {"both": _forget(broker, group.id, {used: [0], unused: [0]}), "left": _fetch(broker, group.id, None, 8)}
        member.leave()
        return seen | {"unknown group": _forget(broker, group.id, {used: [0]}), "in the end": group.committed(used)}


@situation("OffsetDelete while the group rebalances, and with metadata that cannot be decoded")
def forget_unreadable(broker: Broker) -> Any:
    topic = broker.create("forget-unreadable")
    with Group(broker, "forget-unreadable") as group:
        _commit(broker, group, topic, 0)
        group.gather(member := group.member(b"x"))
        seen = {"CompletingRebalance": _forget(broker, group.id, {topic: [0]})}
        member.sync({member: b"0"})
        return seen | {"Stable": _forget(broker, group.id, {topic: [0]}), "left": group.committed(topic)}


@situation("OffsetDelete in a group that is not one of consumers")
def forget_other_type(broker: Broker) -> Any:
    topic = broker.create("forget-type")
    with Group(broker, "forget-type") as group:
        _commit(broker, group, topic, 0)
        member = group.member(b"x", protocol_type="connect")
        group.gather(member)
        seen = {"CompletingRebalance": _forget(broker, group.id, {topic: [0]})}
        member.sync({member: b"0"}, protocol_type="connect")
        return seen | {"Stable": _forget(broker, group.id, {topic: [0]})}
