"""OffsetCommit: by members, by clients without a group, and every way to be refused."""

import time
from typing import Any

from tests.compat.situations.definitions import Values
from tests.compat.situations.members import SHORT_MS, Group
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _commit(broker: Broker, group: Group, rows: dict[str, list[Values]], version: int = 9, **fields: Any) -> Any:
    """A commit of a client that is no member, unless the fields say otherwise."""
    topics = [{"name": name, "partitions": partitions} for name, partitions in rows.items()]
    return broker.ask("OffsetCommit", version, **{"group_id": group.id, "topics": topics, **fields})


def _at(offset: int, partition: int = 0, **fields: Any) -> Values:
    return {"partition_index": partition, "committed_offset": offset, "committed_metadata": "", **fields}


@situation("OffsetCommit v1 to v9 without a group and its fetch")
def simple(broker: Broker) -> Any:
    topic = broker.create("commit-simple")
    seen = {}
    for version in range(1, 10):
        with Group(broker, f"commit-simple-v{version}") as group:
            committed = _commit(broker, group, {topic: [_at(version + 10, committed_metadata=f"v{version}")]}, version)
            seen[version] = [committed, group.committed(topic), group.describe()]
    return seen


@situation("OffsetCommit v0 keeps offsets elsewhere than v1")
def version_0(broker: Broker) -> Any:
    topic = broker.create("commit-v0")
    with Group(broker, "commit-v0") as group:
        return {
            "committed": _commit(broker, group, {topic: [_at(7)]}, 0),
            "unknown topic": _commit(broker, group, {broker.name("commit-v0-nowhere"): [_at(7)]}, 0),
            "fetched by v0": broker.ask(
                "OffsetFetch", 0, group_id=group.id, topics=[{"name": topic, "partition_indexes": [0, 1]}]
            ),
            "fetched by v8": group.committed(topic),
        }


@situation("OffsetCommit v1 to v9 of a member")
def of_a_member(broker: Broker) -> Any:
    topic = broker.create("commit-member")
    with Group(broker, "commit-member") as group:
        member = group.member()
        group.settle(member)
        return {version: [member.commit(topic, version, version), group.committed(topic)] for version in range(1, 10)}


@situation("OffsetCommit of an unknown member and of another generation")
def wrong_member(broker: Broker) -> Any:
    topic = broker.create("commit-wrong")
    with Group(broker, "commit-wrong") as group:
        member = group.member()
        seen = {"no such group": member.commit(topic, 5, member_id="x", generation_id_or_member_epoch=3)}
        group.settle(member)
        for version in (1, 6, 9):
            seen |= {
                f"unknown member v{version}": member.commit(topic, 5, version, member_id="x"),
                f"generation 0 v{version}": member.commit(topic, 5, version, generation_id_or_member_epoch=0),
                f"generation 2 v{version}": member.commit(topic, 5, version, generation_id_or_member_epoch=2),
                f"no generation v{version}": member.commit(topic, 5, version, generation_id_or_member_epoch=-1),
                f"no member v{version}": member.commit(topic, 5, version, member_id=""),
            }
        return seen | {"committed": group.committed(topic)}


@situation("OffsetCommit without a group while the group has members")
def simple_into_a_group(broker: Broker) -> Any:
    topic = broker.create("commit-into")
    with Group(broker, "commit-into") as group:
        member = group.member()
        group.settle(member)
        seen = {"with members": _commit(broker, group, {topic: [_at(5)]})}
        member.leave()
        seen["empty"] = _commit(broker, group, {topic: [_at(6)]})
        return seen | {"committed": group.committed(topic), "described": group.describe()}


@situation("OffsetCommit in every state of a group")
def every_state(broker: Broker) -> Any:
    topic = broker.create("commit-states")
    with Group(broker, "commit-states") as group:
        leader, second = group.member(b"a"), group.member(b"b")
        group.gather(leader, second)
        seen = {"CompletingRebalance": [leader.commit(topic, 1), second.commit(topic, 2)]}
        leader.sync({leader: b"0", second: b"1"})
        second.sync()
        seen["Stable"] = [second.commit(topic, 3)]
        leader.send_join()
        group.wait_for_state("PreparingRebalance")
        seen["PreparingRebalance"] = [second.commit(topic, 4), group.committed(topic)]
        second.leave()
        leader.receive()
        leader.leave()
        seen["Empty"] = [leader.commit(topic, 5), group.committed(topic)]
        return seen


