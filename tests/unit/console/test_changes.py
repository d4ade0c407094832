"""What is said of the difference between two readings of a cluster."""

from __future__ import annotations

from sordini.console.readers.changes import CHANGES_MAX, ChangeLog, differences
from sordini.console.readers.cluster_state import BrokerRow, ClusterState, PartitionRow, TopicRow

Part = tuple[int | None, int, tuple[int, ...]]
"""Leader, leader epoch, in-sync replicas."""


def state(parts: dict[str, Part], brokers: tuple[int, ...] = (1, 2, 3), controller: int | None = 1) -> ClusterState:
    """Partitions by `topic:number`."""
    rows = []
    for name, (leader, epoch, in_sync) in parts.items():
        topic, _, number = name.rpartition(":")
        rows.append(PartitionRow(topic, int(number), leader, epoch, (1, 2, 3), in_sync))
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.topic] = counts.get(row.topic, 0) + 1
    topics = [TopicRow(name, False, count, 3, 0, 0) for name, count in counts.items()]
    ids = [BrokerRow(one, f"kafka-{one}:9092", None, one == controller, 0, 0, 0) for one in brokers]
    return ClusterState("id", controller, ids, topics, rows)


ALL = (1, 2, 3)
CALM = state({"a:0": (1, 4, ALL), "a:1": (2, 4, ALL)})


def texts(before: ClusterState, after: ClusterState) -> list[str]:
    return [f"{one.kind}: {one.text}" for one in differences(before, after, 7)]


def test_a_calm_cluster_has_no_changes() -> None:
    assert texts(CALM, CALM) == []


def test_a_broker_that_goes_away_is_named_with_what_follows() -> None:
    after = state({"a:0": (2, 5, (2, 3)), "a:1": (2, 4, (2, 3))}, (2, 3), 2)
    assert texts(CALM, after) == [
        "broker: broker 1 is gone",
        "controller: broker 2 is the controller, it was broker 1",
        "election: leader 2 after 1: a:0",
        "in-sync replicas: broker 1 fell behind: a:0, a:1",
    ]
    assert texts(after, CALM)[0] == "broker: broker 1 is there"
    assert texts(after, CALM)[-1] == "in-sync replicas: broker 1 is in sync again: a:0, a:1"


def test_an_election_that_ends_where_it_began_is_seen_by_its_epoch() -> None:
    assert texts(CALM, state({"a:0": (1, 6, ALL), "a:1": (2, 4, ALL)})) == ["election: leader 1 elected again: a:0"]


def test_a_partition_without_a_leader_is_bad() -> None:
    (change,) = differences(CALM, state({"a:0": (None, 5, ALL), "a:1": (2, 4, ALL)}), 7)
    assert (change.text, change.is_bad, change.at_ms) == ("no leader, it was broker 1: a:0", True, 7)


def test_topics_are_created_deleted_and_enlarged() -> None:
    after = state({"b:0": (1, 0, ALL), "b:1": (1, 0, ALL)})
    assert texts(CALM, after) == ["topic: b created", "topic: a deleted"]
    enlarged = state({"a:0": (1, 4, ALL), "a:1": (2, 4, ALL), "a:2": (3, 0, ALL)})
    assert texts(CALM, enlarged) == ["topic: a has 3 partitions, it had 2"]


def test_changes_of_many_partitions_are_one_line() -> None:
    before = state({f"a:{number}": (1, 0, ALL) for number in range(100)})
    after = state({f"a:{number}": (2, 1, ALL) for number in range(100)})
    assert texts(before, after) == ["election: leader 2 after 1: a:0, a:1, a:2, a:3, a:4 and 95 more"]


def test_a_broker_that_is_late_to_learn_of_an_election_makes_no_second_one() -> None:
    log = ChangeLog()
    elected = state({"a:0": (2, 5, ALL), "a:1": (2, 4, ALL)})
    for at_ms, seen in enumerate((CALM, elected, CALM, elected)):
        log.compare(seen, at_ms)
    assert [one.text for one in log.changes] == ["leader 2 after 1: a:0"]


def test_a_topic_that_was_made_again_is_seen_after_some_states() -> None:
    log = ChangeLog()
    log.compare(CALM, 0)
    for at_ms in range(1, 5):
        log.compare(state({"a:0": (3, 0, ALL), "a:1": (2, 4, ALL)}), at_ms)
    assert [one.text for one in log.changes] == ["leader 3 after 1: a:0"]


def test_a_cluster_that_does_not_answer_is_one_line_until_it_does() -> None:
    log = ChangeLog()
    log.compare(CALM, 10)
    for at_ms in (20, 30):
        log.miss(at_ms)
    log.compare(CALM, 40)
    assert [(one.at_ms, one.text) for one in log.changes] == [
        (20, "the cluster does not answer"),
        (40, "the cluster answers again"),
    ]
    assert log.since_ms == 10


def test_the_record_is_bounded() -> None:
    log = ChangeLog()
    for number in range(CHANGES_MAX + 10):
        log.compare(state({"a:0": (1 + number % 2, number, ALL)}), number)
    assert len(log.changes) == CHANGES_MAX
    assert log.changes[-1].at_ms == CHANGES_MAX + 9
