"""TxnOffsetCommit: a group's offsets inside a transaction, and what is read of them before and after its end."""

from typing import Any

from tests.compat.situations.members import Group
from tests.compat.situations.producers import Producer, at, fetched, initialised, settled
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker

VERSIONS = range(5)
"""Those that need an AddOffsetsToTxn before."""


def _begun(broker: Broker, group: Group, name: str) -> Producer:
    """A producer whose transaction has the group's offsets."""
    producer = initialised(broker, name)
    added = producer.add_offsets(group.id)
    assert added["error_code"] == 0, added
    return producer


def _read(group: Group, topic: str, partition: int = 0) -> Any:
    return {
        "stable": fetched(group, topic, stable=True, partition=partition),
        "any": fetched(group, topic, stable=False, partition=partition),
    }


@situation("TxnOffsetCommit v0 to v4 is read once its transaction is committed")
def committed(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-committed", partitions=2)
    seen = {}
    for version in VERSIONS:
        with Group(broker, f"txn-offsets-committed-v{version}") as group:
            producer = _begun(broker, group, f"txn-offsets-committed-v{version}")
            rows = {topic: [at(5, committed_metadata="note"), at(6, 1, committed_leader_epoch=0)]}
            answer = producer.commit_offsets(group.id, rows, version)
            open_ones = [_read(group, topic), _read(group, topic, 1)]
            seen[version] = [answer, open_ones, producer.commit(), settled(group, topic), settled(group, topic, 1)]
    return seen


@situation("TxnOffsetCommit v0 to v4 leaves the offsets as they were when its transaction is aborted")
def aborted(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-aborted", partitions=2)
    seen = {}
    for version in VERSIONS:
        with Group(broker, f"txn-offsets-aborted-v{version}") as group:
            broker.ask("OffsetCommit", 8, group_id=group.id, topics=[{"name": topic, "partitions": [at(3)]}])
            producer = _begun(broker, group, f"txn-offsets-aborted-v{version}")
            answer = producer.commit_offsets(group.id, {topic: [at(5), at(6, 1)]}, version)
            open_ones = [_read(group, topic), _read(group, topic, 1)]
            seen[version] = [answer, open_ones, producer.abort(), settled(group, topic), settled(group, topic, 1)]
    return seen


@situation("OffsetFetch v6 to v9 of a group with an open transaction, of some partitions and of all")
def fetched_while_open(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-fetched", partitions=3)
    with Group(broker, "txn-offsets-fetched") as group:
        broker.ask("OffsetCommit", 8, group_id=group.id, topics=[{"name": topic, "partitions": [at(3), at(4, 2)]}])
        producer = _begun(broker, group, "txn-offsets-fetched")
        producer.commit_offsets(group.id, {topic: [at(5), at(6, 1)]})
        asked = {"some": [{"name": topic, "partition_indexes": [0, 1, 2]}], "all": None}
        seen: dict[str, Any] = {}
        for name, topics in asked.items():
            for version in (6, 7, 8, 9):
                one = {"group_id": group.id, "topics": topics}
                fields: dict[str, Any] = one if version < 8 else {"groups": [one]}
                stable = {"require_stable": True} if version >= 7 else {}
                answer = broker.ask("OffsetFetch", version, **fields, **stable)
                for row in answer.get("groups", [answer]):
                    for found in row["topics"]:
                        found["partitions"].sort(key=lambda partition: partition["partition_index"])
                seen[f"{name} v{version}"] = answer
        return seen | {"end": producer.abort()}


@situation("TxnOffsetCommit without an AddOffsetsToTxn before")
def not_added(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-not-added")
    with Group(broker, "txn-offsets-not-added") as group:
        producer = initialised(broker, "txn-offsets-not-added")
        seen: dict[str, Any] = {}
        for version in VERSIONS:
            seen[f"Empty v{version}"] = producer.commit_offsets(group.id, {topic: [at(5)]}, version)
        producer.add({topic: [0]})
        for version in VERSIONS:
            seen[f"Ongoing v{version}"] = producer.commit_offsets(group.id, {topic: [at(5)]}, version)
        return seen | {"read": _read(group, topic), "end": producer.commit()}


@situation("TxnOffsetCommit after its transaction was committed")
def after_the_end(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-late")
    with Group(broker, "txn-offsets-late") as group:
        producer = _begun(broker, group, "txn-offsets-late")
        producer.commit_offsets(group.id, {topic: [at(5)]})
        producer.commit()
        settled(group, topic)
        late = [producer.commit_offsets(group.id, {topic: [at(9)]}, version) for version in VERSIONS]
        return [late, _read(group, topic)]


@situation("TxnOffsetCommit with a wrong epoch, a wrong id, and an unknown or empty transactional id")
def refused(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-refused")
    with Group(broker, "txn-offsets-refused") as group:
        producer, other = initialised(broker, "txn-offsets-refused"), broker.new_producer_id()
        producer.init()
        producer.add_offsets(group.id)
        asked: dict[str, Any] = {
            "an older epoch": {"producer_epoch": 0},
            "a newer epoch": {"producer_epoch": 2},
            "another id": {"producer_id": other},
            "unknown": {"transactional_id": broker.name("txn-offsets-nowhere")},
            "empty": {"transactional_id": ""},
        }
        seen = {
            f"{name} v{version}": producer.commit_offsets(group.id, {topic: [at(5)]}, version, **changes)
            for name, changes in asked.items()
            for version in VERSIONS
        }
        return seen | {"read": _read(group, topic), "end": producer.commit()}


@situation("TxnOffsetCommit with a wrong epoch once the transaction has offsets in the group's log")
def refused_while_open(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-refused-open", partitions=2)
    with Group(broker, "txn-offsets-refused-open") as group:
        producer = initialised(broker, "txn-offsets-refused-open")
        producer.init()
        producer.add_offsets(group.id)
        producer.commit_offsets(group.id, {topic: [at(5)]})
        seen = {
            f"epoch {epoch} v{version}": producer.commit_offsets(
                group.id, {topic: [at(6, 1)]}, version, producer_epoch=epoch
            )
            for epoch in (0, 1)
            for version in (0, 3, 4)
        }
        return [seen, producer.commit(), settled(group, topic), settled(group, topic, 1)]


@situation("TxnOffsetCommit of unknown topics and partitions beside known ones")
def unknown_partitions(broker: Broker) -> Any:
    topic, nowhere = broker.create("txn-offsets-known", partitions=2), broker.name("txn-offsets-unknown")
    with Group(broker, "txn-offsets-unknown") as group:
        producer = _begun(broker, group, "txn-offsets-unknown")
        rows = {topic: [at(1), at(3, 2), at(4, -1)], nowhere: [at(5)], "in valid": [at(6)], "": [at(7)]}
        answers = [producer.commit_offsets(group.id, rows, version) for version in VERSIONS]
        alone = producer.commit_offsets(group.id, {nowhere: [at(5)]})
        return [answers, alone, _read(group, topic), producer.commit(), settled(group, topic)]


@situation("TxnOffsetCommit with long metadata, null metadata and an empty one")
def metadata(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-metadata", partitions=4)
    with Group(broker, "txn-offsets-metadata") as group:
        producer = _begun(broker, group, "txn-offsets-metadata")
        notes = ["", None, "a" * 4096, "a" * 4097]
        rows = [at(index, index, committed_metadata=note) for index, note in enumerate(notes)]
        answer = producer.commit_offsets(group.id, {topic: rows})
        producer.commit()
        return [answer, [settled(group, topic, index) for index in range(4)]]


@situation("TxnOffsetCommit of no topics, of no partitions, and with an empty group id")
def nothing(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-nothing")
    with Group(broker, "txn-offsets-nothing") as group:
        producer = _begun(broker, group, "txn-offsets-nothing")
        empty = producer.add_offsets("")
        seen = {
            "no topics": [producer.commit_offsets(group.id, {}, version) for version in VERSIONS],
            "no partitions": [producer.commit_offsets(group.id, {topic: []}, version) for version in VERSIONS],
            "empty group id": [producer.commit_offsets("", {topic: [at(1)]}, version) for version in VERSIONS],
        }
        return [empty, seen, group.state(), producer.commit()]


@situation("TxnOffsetCommit of negative and of huge offsets, and with leader epochs")
def odd_offsets(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-odd")
    seen: dict[str, Any] = {}
    with Group(broker, "txn-offsets-odd") as group:
        producer = initialised(broker, "txn-offsets-odd")
        for offset, epoch in ((-1, -1), (-2, 3), (0, 0), (2**63 - 1, 7), (5, -5)):
            producer.add_offsets(group.id)
            row = at(offset, committed_leader_epoch=epoch)
            answer = producer.commit_offsets(group.id, {topic: [row]})
            seen[f"{offset} {epoch}"] = [answer, producer.commit(), settled(group, topic)]
    return seen


@situation("TxnOffsetCommit twice in one transaction: the last one is committed")
def twice(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-twice", partitions=2)
    with Group(broker, "txn-offsets-twice") as group:
        producer = _begun(broker, group, "txn-offsets-twice")
        answers = [producer.commit_offsets(group.id, {topic: [at(offset), at(offset, 1)]}) for offset in (5, 9, 7)]
        return [answers, producer.commit(), settled(group, topic), settled(group, topic, 1)]


@situation("TxnOffsetCommit of one partition twice in a request")
def twice_in_a_request(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-row-twice")
    with Group(broker, "txn-offsets-row-twice") as group:
        producer = _begun(broker, group, "txn-offsets-row-twice")
        answer = producer.commit_offsets(group.id, {topic: [at(5), at(6)]})
        return [answer, producer.commit(), settled(group, topic)]


@situation("an OffsetCommit that overtakes an open transaction's offset outlasts its commit")
def overtaken(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-overtaken", partitions=2)
    seen = {}
    for name, outcome in (("commit", Producer.commit), ("abort", Producer.abort)):
        with Group(broker, f"txn-offsets-overtaken-{name}") as group:
            producer = _begun(broker, group, f"txn-offsets-overtaken-{name}")
            producer.commit_offsets(group.id, {topic: [at(5), at(6, 1)]})
            topics = [{"name": topic, "partitions": [at(3)]}]
            answer = broker.ask("OffsetCommit", 8, group_id=group.id, topics=topics)
            open_ones = [_read(group, topic), _read(group, topic, 1)]
            seen[name] = [answer, open_ones, outcome(producer), settled(group, topic), settled(group, topic, 1)]
    return seen


@situation("two transactions with offsets of one partition, ended in either order")
def two_transactions(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-two")
    seen = {}
    ends = {"both, in order": (0, 1), "both, in reverse": (1, 0)}
    for name, order in ends.items():
        with Group(broker, f"txn-offsets-two-{order[0]}") as group:
            both = [_begun(broker, group, f"txn-offsets-two-{order[0]}-{index}") for index in (0, 1)]
            written = [
                producer.commit_offsets(group.id, {topic: [at(5 + index)]}) for index, producer in enumerate(both)
            ]
            first = [both[order[0]].commit(), fetched(group, topic, stable=True)]
            seen[name] = [written, first, both[order[1]].commit(), settled(group, topic)]
    return seen


@situation("a group that has offsets of an open transaction alone, described, listed and deleted")
def group_of_a_transaction(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-group")
    with Group(broker, "txn-offsets-group") as group:
        before = group.describe()
        producer = _begun(broker, group, "txn-offsets-group")
        producer.commit_offsets(group.id, {topic: [at(5)]})
        listed = broker.ask("ListGroups", 4, states_filter=[])["groups"]
        seen = {
            "before": before,
            "described": group.describe(),
            "listed": [row for row in listed if row["group_id"] == group.id],
            "deleted": broker.ask("DeleteGroups", 2, groups_names=[group.id]),
            "commit": producer.commit(),
        }
        return seen | {"read": settled(group, topic), "afterwards": group.describe()}


@situation("DeleteGroups of an Empty group with offsets, committed ones and an open transaction's")
def deleted_group(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-deleted", partitions=2)
    with Group(broker, "txn-offsets-deleted") as group:
        broker.ask("OffsetCommit", 8, group_id=group.id, topics=[{"name": topic, "partitions": [at(3)]}])
        producer = _begun(broker, group, "txn-offsets-deleted")
        producer.commit_offsets(group.id, {topic: [at(5), at(6, 1)]})
        answer = broker.ask("DeleteGroups", 2, groups_names=[group.id])
        open_ones = [_read(group, topic), _read(group, topic, 1), group.state()]
        return [answer, open_ones, producer.commit(), settled(group, topic), settled(group, topic, 1), group.state()]


@situation("OffsetDelete of a partition that an open transaction has an offset of")
def deleted_offset(broker: Broker) -> Any:
    topic = broker.create("txn-offsets-forgotten")
    with Group(broker, "txn-offsets-forgotten") as group:
        broker.ask("OffsetCommit", 8, group_id=group.id, topics=[{"name": topic, "partitions": [at(3)]}])
        producer = _begun(broker, group, "txn-offsets-forgotten")
        producer.commit_offsets(group.id, {topic: [at(5)]})
        rows = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = broker.ask("OffsetDelete", 0, group_id=group.id, topics=rows)
        return [answer, _read(group, topic), producer.commit(), settled(group, topic)]


@situation("the offsets of a transaction for a topic that is deleted before the commit")
def deleted_topic(broker: Broker) -> Any:
    kept, deleted = broker.create("txn-offsets-kept"), broker.create("txn-offsets-topic-deleted")
    with Group(broker, "txn-offsets-topic-deleted") as group:
        producer = _begun(broker, group, "txn-offsets-topic-deleted")
        producer.commit_offsets(group.id, {kept: [at(5)], deleted: [at(6)]})
        broker.ask("DeleteTopics", 4, topic_names=[deleted], timeout_ms=10_000)
        return [producer.commit(), settled(group, kept)]