@situation("OffsetCommit keeps a silent member alive")
def keeps_alive(broker: Broker) -> Any:
    topic = broker.create("commit-alive")
    with Group(broker, "commit-alive") as group:
        member = group.member(session_timeout_ms=SHORT_MS)
        group.settle(member)
        end = time.monotonic() + 2 * SHORT_MS / 1_000
        while time.monotonic() < end:
            answer = member.commit(topic, 3)
        return {"committed": answer, "heartbeat": member.heartbeat()}


@situation("OffsetCommit of unknown topics and partitions beside known ones")
def unknown_partitions(broker: Broker) -> Any:
    topic, nowhere = broker.create("commit-known", partitions=2), broker.name("commit-nowhere")
    with Group(broker, "commit-unknown") as group:
        rows = {topic: [_at(1), _at(2, 1), _at(3, 2), _at(4, -1)], nowhere: [_at(5)], "in valid": [_at(6)]}
        seen: dict[str, Any] = {}
        for version in (1, 9):
            answer = _commit(broker, group, rows, version)
            answer["topics"].sort(key=lambda row: row["name"])
            for row in answer["topics"]:
                row["partitions"].sort(key=lambda partition: partition["partition_index"])
            seen[f"v{version}"] = answer
        return seen | {"committed": [group.committed(topic, partition) for partition in range(3)]}


@situation("OffsetCommit with long metadata, null metadata and an empty one")
def metadata(broker: Broker) -> Any:
    topic = broker.create("commit-metadata", partitions=5)
    with Group(broker, "commit-metadata") as group:
        notes = ["", None, "a" * 4096, "a" * 4097, "ä" * 4096]
        rows = [_at(index, index, committed_metadata=note) for index, note in enumerate(notes)]
        answer = _commit(broker, group, {topic: rows})
        answer["topics"][0]["partitions"].sort(key=lambda partition: partition["partition_index"])
        return {"answer": answer, "committed": [group.committed(topic, index) for index in range(5)]}


@situation("OffsetCommit of negative and of huge offsets")
def odd_offsets(broker: Broker) -> Any:
    topic = broker.create("commit-offsets")
    with Group(broker, "commit-offsets") as group:
        return {
            offset: [_commit(broker, group, {topic: [_at(offset)]}), group.committed(topic)]
            for offset in (-1, -2, 0, 2**63 - 1, -(2**63))
        }


@situation("OffsetCommit with a leader epoch, before and after v6")
def leader_epochs(broker: Broker) -> Any:
    topic = broker.create("commit-epochs")
    with Group(broker, "commit-epochs") as group:
        return {
            f"v{version} epoch {epoch}": [
                _commit(broker, group, {topic: [_at(5, committed_leader_epoch=epoch)]}, version),
                group.committed(topic),
            ]
            for version in (5, 6, 9)
            for epoch in (-1, 0, 7, -5)
        }


@situation("OffsetCommit v2 to v4 with a retention time")
def retention_time(broker: Broker) -> Any:
    topic = broker.create("commit-retention")
    with Group(broker, "commit-retention") as group:
        return {
            f"v{version} {retention_ms}": [
                _commit(broker, group, {topic: [_at(5)]}, version, retention_time_ms=retention_ms),
                group.committed(topic),
            ]
            for version in (2, 3, 4)
            for retention_ms in (-1, 600_000)
        }


@situation("OffsetCommit of no topics, of no partitions, and with an empty group id")
def nothing(broker: Broker) -> Any:
    topic = broker.create("commit-nothing")
    with Group(broker, "commit-nothing") as group:
        seen = {
            "no topics": _commit(broker, group, {}),
            "state after no topics": group.state(),
            "no partitions": _commit(broker, group, {topic: []}),
            "empty group id": [
                _commit(broker, group, {topic: [_at(1)]}, version, group_id="") for version in (1, 2, 9)
            ],
        }
        broker.ask("DeleteGroups", 2, groups_names=[""])
        return seen


@situation("OffsetCommit of one partition twice in a request")
def twice(broker: Broker) -> Any:
    topic = broker.create("commit-twice")
    with Group(broker, "commit-twice") as group:
        seen = {"one topic": _commit(broker, group, {topic: [_at(5), _at(6)]}), "then": group.committed(topic)}
        rows = [{"name": topic, "partitions": [_at(offset)]} for offset in (7, 8)]
        seen["two topics"] = _commit(broker, group, {}, topics=rows)
        return seen | {"in the end": group.committed(topic)}
